package items

import (
	"fmt"
	"os"
	"regexp"
	"strconv"

	"github.com/drover-run/drover/internal/items/manifest"
)

var spanForm = regexp.MustCompile(`^([0-9]+)-([0-9]+)(?::([0-9]+))?$`)

// parseSpan reads "1-100" and "0-100:5". A text of another form is no range.
func parseSpan(s Source) (r manifest.Range, is bool, err error) {
	parts := spanForm.FindStringSubmatch(s.From)
	if parts == nil {
		return manifest.Range{}, false, nil
	}
	if parts[3] == "" {
		parts[3] = "1"
	}
	var numbers [3]int64
	for i, text := range parts[1:] {
		if len(text) > 1 && text[0] == '0' {
			return manifest.Range{}, true, s.refuseSource("For numbers of equal width: seq -w "+parts[1]+" "+parts[2]+" | drover map --from - ...", "%s begins with a zero, which a range does not keep", text)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > manifest.MaxSpan {
			return manifest.Range{}, true, s.refuseSource("Use numbers up to 10^18.", "%s is too large", text)
		}
		numbers[i] = n
	}
	r = manifest.Range{From: numbers[0], To: numbers[1], Step: numbers[2]}
	switch {
	case r.Step == 0:
		return manifest.Range{}, true, s.refuseSource("Write a step of 1 or more, as in 0-100:5.", "its step is 0")
	case r.From > r.To:
		return manifest.Range{}, true, s.refuseSource(fmt.Sprintf("Write it as %d-%d; items run in no order.", r.To, r.From), "it ends before it begins")
	}
	if r.To = r.From + (r.To-r.From)/r.Step*r.Step; (r.To-r.From)/r.Step >= manifest.MaxItems {
		return manifest.Range{}, true, s.refuseSource("Split it into several maps.", "it has more than %d items", manifest.MaxItems)
	}
	return r, true, nil
}

// rangeList is a List that needs no file.
func rangeList(s Source, r manifest.Range) (*manifest.List, error) {
	if s.Format != "" && s.Format != manifest.Lines {
		return nil, s.refuseSource("Leave the format out.", "a range has no format %q", s.Format)
	}
	l := manifest.NewRange(r)
	if path, err := s.pathBelow(s.From); err == nil {
		if _, err := os.Lstat(path); err == nil {
			l.AddNote(fmt.Sprintf("%s is read as a range; the file of that name is ./%s", s.From, s.From))
		}
	}
	return l, nil
}
