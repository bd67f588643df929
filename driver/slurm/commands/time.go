package commands

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ParseTime reads [D-]HH:MM:SS, MM:SS and shorter forms, as Slurm prints and accepts times. ok is
// false for anything else, such as UNLIMITED.
func ParseTime(text string) (t time.Duration, ok bool) {
	days, rest, hasDays := strings.Cut(text, "-")
	if !hasDays {
		days, rest = "0", text
	}
	d, err := strconv.Atoi(days)
	if err != nil || d < 0 || d > 100_000 {
		return 0, false
	}
	parts := strings.Split(rest, ":")
	if len(parts) > 3 {
		return 0, false
	}
	unit := time.Minute // MM or MM:SS
	if hasDays || len(parts) == 3 {
		unit = time.Hour
	}
	t = time.Duration(d) * 24 * time.Hour
	for _, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 || n > 100_000_000 || fmt.Sprint(n) != strings.TrimLeft(p, "0") && n > 0 {
			return 0, false
		}
		t += time.Duration(n) * unit
		unit /= 60
	}
	return t, true
}
