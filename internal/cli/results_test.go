package cli

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/app/apptest"
	"github.com/drover-run/drover/internal/cli/clitest"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger/mapagent"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// aMap leaves a map of people in the store that has ended: dan failed, the rest
// printed a greeting and left a card.
func (d *desk) aMap() (short string) {
	d.t.Helper()
	ctx := d.t.Context()
	m := d.submitMap(job.Spec{Task: "greet", Program: "./greet.sh", Args: []string{"{name}"}, Items: job.Items{From: "people.csv", Format: "csv", Out: []string{"cards/{name}.txt"}}},
		2, items.Source{From: "-", Format: "csv", Stdin: strings.NewReader("name,town\nann,Bern\nbob,\"Rome, Italy\"\ncy,\x1b[31mred\ndan,Oslo\n")})
	logs, err := record.NewWriter(record.Options{Store: m.Store, Prefix: protocol.LogsPrefix(m.job.Path()), ID: "a", Clock: m.Store.Clock()})
	m.check(err)
	m.work(func(t mapagent.Try) protocol.Result {
		r := protocol.Result{Item: t.Item, Try: t.Name, Ended: 1_700_000_000_000_000, Wall: 1_250_000, CPU: 250_000, MaxRSS: 4 << 20, Head: fmt.Sprintf("hello %d\nand bye\n", t.Item), Size: 16}
		if t.Item == 4 {
			r.Failed, r.Code, r.Why, r.Head = true, 3, "no such town", ""
			_, err = logs.Copy(record.Stderr, 4, strings.NewReader("no such town\n"))
		} else {
			m.check(m.Store.CreateFile(ctx, protocol.OutPrefix(m.job.Path(), t.Item, t.Name)+"/"+card(t.Item), strings.NewReader("card")))
			r.Outputs = []protocol.Output{{Name: card(t.Item), Size: 4, SHA256: "8367cd66fdd136bba8ba23f8805bb050dd6289401c8ec3b0be44a3c233eef90d"}}
			_, err = logs.Copy(record.Stdout, uint64(t.Item), strings.NewReader(r.Head))
		}
		m.check(err)
		return r
	})
	m.check(logs.Close(ctx))
	return m.job.Short
}

func card(item int) string { return fmt.Sprintf("cards/%d.txt", item) }

// faceless makes what differs between two runs the same.
func faceless(text, short string) []string {
	text = regexp.MustCompile(`\b`+short+`\b`).ReplaceAllString(text, "7fk2") // an id may be a part of a word
	for _, r := range [][2]string{{`[0-9-]{10} [0-9:]{8}`, "DATE TIME"}, {`(\s+)[0-9.]+m?s(\s+\d succ)`, "${1}SPAN$2"}, {`DATE TIME, [0-9.]+s`, "DATE TIME, SPAN"}} {
		text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

func TestTheFacesOfAMap(t *testing.T) {
	home, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t)
	short := d.aMap()
	var lines []string
	for _, typed := range []string{"items last", "items last --state failed", "items last --state cancelled,quarantined", "items last 1", "items last 4", "results last", "results last --csv",
		"status last", "why last", "logs last", "logs last --prefix", "logs last --item 2", "logs last --item 4", "logs last --search bye --prefix -C 1", "wait last"} {
		out, said, err := d.typed(strings.Fields(typed)...)
		lines = append(lines, "$ drover "+typed)
		lines = append(lines, faceless(out+said, short)...)
		if fault.Exit(err) != 0 {
			lines = append(lines, fmt.Sprintf("exit status %d", apptest.ExitOf(err)))
		}
	}
	t.Chdir(home) // of the screens
	clitest.CheckScreen(t, "map-faces", lines)

	out, _, err := d.typed("status")
	if err != nil || !strings.Contains(out, "3 succeeded, 1 failed") {
		t.Errorf("status: %q, %v", out, err)
	}
}

func TestResultsAreForPrograms(t *testing.T) {
	d := newDesk(t)
	d.aMap()
	out, _, err := d.typed("results", "last", "--json")
	if err != nil {
		t.Fatal(err)
	}
	dec := json.NewDecoder(strings.NewReader(out))
	var got []string
	for dec.More() {
		var r struct {
			V, Item, Status int
			State           string
			Fields          map[string]string
			Stdout          string
			Seconds         float64
			Outputs         []struct {
				Name, SHA256 string
				Bytes        int
			}
		}
		if err := dec.Decode(&r); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintln(r.V, r.Item, r.Status, r.State, r.Fields["name"], len(r.Outputs), r.Seconds, len(r.Stdout)))
	}
	want := []string{"1 1 0 SUCCEEDED ann 1 1.25 16\n", "1 2 0 SUCCEEDED bob 1 1.25 16\n", "1 3 0 SUCCEEDED cy 1 1.25 16\n", "1 4 3 FAILED dan 0 1.25 0\n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("JSON (-want +got):\n%s", diff)
	}
	if out, _, err = d.typed("results", "last", "--csv"); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 5 || rows[2][2] != "Rome, Italy" || rows[3][2] != "\x1b[31mred" || rows[1][6] != "hello 1\nand bye\n" {
		t.Errorf("CSV %q, %v", rows, err)
	}
	for _, verb := range []string{"status", "items", "why"} {
		args := []string{verb, "last", "--json"}
		if out, _, err = d.typed(args...); err != nil || !json.Valid([]byte(strings.SplitN(out, "\n", 2)[0])) {
			t.Errorf("drover %s: %q, %v", verb, out, err)
		}
	}
	if out, _, err = d.typed("status", "--json"); err != nil || !strings.Contains(out, `"items":{"items":4,"succeeded":3,"failed":1}`) {
		t.Errorf("status --json: %q, %v", out, err)
	}
}

func TestGetOfAMapBringsWhatItemsLeft(t *testing.T) {
	d := newDesk(t)
	short := d.aMap()
	_, said, err := d.typed("get", "last", "-o", "out")
	if err != nil || !strings.Contains(said, "outputs  out (3 files of 3 items, 12 B)") {
		t.Errorf("%q, %v", said, err)
	}
	if b, err := os.ReadFile("out/cards/2.txt"); err != nil || string(b) != "card" {
		t.Errorf("%q, %v", b, err)
	}
	if _, said, err = d.typed("get", short, "-o", "out"); err != nil || !strings.Contains(said, "; 3 there before)") {
		t.Errorf("again: %q, %v", said, err)
	}
}

func TestItemsOfAnotherJobAreRefused(t *testing.T) {
	d := newDesk(t)
	d.aMap()
	for _, row := range []struct{ typed, text, hint string }{
		{"items last 5", "read item 5 of job", "Its items are 1 to 4."},
		{"items last 0", `"0" is not an item number`, "Items are numbered from 1:"},
		{"items last one", `"one" is not an item number`, "Items are numbered from 1:"},
		{"logs last --item 5", "read item 5 of job", "Its items are 1 to 4."},
		{"logs last --item 0", "read --item: 0", "Items are numbered from 1."},
		{"logs last --node 0", "which has items and no nodes", "Use --item."},
	} {
		out, _, err := d.typed(strings.Fields(row.typed)...)
		if fault.Exit(err) != fault.ExitUsage || out != "" || !strings.Contains(err.Error(), row.text) || !strings.HasPrefix(fault.Hint(err), row.hint) {
			t.Errorf("drover %s: %v\n  %s\n%s", row.typed, err, fault.Hint(err), out)
		}
	}
}
