// Package fault holds the kinds of failure drover knows and, beside each, the
// user's next step.
//
// A fault is made once, at the place where both its kind and its remedy are
// known. All callers wrap it with %w and only to add a fact. The hint is
// printed by package cli alone, on a line of its own; HintParts is for other front ends.
//
// It refuses to know what was being done, where, or how to print it. The exit
// table below is proved by fault_test.go, the hints by cmd/drover's scripts.
package fault

import (
	"context"
	"errors"
	"fmt"
)

// Kind says what must happen next, and by which side.
type Kind int

// The closed set of kinds. The zero Kind is Bug, so a forgotten kind is ours.
const (
	Bug         Kind = iota // ours: report it
	Full                    // no room here now: wait, or go elsewhere
	Lost                    // a machine or connection went away: replaced, free of charge
	Failed                  // the user's own code: spends an attempt
	Invalid                 // what was asked for cannot be: stop and say
	Denied                  // not allowed: stop and say
	Missing                 // what was named is not there: stop and say
	TimedOut                // the time limit that the user set
	Interrupted             // a person or a machine asked us to stop
)

var names = [...]string{"bug", "full", "lost", "failed", "invalid", "denied", "missing", "timed out", "interrupted"}

// String is the kind's name as it stands in events and JSON.
func (k Kind) String() string {
	if k < 0 || int(k) >= len(names) {
		return "bug"
	}
	return names[k]
}

// Fault is an error with a kind and, where there is one, a remedy.
type Fault struct {
	Kind Kind
	Text string // "doing: where: why", lower case, no full stop
	Hint string // one sentence, with what can be typed between backquotes; empty when there is none
	Code int    // the exit status where the kind alone does not give it (a program's own); 0: by kind
	Err  error  // the cause, may be nil
}

// Error is the text, followed by the cause.
func (f *Fault) Error() string {
	if f.Err == nil {
		return f.Text
	}
	if f.Text == "" {
		return f.Err.Error()
	}
	return f.Text + ": " + f.Err.Error()
}

// Unwrap gives the cause.
func (f *Fault) Unwrap() error { return f.Err }

// New makes a fault without a cause. Text is formatted as by fmt.Sprintf; hint is not: in it
// stand commands and options between backquotes, "Continue it: `drover resume ab12`."
func New(k Kind, hint, format string, args ...any) *Fault {
	return &Fault{Kind: k, Hint: hint, Text: fmt.Sprintf(format, args...)}
}

// Wrap makes a fault over a cause; its text is "format: cause".
func Wrap(err error, k Kind, hint, format string, args ...any) *Fault {
	return &Fault{Kind: k, Hint: hint, Text: fmt.Sprintf(format, args...), Err: err}
}

// KindOf finds the kind of the outermost fault in err's chain. An error without
// one is a Bug, a cancelled context is Interrupted.
func KindOf(err error) Kind {
	var f *Fault
	switch {
	case errors.As(err, &f):
		return f.Kind
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Bug
}

// The exit statuses that are drover's own. A one-node run passes its program's
// status through, so these are chosen where programs rarely stand.
const (
	ExitOK       = 0
	ExitItems    = 1 // a map ended with failed items
	ExitUsage    = 2 // the command line or the spec is wrong; nothing was changed
	ExitComplete = 3 // --plan only: nothing to do, already complete
	// ExitLater is the status of an agent that leaves work behind (EX_TEMPFAIL): an engine that
	// starts agents again on failure starts another.
	ExitLater       = 75
	ExitTimeLimit   = 124 // --timeout, as timeout(1)
	ExitDrover      = 125 // drover or the provider, not the program
	ExitInterrupted = 130
	ExitPipe        = 141 // stdout has no reader any more, as a shell says it of SIGPIPE
)

// Exit maps an error to drover's exit status: the one table.
func Exit(err error) int {
	if err == nil {
		return ExitOK
	}
	var f *Fault
	if errors.As(err, &f) && f.Code != 0 {
		return f.Code
	}
	switch KindOf(err) {
	case Invalid, Missing:
		return ExitUsage
	case TimedOut:
		return ExitTimeLimit
	case Interrupted:
		return ExitInterrupted
	case Failed:
		return ExitItems
	}
	return ExitDrover
}
