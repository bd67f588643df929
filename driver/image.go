package driver

import (
	"cmp"
	"strings"

	"github.com/drover-run/drover/fault"
)

// latestPython is the version of the image that a target chooses where any will do.
const latestPython = "3.13"

// ImageOrPython is the image that was named, or Python's own small one, for a target with
// containers.
func (p Place) ImageOrPython() (string, error) {
	if p.Image != "" {
		return p.Image, nil
	}
	major, rest, _ := strings.Cut(cmp.Or(p.Python, latestPython), ".")
	minor, _, _ := strings.Cut(rest, ".") // 3.12.4 is a 3.12
	if major != "3" || minor == "" || strings.Trim(minor, "0123456789") != "" {
		return "", fault.New(fault.Invalid, "Name an image that has it: `--image IMAGE`.", "choose image: there is none for Python %s", p.Python)
	}
	return "python:3." + minor + "-slim", nil
}
