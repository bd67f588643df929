package sagemaker

import (
	"regexp"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// options are what --target-arg says.
type options struct {
	role   string                    // the ARN of the role that containers have; "": that of the project's set-up
	output string                    // an address of S3 where SageMaker puts what a container leaves in /opt/ml/model; "": beside the store's own objects
	wait   time.Duration             // how long a job may wait for spot capacity, in all
	merges map[string]map[string]any // members of requests, by the option that gives them
}

// optionNames are the names that --target-arg knows, with a value that shows the form.
var optionNames = map[string]string{"role": "arn:aws:iam::123456789012:role/train", "output": "s3://bucket/models", "wait": "48h", mergesTraining: "@FILE", mergesProcessing: "@FILE"}

// The forms of the values.
var (
	roleARN    = regexp.MustCompile(`^arn:aws[a-z-]*:iam::([0-9]{12}):role/[\w+=,.@/-]+$`)
	outputForm = regexp.MustCompile(`^s3://[a-z0-9][a-z0-9.-]{2,62}(/[!-~]*)?$`)
)

// parseOptions reads --target-arg NAME=VALUE.
func parseOptions(args []string) (o options, err error) {
	o.wait, o.merges = 24*time.Hour, map[string]map[string]any{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		form, known := optionNames[name]
		if !known {
			return o, driver.UnknownOption("SageMaker", arg, optionNames, "docs/how-to/run-on-sagemaker.md")
		}
		ok := false
		switch name {
		case "role":
			o.role, ok = value, roleARN.MatchString(value)
		case "output":
			o.output, ok = strings.TrimSuffix(value, "/"), outputForm.MatchString(value)
		case mergesTraining, mergesProcessing:
			said, err := parseMembers(name, value)
			if err != nil {
				return o, err
			}
			o.merges[name], ok = said, true
		case "wait":
			o.wait, err = time.ParseDuration(value)
			ok = err == nil && o.wait >= 0 && o.wait < training.mostLife
		}
		if !ok {
			return o, fault.New(fault.Invalid, "Write it as `--target-arg "+name+"="+form+"`.", "read --target-arg %q: its value is not of this form", arg)
		}
	}
	return o, nil
}
