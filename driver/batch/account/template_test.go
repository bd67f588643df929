package account

import (
	_ "embed"
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
)

//go:embed testdata/stack.golden
var golden string

var update = flag.Bool("update", false, "write the golden template anew")

// digits is a scope with what a store of S3 says of the rights of agents.
var digits = driver.Scope{Store: "s3://bucket/jobs", Project: "digits", Rights: `{"Version": "2012-10-17", "Statement": [{"Sid": "Read", "Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::bucket/jobs/digits/*"]}]}`}

// The template as it is sent, for a region with two zones.
func TestTheTemplateIsTheOneThatWasLookedAt(t *testing.T) {
	t.Parallel()
	st, err := Stack("drover-digits-0a1b2c", digits, "", "us-west-1", Options{mostCores: 256, machines: []string{"default_x86_64"}, disk: 64, reads: []string{"s3://data/im${x}ages/"}, writes: []string{"s3://results"}})
	if err != nil {
		t.Fatal(err)
	}
	var v any
	if err := json.Unmarshal([]byte(st.Template()), &v); err != nil {
		t.Fatal(err)
	}
	text, _ := json.MarshalIndent(v, "", "  ") // it came from JSON
	got := string(text) + "\n"
	if *update {
		if err := os.WriteFile("testdata/stack.golden", []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if golden != got {
		t.Errorf("testdata/stack.golden (-want +got; -update writes it):\n%s", cmp.Diff(strings.Split(golden, "\n"), strings.Split(got, "\n")))
	}
}

// CloudFormation takes 51,200 bytes.
func TestTheLargestTemplateIsAccepted(t *testing.T) {
	t.Parallel()
	o, err := ParseOptions(nil)
	if err != nil {
		t.Fatal(err)
	}
	st, err := Stack("drover-digits-0a1b2c", digits, "", "us-east-1", o)
	if n := len(st.Template()); err != nil || n > 40_000 {
		t.Errorf("%d bytes, %v", n, err)
	}
}
