package main_test

import (
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/driver/batch/batchtest"
)

// Scripts with AWS Batch as their target, each with an account of its own: a fake, of which nothing is
// claimed about AWS. No job of theirs begins.
func TestScriptsOnAFakeOfBatch(t *testing.T) {
	scriptsOnAFake(t, "batch", func(t *testing.T) fakeTarget {
		fake := batchtest.New(t)
		fake.Hold()
		return fakeTarget{fake.Environ(), "queue", func(ts *testscript.TestScript, neg bool, args []string) { changeQueue(ts, fake, neg, args) }}
	})
}

// changeQueue changes a script's account:
//
//	queue state VALUE   the queue is in that state
//	queue without role  it has no tag with a role
//	queue has N         fails unless N jobs were submitted
func changeQueue(ts *testscript.TestScript, fake *batchtest.Server, neg bool, args []string) {
	need(ts, neg, args, 2, "queue WHAT VALUE")
	switch args[0] {
	case "state":
		fake.SetQueue(map[string]any{"state": args[1]})
	case "without":
		fake.SetQueue(map[string]any{"tags": nil})
	case "has":
		if n := fake.Submitted(); strconv.Itoa(n) != args[1] {
			ts.Fatalf("%d jobs were submitted", n)
		}
	default:
		ts.Fatalf("queue: %q is not known", args)
	}
}
