package job

import "github.com/drover-run/drover/job/unit"

// The units of a Spec.
type (
	Bytes    = unit.Bytes    // "512M"
	Duration = unit.Duration // "1h30m"
)

// ParseBytes reads "64M", "1.5G", "16GiB", "16 GB" or a bare number of bytes.
func ParseBytes(text string) (Bytes, error) { return unit.ParseBytes(text) }

// ParseDuration reads "90s", "2h30m", "1.5d" or a bare number of seconds.
func ParseDuration(text string) (Duration, error) { return unit.ParseDuration(text) }
