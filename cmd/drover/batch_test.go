package main_test

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/cloud/amazon/registry/registrytest"
	"github.com/drover-run/drover/driver/batch/batchtest"
)

// Scripts with AWS Batch as their target, each with an account of its own: a fake, of which nothing is
// claimed about AWS. No job of theirs begins.
func TestScriptsOnAFakeOfBatch(t *testing.T) {
	scriptsOnAFake(t, "batch", func(t *testing.T) fakeTarget {
		fake := batchtest.New(t)
		fake.Hold()
		fake.Stacks.Hurry()
		environ := fake.Environ()
		maps.Copy(environ, fake.Images.Environ())
		environ["ECR"] = registrytest.Host
		return fakeTarget{environ, map[string]func(*testscript.TestScript, bool, []string){
			"queue": func(ts *testscript.TestScript, neg bool, args []string) { changeQueue(ts, fake, neg, args) },
			"sent":  func(ts *testscript.TestScript, neg bool, args []string) { checkSent(ts, fake, neg, args) },
			"repositories": func(ts *testscript.TestScript, neg bool, args []string) {
				need(ts, neg, args, 1, "repositories N")
				if all := fake.Images.Repositories(); strconv.Itoa(len(all)) != args[0] {
					ts.Fatalf("there are %s", all)
				}
			},
			"account": func(ts *testscript.TestScript, neg bool, args []string) { changeAccount(ts, fake, neg, args) },
		}}
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

// checkSent looks at the last request of an operation:
//
//	sent OPERATION TEXT   fails unless it has that text
func checkSent(ts *testscript.TestScript, fake *batchtest.Server, neg bool, args []string) {
	need(ts, neg, args, 2, "sent OPERATION TEXT")
	if sent := fake.Sent(args[0]); !strings.Contains(sent, args[1]) {
		ts.Fatalf("%s has no %s: %s", args[0], args[1], sent)
	}
}

// changeAccount changes what set-ups meet in a script's account:
//
//	account taken   another stack has the name of the project's
//	account free    it is gone
//	account full    it has as many networks as it may
//	account roomy   it may have more
//	account quota NAME VALUE   it may use so many cores at once
//	account has N   fails unless it has N stacks
func changeAccount(ts *testscript.TestScript, fake *batchtest.Server, neg bool, args []string) {
	need(ts, neg, args, 1, "account WHAT")
	switch args[0] {
	case "taken":
		fake.Stacks.Occupy(true)
	case "free":
		fake.Stacks.Occupy(false)
	case "full":
		fake.Stacks.FailResource("Network", "The maximum number of VPCs has been reached.")
	case "roomy":
		fake.Stacks.FailResource("Network", "")
	case "quota":
		need(ts, neg, args, 3, "account quota NAME VALUE")
		value, err := strconv.ParseFloat(args[2], 64)
		ts.Check(err)
		fake.Quotas.Set(args[1], value)
	case "has":
		need(ts, neg, args, 2, "account has N")
		if n := len(fake.Stacks.Names()); strconv.Itoa(n) != args[1] {
			ts.Fatalf("there are %d stacks", n)
		}
	default:
		ts.Fatalf("account: %q is not known", args)
	}
}
