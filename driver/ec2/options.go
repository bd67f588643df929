package ec2

import (
	"regexp"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// options are what --target-arg says, to jobs and to target up.
type options struct {
	ami     string        // of machines; "": Amazon's own
	profile string        // the instance profile of machines; "": that of the project's set-up
	subnets []string      // where machines are; empty: those of the set-up
	groups  []string      // their security groups
	zones   string        // names of zones, or "all"; "": one for nodes that must reach each other, and else all
	cluster string        // a placement group of machines that are near each other; "": none
	wait    time.Duration // how long machines are waited for while no command is attached
}

// optionNames are the names that --target-arg knows, with a value that shows the form.
var optionNames = map[string]string{"ami": "ami-0123456789abcdef0", "profile": "NAME", "subnets": "subnet-0a1b,subnet-2c3d", "security-groups": "sg-0a1b", "zones": "all", "placement-group": "NAME", "wait": "12h"}

// optionForms are the forms of their values.
var optionForms = map[string]*regexp.Regexp{
	"ami": regexp.MustCompile(`^ami-[0-9a-f]{8,17}$`), "profile": regexp.MustCompile(`^[\w+=,.@-]{1,128}$`),
	"subnets": regexp.MustCompile(`^subnet-[0-9a-z]+(,subnet-[0-9a-z]+)*$`), "security-groups": regexp.MustCompile(`^sg-[0-9a-z]+(,sg-[0-9a-z]+)*$`),
	"placement-group": regexp.MustCompile(`^[ -~]{1,255}$`),
	"zones":           regexp.MustCompile(`^(all|[a-z0-9-]+(,[a-z0-9-]+)*)$`), "wait": regexp.MustCompile(`^[0-9a-z.]+$`),
}

// mostWait is the most that wait may say: what is waited for may begin, and cost, at any time.
const mostWait = 7 * 24 * time.Hour

// parseOptions reads --target-arg NAME=VALUE.
func parseOptions(args []string) (o options, err error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		if optionForms[name] == nil {
			return o, driver.UnknownOption("EC2", arg, optionNames, "docs/how-to/ec2.md")
		}
		ok := optionForms[name].MatchString(value)
		switch list := strings.Split(value, ","); name {
		case "ami":
			o.ami = value
		case "profile":
			o.profile = value
		case "subnets":
			o.subnets = list
		case "security-groups":
			o.groups = list
		case "zones":
			o.zones = value
		case "placement-group":
			o.cluster = value
		case "wait":
			o.wait, err = time.ParseDuration(value)
			ok = err == nil && o.wait > 0
			if o.wait > mostWait {
				return o, fault.New(fault.Invalid, "Wait for less, and type `drover resume` then.", "read --target-arg %q: machines are waited for 7 days at most", arg)
			}
		}
		if !ok {
			return o, fault.New(fault.Invalid, "Write it as `--target-arg "+name+"="+optionNames[name]+"`.", "read --target-arg %q: its value is not of this form", arg)
		}
	}
	if (len(o.subnets) == 0) != (len(o.groups) == 0) {
		return o, fault.New(fault.Invalid, "Give both, as in `--target-arg subnets=subnet-0a1b --target-arg security-groups=sg-0a1b`, or neither.", "choose the network of machines: of subnets and security groups only one is given")
	}
	return o, nil
}
