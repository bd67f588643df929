package account

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/batch"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/amend"
	"github.com/drover-run/drover/fault"
)

// Options are what --target-arg says to target up.
type Options struct {
	mostCores int      // of each compute environment
	machines  []string // types and families
	disk      int      // GB
	zones     int      // 0: as the region has
	subnets   []string // empty: a network of the set-up's own
	groups    []string // security groups, with subnets
	reads     []string // addresses of S3 that agents may read beside the store
	writes    []string // and write

	// The user's own compute environment and job queue, as JSON that AWS's own tool reads; "": drover's.
	environment, queue string
}

// The options that give a set-up the user's own compute environment and job queue.
const (
	givesEnvironment = "create-compute-environment"
	givesQueue       = "create-job-queue"
)

// setupNames are the options of target up, with a value that shows the form.
var setupNames = map[string]string{
	"max-vcpus": "512", "machines": "g5.xlarge,g6.xlarge", "disk": "200", "zones": "2", "subnets": "subnet-0a1b,subnet-2c3d", "security-groups": "sg-0a1b",
	"reads": "s3://data/images,s3://models", "writes": "s3://results/digits", givesEnvironment: "@environment.json", givesQueue: "@queue.json",
}

// addresses is the form of a list of addresses of S3.
const addresses = `^s3://[a-z0-9][a-z0-9.-]{2,62}(/[!-+.-~-]*)?(,s3://[a-z0-9][a-z0-9.-]{2,62}(/[!-+.-~-]*)?)*$`

// setupForms are the forms of their values, which are compiled when one is read: every start of the program would wait.
var setupForms = map[string]string{
	"max-vcpus": `^[1-9][0-9]{0,5}$`, "disk": `^[1-9][0-9]{1,4}$`, "zones": `^[1-9]$`,
	"machines":        `^[a-z0-9][a-z0-9_.-]*(,[a-z0-9][a-z0-9_.-]*)*$`,
	"subnets":         `^subnet-[0-9a-z]+(,subnet-[0-9a-z]+)*$`,
	"security-groups": `^sg-[0-9a-z]+(,sg-[0-9a-z]+)*$`,
	"reads":           addresses,
	"writes":          addresses,
}

// IsOption says whether an argument of --target-arg is for target up alone.
func IsOption(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return setupNames[name] != ""
}

// JoinOptions is how a stack keeps options, and SplitOptions reads it.
func JoinOptions(all []string) string {
	text, _ := json.Marshal(all) // they are texts
	return string(text)
}

// SplitOptions gives the options that JoinOptions has joined; "": none.
func SplitOptions(kept string) (all []string, err error) {
	if kept == "" {
		return nil, nil
	}
	if err := json.Unmarshal([]byte(kept), &all); err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Take it away, and set it up anew.", "set up AWS Batch: read the options of the stack: %q", kept)
	}
	return all, nil
}

// mostKept is how much CloudFormation keeps of a stack's parameter, in bytes.
const mostKept = 4096

// MergeOptions gives the options of target up among args, where each name has its last value. Options of jobs
// are left out.
func MergeOptions(args []string, ofJobs map[string]string) (all []string, err error) {
	values := map[string]string{}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if _, is := ofJobs[name]; is {
			continue
		}
		if setupNames[name] == "" {
			return nil, driver.UnknownOption("AWS Batch", arg, setupNames, "docs/how-to/batch.md")
		}
		if name == givesEnvironment || name == givesQueue {
			if value, err = checkFile(name, value); err != nil {
				return nil, err
			}
		} else if !regexp.MustCompile(setupForms[name]).MatchString(value) {
			return nil, fault.New(fault.Invalid, "Write it as `--target-arg "+name+"="+setupNames[name]+"`.", "read --target-arg %q: its value is not of this form", arg)
		}
		values[name] = value
	}
	for name, value := range values {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	if n := len(JoinOptions(all)); n > mostKept {
		return nil, fault.New(fault.Invalid, "Leave out of the files what they need not say.", "set up AWS Batch: the options have %d bytes, and CloudFormation keeps %d with a stack", n, mostKept)
	}
	return all, nil
}

// checkFile gives the text of a user's request without blanks, and refuses what is none.
func checkFile(option, text string) (string, error) {
	var err error
	if option == givesEnvironment {
		err = amend.Merge(option, text, &batch.CreateComputeEnvironmentInput{})
	} else {
		err = amend.Merge(option, text, &batch.CreateJobQueueInput{})
	}
	if err != nil {
		return "", err
	}
	var short bytes.Buffer
	if err := json.Compact(&short, []byte(text)); err != nil {
		return "", fault.Wrap(err, fault.Invalid, "Give it as AWS's own tool takes it: `--target-arg "+option+"=@FILE`.", "read --target-arg %s", option)
	}
	return short.String(), nil
}

// ParseOptions reads what MergeOptions gives.
func ParseOptions(args []string) (o Options, err error) {
	o = Options{mostCores: 256, machines: []string{"default_x86_64"}, disk: 64}
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		n, _ := strconv.Atoi(value) // its form was looked at
		list := strings.Split(value, ",")
		switch name {
		case "max-vcpus":
			o.mostCores = n
		case "machines":
			o.machines = list
		case "disk":
			o.disk = n
		case "zones":
			o.zones = n
		case "subnets":
			o.subnets = list
		case "security-groups":
			o.groups = list
		case "reads":
			o.reads = list
		case "writes":
			o.writes = list
		case givesEnvironment:
			o.environment = value
		case givesQueue:
			o.queue = value
		}
	}
	if o.environment != "" || o.queue != "" {
		for _, arg := range args {
			if name, _, _ := strings.Cut(arg, "="); slices.Contains([]string{"max-vcpus", "machines", "disk"}, name) {
				return o, fault.New(fault.Invalid, "Say it in the file of the compute environment.", "set up AWS Batch: %s is of no effect beside %s and %s", name, givesEnvironment, givesQueue)
			}
		}
	}
	if (len(o.subnets) == 0) != (len(o.groups) == 0) {
		return o, fault.New(fault.Invalid, "Give both, as in `--target-arg subnets=subnet-0a1b --target-arg security-groups=sg-0a1b`, or neither.", "set up AWS Batch: of subnets and security groups only one is given")
	}
	return o, nil
}
