package gcpbatch

import (
	"regexp"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// options are what --target-arg says.
type options struct {
	account    string        // the machines' service account; "": the project's default of Compute Engine
	network    string        // "": the default network
	subnetwork string        // of it
	noExternal bool          // machines have no external address
	zones      []string      // where machines may be; empty: the zones of the region
	near       bool          // machines are near each other
	reserved   string        // the reservation of the machines; "": any that fits
	wait       time.Duration // how long machines are waited for; 0: as long as Google Batch does
	volumes    []volume
	patch      map[string]any // of the request for a job; nil: none
}

// queueTime is how long Google Batch keeps a job that waits for machines. Source: "Job lifecycle", Batch, 2026-11.
const queueTime = 48 * time.Hour

// optionNames are the names that --target-arg knows, with a value that shows the form.
var optionNames = map[string]string{"service-account": "NAME@PROJECT.iam.gserviceaccount.com", "network": "default", "subnetwork": "default", "no-external-ip": "yes", "zones": "europe-west1-b,europe-west1-c",
	"collocated": "yes", "reservation": "NAME", "wait": "12h", "volume": "gs://bucket/folder:/data", "job": "@FILE"}

// optionForms are the forms of their values.
var optionForms = map[string]*regexp.Regexp{
	"service-account": regexp.MustCompile(`^[a-z0-9-]+@[a-z0-9.-]+\.gserviceaccount\.com$`),
	"network":         regexp.MustCompile(`^[a-z0-9/.:_-]+$`), "subnetwork": regexp.MustCompile(`^[a-z0-9/.:_-]+$`),
	"no-external-ip": regexp.MustCompile(`^(yes|no)$`), "zones": regexp.MustCompile(`^[a-z]+-[a-z]+[0-9]+-[a-z](,[a-z]+-[a-z]+[0-9]+-[a-z])*$`),
	"collocated": regexp.MustCompile(`^(yes|no)$`), "reservation": regexp.MustCompile(`^[a-zA-Z0-9/._-]+$`), "wait": regexp.MustCompile(`^[0-9a-z.]+$`), "volume": regexp.MustCompile(``), "job": regexp.MustCompile(``),
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
		case "collocated":
			o.near = value == "yes"
		case "reservation":
			o.reserved = value
		case "volume":
			v, err := parseVolume(value)
			if err != nil {
				return o, err
			}
			o.volumes = append(o.volumes, v)
		case "job":
			if o.patch, err = parsePatch(value); err != nil {
				return o, err
			}
		case "wait":
			if o.wait, err = time.ParseDuration(value); err != nil || o.wait < time.Minute || o.wait > queueTime {
				return o, fault.New(fault.Invalid, "Write it as `--target-arg wait=12h`.", "read --target-arg %q: it is no time between a minute and the two days for which Google Batch keeps a job that waits", arg)
			}
		}
	}
	return o, nil
}
