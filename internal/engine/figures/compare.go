package figures

import (
	"fmt"
	"iter"
	"strconv"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/report"
)

// Compare gives the items of two jobs over the same list that differ: in their
// state, exit status, what they printed to standard output or answered, or their
// outputs. Of what was printed the beginning, the end and the length are known. How
// long they took and how often they were tried does not count.
func Compare(before, after iter.Seq2[report.ItemResult, error]) ([]report.Difference, error) {
	var found []report.Difference
	next, stop := iter.Pull2(after)
	defer stop()
	for a, err := range before {
		if err != nil {
			return nil, fmt.Errorf("compare jobs: %w", err)
		}
		b, err, ok := next()
		if err != nil {
			return nil, fmt.Errorf("compare jobs: %w", err)
		}
		if !ok || a.Value != b.Value {
			return nil, fault.New(fault.Bug, "", "compare jobs: item %d is not the same in both", a.Item)
		}
		if d := differ(a, b); d != nil {
			found = append(found, *d)
		}
	}
	return found, nil
}

// differ is what differs first between two runs of an item; nil: nothing.
func differ(a, b report.ItemResult) *report.Difference {
	d := &report.Difference{Item: a.Item, Value: a.Value}
	say := func(what, before, after string) bool {
		d.What, d.Before, d.After = what, before, after
		return before != after
	}
	if say("state", string(a.State), string(b.State)) || say("exit status", a.Status(), b.Status()) ||
		say("result", printedWords(a.Try), printedWords(b.Try)) || say("outputs", strconv.Itoa(len(a.Outputs)), strconv.Itoa(len(b.Outputs))) {
		return d
	}
	for i, x := range a.Outputs {
		y := b.Outputs[i]
		if say("outputs", x.Name, y.Name) || say(x.Name, x.SHA256, y.SHA256) || say(x.Name, modeWords(x), modeWords(y)) {
			return d
		}
	}
	return nil
}

func modeWords(f report.ItemFile) string { return fmt.Sprintf("mode %#o", f.Mode) }

// printedWords is what is kept of a try's standard output, as one text.
func printedWords(t report.Try) string {
	if t.Tail == "" {
		return t.Stdout
	}
	return fmt.Sprintf("%s ... %s (%d bytes)", t.Stdout, t.Tail, t.StdoutBytes)
}
