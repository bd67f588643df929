package account

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/driver"
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
}

// setupNames are the options of target up, with a value that shows the form.
var setupNames = map[string]string{
	"max-vcpus": "512", "machines": "g5.xlarge,g6.xlarge", "disk": "200", "zones": "2", "subnets": "subnet-0a1b,subnet-2c3d", "security-groups": "sg-0a1b",
	"reads": "s3://data/images,s3://models", "writes": "s3://results/digits",
}

// addresses is the form of a list of addresses of S3.
const addresses = `^s3://[a-z0-9][a-z0-9.-]{2,62}(/[!-+.-~-]*)?(,s3://[a-z0-9][a-z0-9.-]{2,62}(/[!-+.-~-]*)?)*$`

// setupForms are the forms of their values.
var setupForms = map[string]*regexp.Regexp{
	"max-vcpus": regexp.MustCompile(`^[1-9][0-9]{0,5}$`), "disk": regexp.MustCompile(`^[1-9][0-9]{1,4}$`), "zones": regexp.MustCompile(`^[1-9]$`),
	"machines":        regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]*(,[a-z0-9][a-z0-9_.-]*)*$`),
	"subnets":         regexp.MustCompile(`^subnet-[0-9a-z]+(,subnet-[0-9a-z]+)*$`),
	"security-groups": regexp.MustCompile(`^sg-[0-9a-z]+(,sg-[0-9a-z]+)*$`),
	"reads":           regexp.MustCompile(addresses),
	"writes":          regexp.MustCompile(addresses),
}

// IsOption says whether an argument of --target-arg is for target up alone.
func IsOption(arg string) bool {
	name, _, _ := strings.Cut(arg, "=")
	return setupNames[name] != ""
}

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
		if !setupForms[name].MatchString(value) {
			return nil, fault.New(fault.Invalid, "Write it as `--target-arg "+name+"="+setupNames[name]+"`.", "read --target-arg %q: its value is not of this form", arg)
		}
		values[name] = value
	}
	for name, value := range values {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	return all, nil
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
		}
	}
	if (len(o.subnets) == 0) != (len(o.groups) == 0) {
		return o, fault.New(fault.Invalid, "Give both, as in `--target-arg subnets=subnet-0a1b --target-arg security-groups=sg-0a1b`, or neither.", "set up AWS Batch: of subnets and security groups only one is given")
	}
	return o, nil
}
