// Package unit reads and writes sizes and lengths of time as users type them, "1.5G" and
// "2h30m", the same on the command line, in job files and in stored entries.
//
// It does no I/O and knows no job. Its tests and those of package job prove it.
package unit

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
)

// Duration is a length of time that reads and writes as "1h30m" in YAML and
// JSON; a bare number means seconds.
type Duration time.Duration

// String is the time package's form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads "1m30s" or a bare number of seconds.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	*d = v
	return err
}

// UnmarshalJSON reads what UnmarshalText reads, and a JSON number of seconds;
// null changes nothing.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		text = string(b)
	}
	return d.UnmarshalText([]byte(text))
}

// ParseDuration reads "90s", "2h30m", "1.5d" or a bare number of seconds, up to
// a hundred years.
func ParseDuration(text string) (Duration, error) {
	body := strings.TrimSpace(text)
	number, unit := body, time.Second
	if days, ok := strings.CutSuffix(body, "d"); ok {
		number, unit = days, 24*time.Hour
	}
	var v float64
	if n, err := strconv.ParseFloat(number, 64); err == nil {
		v = n * float64(unit)
	} else {
		span, err := time.ParseDuration(body)
		if err == nil && span >= 0 && span <= MaxDuration {
			return Duration(span), nil
		}
		v = math.NaN()
	}
	if !(v >= 0 && v <= float64(MaxDuration)) { // so written, NaN is refused too
		return 0, fault.New(fault.Invalid, "Write it as 90s, 15m, 2h or 1d.", "read length of time: %q is not a length of time", text)
	}
	return Duration(math.Round(v)), nil
}

// MaxDuration is a hundred years, far from where a Duration would overflow (292 years).
const MaxDuration = 36500 * 24 * time.Hour
