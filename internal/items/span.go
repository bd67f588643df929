package items

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"regexp"
	"strconv"
)

// span is a range of numbers: from, from+step, ... up to to, which is one of them.
type span struct{ from, to, step int64 }

var spanForm = regexp.MustCompile(`^([0-9]+)-([0-9]+)(?::([0-9]+))?$`)

// maxSpan keeps sums of two numbers within int64.
const maxSpan = 1_000_000_000_000_000_000

// parseSpan reads "1-100" and "0-100:5". A text of another form is no range.
func parseSpan(s Source) (r span, is bool, err error) {
	parts := spanForm.FindStringSubmatch(s.From)
	if parts == nil {
		return span{}, false, nil
	}
	if parts[3] == "" {
		parts[3] = "1"
	}
	var numbers [3]int64
	for i, text := range parts[1:] {
		if len(text) > 1 && text[0] == '0' {
			return span{}, true, s.refuse("For numbers of equal width: seq -w "+parts[1]+" "+parts[2]+" | drover map --from - ...", "%s begins with a zero, which a range does not keep", text)
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n > maxSpan {
			return span{}, true, s.refuse("Use numbers up to 10^18.", "%s is too large", text)
		}
		numbers[i] = n
	}
	r = span{numbers[0], numbers[1], numbers[2]}
	switch {
	case r.step == 0:
		return span{}, true, s.refuse("Write a step of 1 or more, as in 0-100:5.", "its step is 0")
	case r.from > r.to:
		return span{}, true, s.refuse(fmt.Sprintf("Write it as %d-%d; items run in no order.", r.to, r.from), "it ends before it begins")
	}
	if r.to = r.from + (r.to-r.from)/r.step*r.step; (r.to-r.from)/r.step >= maxItems {
		return span{}, true, s.refuse("Split it into several maps.", "it has more than %d items", maxItems)
	}
	return r, true, nil
}

func (r span) count() int { return int((r.to-r.from)/r.step) + 1 }

// text is the item at index i, from 0.
func (r span) text(i int) string { return strconv.FormatInt(r.from+int64(i)*r.step, 10) }

// cut is the range of n items from index i.
func (r span) cut(i, n int) span {
	from := r.from + int64(i)*r.step
	return span{from, from + int64(n-1)*r.step, r.step}
}

// digest is of the bounds alone: to hash a billion numbers would take minutes. So
// a range and a file of the same numbers have different digests, and New says
// that nothing is new.
func (r span) digest() string {
	if r.from == r.to {
		r.step = 1
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "drover range 1\n%d %d %d\n", r.from, r.to, r.step))
	return hex.EncodeToString(sum[:])
}

// rangeList is a List that needs no file.
func rangeList(s Source, r span) (*List, error) {
	if s.Format != "" && s.Format != Lines {
		return nil, s.refuse("Leave the format out.", "a range has no format %q", s.Format)
	}
	l := newRange(r)
	if path, err := s.below(s.From); err == nil {
		if _, err := os.Lstat(path); err == nil {
			l.notes = append(l.notes, fmt.Sprintf("%s is read as a range; the file of that name is ./%s", s.From, s.From))
		}
	}
	return l, nil
}

func newRange(r span) *List {
	if r.from == r.to {
		r.step = 1
	}
	return &List{format: Lines, count: r.count(), digest: r.digest(), span: &r}
}
