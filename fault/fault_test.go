package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"testing"

	"github.com/drover-run/drover/fault"
)

// kinds is every kind with its name and exit status: the table that users'
// scripts may rely on.
var kinds = []struct {
	kind fault.Kind
	name string
	exit int
}{
	{fault.Bug, "bug", 125},
	{fault.Full, "full", 125},
	{fault.Lost, "lost", 125},
	{fault.Failed, "failed", 1},
	{fault.Invalid, "invalid", 2},
	{fault.Denied, "denied", 125},
	{fault.Missing, "missing", 2},
	{fault.TimedOut, "timed out", 124},
	{fault.Interrupted, "interrupted", 130},
}

func TestEveryKindHasANameAndAnExitStatus(t *testing.T) {
	for i, row := range kinds {
		if int(row.kind) != i {
			t.Fatalf("row %d is for kind %d: a kind has no row, or two", i, row.kind)
		}
		if got := row.kind.String(); got != row.name {
			t.Errorf("kind %d is called %q, want %q", i, got, row.name)
		}
		for _, err := range []error{
			fault.New(row.kind, "", "read x"),
			fmt.Errorf("run y: %w", fault.New(row.kind, "", "read x")),
			errors.Join(errors.New("plain"), fault.New(row.kind, "", "read x")),
		} {
			if got := fault.KindOf(err); got != row.kind {
				t.Errorf("kind of %v is %v, want %v", err, got, row.kind)
			}
			if got := fault.Exit(err); got != row.exit {
				t.Errorf("exit status of %v (%v) is %d, want %d", err, row.kind, got, row.exit)
			}
		}
	}
	// A kind added without a row above has a name of its own, which this finds.
	for _, beyond := range []fault.Kind{-1, fault.Kind(len(kinds)), 1 << 20} {
		if got := beyond.String(); got != "bug" {
			t.Errorf("kind %d is called %q and has no row in this table", beyond, got)
		}
	}
}

func TestErrorsWithoutAFaultAreOursOrAnInterruption(t *testing.T) {
	for _, row := range []struct {
		err  error
		kind fault.Kind
		exit int
	}{
		{nil, fault.Bug, fault.ExitOK},
		{errors.New("plain"), fault.Bug, fault.ExitDrover},
		{context.Canceled, fault.Interrupted, fault.ExitInterrupted},
		{fmt.Errorf("read x: %w", context.Canceled), fault.Interrupted, fault.ExitInterrupted},
		{context.DeadlineExceeded, fault.Bug, fault.ExitDrover}, // our own deadline, not --timeout
		{fault.Wrap(context.Canceled, fault.Lost, "", "read x"), fault.Lost, fault.ExitDrover},
	} {
		if got := fault.KindOf(row.err); got != row.kind {
			t.Errorf("kind of %v is %v, want %v", row.err, got, row.kind)
		}
		if got := fault.Exit(row.err); got != row.exit {
			t.Errorf("exit status of %v is %d, want %d", row.err, got, row.exit)
		}
	}
}

func TestTheProgramsOwnExitStatusPassesThrough(t *testing.T) {
	own := &fault.Fault{Kind: fault.Failed, Text: "run train.py: exit status 42", Code: 42}
	if got := fault.Exit(fmt.Errorf("run demo: %w", own)); got != 42 {
		t.Errorf("exit status is %d, want the program's 42", got)
	}
	// A caller that wraps it with another kind has decided otherwise.
	if got := fault.Exit(fault.Wrap(own, fault.Lost, "", "store result")); got != fault.ExitDrover {
		t.Errorf("exit status is %d, want that of the outermost fault", got)
	}
}

func TestTheOutermostKindCounts(t *testing.T) {
	inner := fault.New(fault.Missing, "", "open x: no such file")
	outer := fault.Wrap(fmt.Errorf("read code: %w", inner), fault.Invalid, "", "check job")
	if got := fault.KindOf(fmt.Errorf("submit: %w", outer)); got != fault.Invalid {
		t.Errorf("kind is %v, want %v", got, fault.Invalid)
	}
}

func TestHintIsTheOutermostOneThereIs(t *testing.T) {
	quiet := fault.New(fault.Lost, "", "read x")
	deep := fault.New(fault.Denied, "Try the inner.", "read x")
	for _, row := range []struct {
		name string
		err  error
		want string
	}{
		{"no error", nil, ""},
		{"a plain error", errors.New("plain"), ""},
		{"no hint at all", fmt.Errorf("a: %w", quiet), ""},
		{"a fault's own", deep, "Try the inner."},
		{"under a plain wrapping", fmt.Errorf("a: %w", deep), "Try the inner."},
		{"the outer before the inner", fault.Wrap(deep, fault.Lost, "Try the outer.", "a"), "Try the outer."},
		{"the inner where the outer has none", fault.Wrap(fmt.Errorf("b: %w", deep), fault.Lost, "", "a"), "Try the inner."},
		{"beside a fault without one", errors.Join(quiet, deep), "Try the inner."},
		{"the first of two", fmt.Errorf("%w and %w", fault.New(fault.Lost, "Try the first.", "a"), deep), "Try the first."},
	} {
		if got := fault.Hint(row.err); got != row.want {
			t.Errorf("%s: hint is %q, want %q", row.name, got, row.want)
		}
	}
}

