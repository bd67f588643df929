package batch

import (
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/account"
	"github.com/drover-run/drover/driver/batch/amend"
	"github.com/drover-run/drover/fault"
)

// options are what --target-arg says.
type options struct {
	jobRole       string // the ARN of the role that containers have
	executionRole string // the ARN of the role by which ECS pulls a private image; "": the machine's
	logGroup      string // of CloudWatch; "": AWS Batch's own
	passes        bool   // the image's ENTRYPOINT runs the words that it is given
	definition    amendment
	job           amendment
}

// optionNames are the names that --target-arg knows, with a value that shows the form.
var optionNames = map[string]string{
	"job-role": "arn:aws:iam::123456789012:role/train", "execution-role": "arn:aws:iam::123456789012:role/pull", "log-group": "/aws/batch/job", "entrypoint": "passes", amendsDefinition: "@definition.json", amendsJob: "@job.json",
}

var roleARN = regexp.MustCompile(`^arn:aws[a-z-]*:iam::[0-9]{12}:role/[\w+=,.@/-]+$`)

// parseOptions reads --target-arg NAME=VALUE.
func parseOptions(args []string) (o options, err error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if account.IsOption(arg) {
			continue // target up reads it
		}
		form, known := optionNames[name]
		if !known {
			return o, driver.UnknownOption("AWS Batch", arg, optionNames, "docs/how-to/batch.md")
		}
		hint := "Write it as `--target-arg " + name + "=" + form + "`."
		switch name {
		case "job-role", "execution-role":
			if !roleARN.MatchString(value) {
				return o, fault.New(fault.Invalid, hint, "read --target-arg %q: it is not the ARN of a role", arg)
			}
			if name == "job-role" {
				o.jobRole = value
			} else {
				o.executionRole = value
			}
		case "log-group":
			if value == "" {
				return o, fault.New(fault.Invalid, hint, "read --target-arg %q: it has no value", arg)
			}
			o.logGroup = value
		case amendsDefinition:
			o.definition = amendment(value)
			if err := amend.Merge(name, value, &batch.RegisterJobDefinitionInput{}); err != nil {
				return o, err
			}
		case amendsJob:
			o.job = amendment(value)
			if err := amend.Merge(name, value, &batch.SubmitJobInput{}); err != nil {
				return o, err
			}
		case "entrypoint":
			if value != "passes" {
				return o, fault.New(fault.Invalid, hint, "read --target-arg %q: it has another value than passes", arg)
			}
			o.passes = true
		}
	}
	return o, nil
}
