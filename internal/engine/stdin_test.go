package engine

import (
	"os"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/stdin"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// distant is a target with agents that do not live beside the command line.
func distant(d driver.Driver) driver.Opened {
	o := mem.Open(d)
	o.Stdin = false
	return o
}

func piped(t *testing.T, text string) *stdin.Input {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	defer w.Close()
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	return stdin.Inspect(r)
}

func TestStandardInputIsRefusedWhereItWouldBeDropped(t *testing.T) {
	d := newDesk(t)
	d.Drivers["far"] = distant(d.mem)
	for _, c := range []struct {
		on, held string
		nodes    int
		refused  string
	}{
		{"mem", "1\n", 1, ""},
		{"mem", "1\n", 2, "give the pipe on standard input to the program: it runs on 2 nodes, and one standard input cannot be read by several"},
		{"mem", "", 2, ""},
		{"far", "1\n", 1, "give the pipe on standard input to the program: with --on far it does not run beside this command line"},
		{"far", "", 1, ""},
	} {
		d.Caller.Input = piped(t, c.held)
		p, err := d.Plan(t.Context(), spec(func(s *job.Spec) { s.On, s.Nodes = c.on, c.nodes }), false)
		switch {
		case c.refused == "" && (err != nil || (p.Spec.StdinOf != "") != (c.held != "" && c.on == "mem")):
			t.Errorf("%+v: %q, %v", c, p.Spec.StdinOf, err)
		case c.refused != "" && (fault.KindOf(err) != fault.Invalid || err.Error() != c.refused ||
			fault.Hint(err) != "Give the data with -i, or type < /dev/null behind the command if the program reads none."):
			t.Errorf("%+v: %v\n%s", c, err, fault.Hint(err))
		}
	}
}

func TestItemsHaveNoStandardInput(t *testing.T) {
	d := newDesk(t)
	d.Caller.Input = piped(t, "1\n")
	p, err := d.Plan(t.Context(), spec(func(s *job.Spec) { s.Verb, s.From, s.Args = job.Map, "1-4", []string{"{}"} }), false)
	d.check(err)
	defer p.Close()
	if p.Spec.StdinOf != "" {
		t.Errorf("a map has read %s", p.Spec.StdinOf)
	}
}

// A command with another standard input is another job beside one that is live, and no
// command goes on with a job without that job's standard input.
func TestAJobGoesOnWithItsStandardInputAlone(t *testing.T) {
	d := newDesk(t)
	d.Caller.Input = piped(t, "1\n")
	first := d.submit(spec())
	pending(d, first)
	second := d.other("cli-2")
	second.Caller.Input = piped(t, "2\n")
	p, err := second.Plan(t.Context(), spec(), false)
	d.check(err)
	if p.Action != report.ActionStart || p.Spec.Task == first.Task {
		t.Errorf("with another pipe it would %s in %s: %s", p.Action, p.Spec.Task, p.Note)
	}
	third := d.other("cli-3")
	third.Caller.Input = nil
	if p, err = third.Plan(t.Context(), spec(), false); err != nil || p.Action != report.ActionAttach {
		t.Errorf("without any it would %s: %v", p.Action, err)
	}
	j := d.load(first)
	if _, err := third.stdinForPlacement(p.Properties, j); fault.KindOf(err) != fault.Invalid ||
		err.Error() != "go on with job "+j.Short+": its program reads a pipe on standard input, and this command has none" ||
		fault.Hint(err) != "Give it again: ... | drover resume "+j.Short+"; or end the job with drover cancel "+j.Short+"." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
	for _, e := range []*Engine{d.Engine, second} {
		if f, err := e.stdinForPlacement(p.Properties, j); err != nil || f != e.Caller.Input.File {
			t.Errorf("an agent is given %v: %v", f, err)
		}
	}
}