func TestPartsOfAHint(t *testing.T) {
	err := fmt.Errorf("a: %w", fault.New(fault.Invalid, "Use `--memory 2G`, `--spot=first` or `-y`; wait: `drover wait ab12`, and `ulimit -n` a`b.", "check job"))
	if got, want := fault.Hint(err), "Use --memory 2G, --spot=first or -y; wait: drover wait ab12, and ulimit -n a`b."; got != want {
		t.Errorf("hint is %q, want %q", got, want)
	}
	want := []fault.Part{{fault.Words, "Use "}, {fault.Option, "--memory 2G"}, {fault.Words, ", "}, {fault.Option, "--spot=first"}, {fault.Words, " or "}, {fault.Option, "-y"},
		{fault.Words, "; wait: "}, {fault.Command, "drover wait ab12"}, {fault.Words, ", and "}, {fault.Shell, "ulimit -n"}, {fault.Words, " a`b."}}
	parts := fault.HintParts(err)
	if !slices.Equal(parts, want) {
		t.Fatalf("parts are\n%v, want\n%v", parts, want)
	}
	for at, row := range map[int][3]string{0: {}, 1: {"", "memory", "2G"}, 3: {"", "spot", "first"}, 5: {"", "y", ""}, 7: {"wait", "", ""}, 9: {}} {
		name, value := parts[at].Option()
		if got := [3]string{parts[at].Verb(), name, value}; got != row {
			t.Errorf("%q: verb, option and value are %q, want %q", parts[at].Text, got, row)
		}
	}
	// A fault over another one keeps the marks.
	if again := fault.New(fault.Invalid, fault.MarkedHint(err), "b"); !slices.Equal(fault.HintParts(again), want) {
		t.Errorf("parts of the second are %v", fault.HintParts(again))
	}
	// A file's name may have backquotes, too.
	if got, want := fault.HintParts(fault.New(fault.Invalid, "Type `chmod +x a`b`c`, or look at a`b`c.", "c")), []fault.Part{{fault.Words, "Type "}, {fault.Shell, "chmod +x a`b`c"}, {fault.Words, ", or look at a`b`c."}}; !slices.Equal(got, want) {
		t.Errorf("a name with backquotes gives the parts %v", got)
	}
	typed := "drover map --shell 'echo `date`'"
	if got := fault.HintParts(fault.New(fault.Invalid, "Type "+fault.Mark(typed), "c")); !slices.Equal(got, []fault.Part{{fault.Words, "Type "}, {fault.Command, typed}}) {
		t.Errorf("a marked command with backquotes has the parts %v", got)
	}
	if got := fault.HintParts(errors.New("plain")); got != nil {
		t.Errorf("no hint has parts %v", got)
	}
}

func TestTextIsFollowedByTheCause(t *testing.T) {
	for _, row := range []struct {
		err  error
		want string
	}{
		{fault.New(fault.Invalid, "Use %d.", "check job: %d nodes", 0), "check job: 0 nodes"},
		{fault.Wrap(fs.ErrNotExist, fault.Missing, "", "open %s", "x"), "open x: file does not exist"},
		{&fault.Fault{Err: fs.ErrNotExist}, "file does not exist"},
	} {
		if got := row.err.Error(); got != row.want {
			t.Errorf("text is %q, want %q", got, row.want)
		}
	}
	if got := fault.Hint(fault.New(fault.Invalid, "Use %d.", "check job: %d nodes", 0)); got != "Use %d." {
		t.Errorf("hint is %q: it was formatted", got)
	}
}

func TestTheCauseIsFoundThroughAFault(t *testing.T) {
	err := fmt.Errorf("a: %w", fault.Wrap(fmt.Errorf("b: %w", fs.ErrPermission), fault.Denied, "", "c"))
	if !errors.Is(err, fs.ErrPermission) {
		t.Errorf("%v does not unwrap to %v", err, fs.ErrPermission)
	}
	if errors.Unwrap(fault.New(fault.Bug, "", "a")) != nil {
		t.Error("a fault without a cause unwraps to one")
	}
}
