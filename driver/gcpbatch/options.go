package gcpbatch

import (
	"regexp"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// options are what --target-arg says.
type options struct {
	account    string   // the machines' service account; "": the project's default of Compute Engine
	network    string   // "": the default network
	subnetwork string   // of it
	noExternal bool     // machines have no external address
	zones      []string // where machines may be; empty: the zones of the region
}

// optionNames are the names that --target-arg knows, with a value that shows the form.
var optionNames = map[string]string{"service-account": "NAME@PROJECT.iam.gserviceaccount.com", "network": "default", "subnetwork": "default", "no-external-ip": "yes", "zones": "europe-west1-b,europe-west1-c"}

// optionForms are the forms of their values.
var optionForms = map[string]*regexp.Regexp{
	"service-account": regexp.MustCompile(`^[a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com$`),
	"network":         regexp.MustCompile(`^[a-z0-9/.:_-]+$`), "subnetwork": regexp.MustCompile(`^[a-z0-9/.:_-]+$`),
	"no-external-ip": regexp.MustCompile(`^(yes|no)$`), "zones": regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+-[a-z](,[a-z]+-[a-z]+[0-9]+-[a-z])*$`),
}

// parseOptions reads --target-arg NAME=VALUE.
func parseOptions(args []string) (o options, err error) {
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		form, known := optionForms[name]
		if !known {
			return o, driver.UnknownOption("Google Batch", arg, optionNames, "docs/how-to/gcp.md")
		}
		if !form.MatchString(value) {
			return o, fault.New(fault.Invalid, "Write it as `--target-arg "+name+"="+optionNames[name]+"`.", "read --target-arg %q: its value is not of this form", arg)
		}
		switch name {
		case "service-account":
			o.account = value
		case "network":
			o.network = value
		case "subnetwork":
			o.subnetwork = value
		case "no-external-ip":
			o.noExternal = value == "yes"
		case "zones":
			o.zones = strings.Split(value, ",")
		}
	}
	return o, nil
}
