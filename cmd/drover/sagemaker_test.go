package main_test

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/cloud/amazon/registry/registrytest"
	"github.com/drover-run/drover/driver/sagemaker/sagemakertest"
)

// Scripts with SageMaker as their target, each with an account of its own: a fake, of which nothing is
// claimed about AWS. No job of theirs begins.
func TestScriptsOnAFakeOfSageMaker(t *testing.T) {
	scriptsOnAFake(t, "sagemaker", func(t *testing.T) fakeTarget {
		fake := sagemakertest.New(t)
		fake.Hold()
		fake.Stacks.Hurry()
		environ := fake.Environ()
		maps.Copy(environ, fake.Images.Environ())
		environ["ECR"] = registrytest.Host
		environ["AWS_ENDPOINT_URL_BATCH"] = fake.URL() // doctor asks there too, and would wait for a network
		return fakeTarget{environ, map[string]func(*testscript.TestScript, bool, []string){
			"sagemaker": func(ts *testscript.TestScript, neg bool, args []string) { checkSageMaker(ts, fake, neg, args) },
		}}
	})
}

// checkSageMaker looks at a script's account, or changes it:
//
//	sagemaker jobs N      fails unless N training jobs were created
//	sagemaker stacks N    fails unless there are N stacks
//	sagemaker sent TEXT   fails unless the newest request for a job has that text
//	sagemaker warm N      the machines of the N-th job are kept
//	sagemaker allow N     at most N machines run at once
func checkSageMaker(ts *testscript.TestScript, fake *sagemakertest.Server, neg bool, args []string) {
	need(ts, neg, args, 2, "sagemaker WHAT VALUE")
	is := func(n int, what string) {
		if strconv.Itoa(n) != args[1] {
			ts.Fatalf("there are %d %s", n, what)
		}
	}
	switch args[0] {
	case "jobs":
		is(len(fake.Jobs()), "jobs")
	case "stacks":
		is(len(fake.Stacks.Names()), "stacks")
	case "sent":
		if sent := fake.Sent("CreateTrainingJob"); !strings.Contains(sent, args[1]) {
			ts.Fatalf("no %s in %s", args[1], sent)
		}
	case "warm":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		fake.KeepWarm(fake.Jobs()[n-1])
	case "allow":
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		fake.Allow(n)
	default:
		ts.Fatalf("sagemaker: %q is not known", args)
	}
}
