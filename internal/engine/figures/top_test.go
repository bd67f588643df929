package figures

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

func TestANumberIsFoundInWhatAnItemCameTo(t *testing.T) {
	long := strings.Repeat("epoch=1 loss=3.25 acc=0.25\n", 200)
	cut := func(head, tail string) report.Try { return report.Try{Stdout: head, Tail: tail, StdoutBytes: 1 << 20} }
	all := func(text string) report.Try { return report.Try{Stdout: text, StdoutBytes: int64(len(text))} }
	for name, row := range map[string]struct {
		try  report.Try
		by   string
		want string
	}{
		"a field":                {all(`{"acc":0.5,"n":{"a.b":[1,{"c":2}]}}`), "acc", "0.5"},
		"a path":                 {all(`{"acc":0.5,"n":{"a.b":[1,{"c":2}]}}`), "n.a.b.1.c", "2"},
		"a name with a dot":      {all(`{"a.b":1,"a":{"b":2}}`), "a.b", "1"},
		"and a path that fits":   {all(`{"a.b":"x","a":{"b":2}}`), "a.b", "2"},
		"a number as text":       {all(`{"acc":" 1e-3 "}`), "acc", "0.001"},
		"of a place beyond":      {all(`{"a":[1]}`), "a.1", ""},
		"a text":                 {all(`{"acc":"high"}`), "acc", ""},
		"NaN":                    {all(`{"acc":"NaN"}`), "acc", ""},
		"null":                   {all(`{"acc":null}`), "acc", ""},
		"an object":              {all(`{"acc":{"of":1}}`), "acc", ""},
		"no object":              {all(`[1]`), "0", ""},
		"nothing":                {all(``), "acc", ""},
		"the last line":          {all("loading\nacc=9\n{\"acc\":0.75}\n\n"), "acc", "0.75"},
		"what was printed last":  {all("epoch 1 acc=0.5\nepoch 2 acc=0.625 loss: nan\nbye\n"), "acc", "0.625"},
		"a number that is a gap": {all("loss: nan"), "loss", ""},
		"printed, beside JSON":   {all("acc=0.5\n{\"done\":true}\n"), "acc", "0.5"},
		"of a long output":       {cut(long[:2048], "s=3.25 acc=0.5\nepoch=9 acc=0.875\n"), "acc", "0.875"},
		"JSON behind a long one": {cut(long[:2048], "..\n{\"acc\":1}"), "acc", "1"},
		"no half of a number":    {cut("acc=0.12", "5 acc=0.5"), "acc", ""},
		"head and tail are all":  {report.Try{Stdout: `{"acc":0.`, Tail: `25}`, StdoutBytes: 12}, "acc", "0.25"},
	} {
		n := &numbers{by: row.by, seen: map[string]bool{}}
		got := ""
		if v, ok := n.numberOfTry(row.try); ok {
			got = fmt.Sprint(v)
		}
		if got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestAHintNamesWhatThereIs(t *testing.T) {
	for want, row := range map[string][2]string{
		"Did you mean --by acc?": {"accc", `{"acc":1,"loss":2}`},
		"There is acc, loss.":    {"recall", `{"loss":2,"acc":1,"name":"x"}`},
		"There is val_f1.":       {"recall", "val_f1=0.5"},
		"Let each item answer or print a JSON object, or a line such as acc=0.91.": {"acc", "hello"},
	} {
		n := &numbers{by: row[0], seen: map[string]bool{}}
		if _, ok := n.numberOfTry(report.Try{Stdout: row[1], StdoutBytes: int64(len(row[1]))}); ok || n.hintAtFields() != want {
			t.Errorf("%v: %q, want %q", row, n.hintAtFields(), want)
		}
	}
}

// The heap keeps what sorting all would.
func TestTheFirstOfAnOrder(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var all []report.Ranked
		h := &ranks{ascending: seed%2 == 0}
		most := 1 + r.IntN(8)
		for i := range r.IntN(30) {
			one := report.Ranked{Number: float64(r.IntN(6)), ItemResult: report.ItemResult{Item: i + 1, State: job.ItemSucceeded}}
			all = append(all, one)
			h.offerRanked(one, most)
		}
		slices.SortFunc(all, h.compareRanked)
		slices.SortFunc(h.list, h.compareRanked)
		want := all[:min(most, len(all))]
		if !slices.EqualFunc(h.list, want, func(a, b report.Ranked) bool { return a.Item == b.Item }) {
			t.Fatalf("%d of them: %v, want %v", most, h.list, want)
		}
		if len(want) > 1 && (want[0].Number < want[1].Number) != h.ascending && want[0].Number != want[1].Number {
			t.Fatalf("ascending %v: %v", h.ascending, want)
		}
	}
}
