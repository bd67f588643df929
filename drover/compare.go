package drover

import (
	"context"
	"fmt"
	"iter"
	"strconv"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Difference is an item that two jobs over the same items have not ended alike.
type Difference struct {
	Item  int    `json:"item"`
	Value string `json:"value"`
	// What differs first: "state", "exit status", "result" or the name of an output.
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
	// Anyway says that a third, undisturbed run differed from the first in this item
	// too: it is not what befell the second that makes the difference.
	Anyway bool `json:"anyway,omitempty"`
}

// compare gives the items of two jobs over the same list that differ: in their
// state, exit status, what they printed to standard output or answered, or their
// outputs. Of what was printed the beginning, the end and the length are known. How
// long they took and how often they were tried does not count.
func compare(ctx context.Context, before, after *Job) ([]Difference, error) {
	var found []Difference
	next, stop := iter.Pull2(after.Results(ctx, ResultOptions{}))
	defer stop()
	for a, err := range before.Results(ctx, ResultOptions{}) {
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
func differ(a, b ItemResult) *Difference {
	d := &Difference{Item: a.Item, Value: a.Value}
	say := func(what, before, after string) bool {
		d.What, d.Before, d.After = what, before, after
		return before != after
	}
	if say("state", string(a.State), string(b.State)) || say("exit status", a.Status(), b.Status()) ||
		say("result", a.printedWords(), b.printedWords()) || say("outputs", strconv.Itoa(len(a.Outputs)), strconv.Itoa(len(b.Outputs))) {
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

func modeWords(f ItemFile) string { return fmt.Sprintf("mode %#o", f.Mode) }

// printedWords is what is kept of a try's standard output, as one text.
func (t Try) printedWords() string {
	if t.Tail == "" {
		return t.Stdout
	}
	return fmt.Sprintf("%s ... %s (%d bytes)", t.Stdout, t.Tail, t.StdoutBytes)
}

// alike says whether a state is one that the items of an undisturbed job end in.
func alike(s job.State) bool { return s == job.Succeeded || s == job.Failed }
