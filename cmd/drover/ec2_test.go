package main_test

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/cloud/amazon/registry/registrytest"
	"github.com/drover-run/drover/driver/ec2/ec2test"
)

// Scripts with EC2 as their target, each with an account of its own: a fake, of which nothing is claimed about AWS. Its machines
// run nothing.
func TestScriptsOnAFakeOfEC2(t *testing.T) {
	scriptsOnAFake(t, "ec2", func(t *testing.T) fakeTarget {
		fake := ec2test.New(t)
		fake.BreakAMI()
		fake.Stacks.Hurry()
		environ := fake.Environ()
		maps.Copy(environ, fake.Images.Environ())
		environ["ECR"] = registrytest.Host
		for _, service := range []string{"BATCH", "SAGEMAKER"} {
			environ["AWS_ENDPOINT_URL_"+service] = fake.URL() // doctor asks there too, and would wait for a network
		}
		return fakeTarget{environ, map[string]func(*testscript.TestScript, bool, []string){
			"ec2": func(ts *testscript.TestScript, neg bool, args []string) { checkEC2(ts, fake, neg, args) },
		}}
	})
}

// checkEC2 looks at a script's account, or changes it:
//
//	ec2 machines N        fails unless N machines live
//	ec2 groups N          fails unless there are N Auto Scaling groups, and as many launch templates
//	ec2 script N          fails unless what machines are told has less than N bytes
//	ec2 stacks N          fails unless there are N stacks
//	ec2 quota NAME=N      sets a quota
//	ec2 refuse TEXT       no machine is launched, for a reason; "": they are
func checkEC2(ts *testscript.TestScript, fake *ec2test.Server, neg bool, args []string) {
	need(ts, neg, args, 2, "ec2 WHAT VALUE")
	is := func(n int, what string) {
		if strconv.Itoa(n) != args[1] {
			ts.Fatalf("there are %d %s", n, what)
		}
	}
	switch args[0] {
	case "machines":
		is(len(fake.Machines()), "machines")
	case "groups":
		is(len(fake.Groups()), "groups")
		is(len(fake.Templates()), "launch templates")
	case "script":
		_, text := fake.Template(fake.Templates()[0])
		most, err := strconv.Atoi(args[1])
		ts.Check(err)
		if len(text) >= most {
			ts.Fatalf("it has %d bytes", len(text))
		}
	case "stacks":
		is(len(fake.Stacks.Names()), "stacks")
	case "quota":
		name, value, _ := strings.Cut(args[1], "=")
		n, err := strconv.ParseFloat(value, 64)
		ts.Check(err)
		fake.Quotas.Set(name, n)
	case "refuse":
		fake.Refuse(args[1])
	default:
		ts.Fatalf("ec2: %q is not known", args)
	}
}
