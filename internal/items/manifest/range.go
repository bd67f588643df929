package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
)

// Range is a range of numbers: from, from+step, ... up to to, which is one of them.
type Range struct{ From, To, Step int64 }

// MaxSpan keeps sums of two numbers within int64.
const MaxSpan = 1_000_000_000_000_000_000

func (r Range) itemCount() int { return int((r.To-r.From)/r.Step) + 1 }

// textOfItem is the item at index i, from 0.
func (r Range) textOfItem(i int) string { return strconv.FormatInt(r.From+int64(i)*r.Step, 10) }

// cutRange is the range of n items from index i.
func (r Range) cutRange(i, n int) Range {
	from := r.From + int64(i)*r.Step
	return Range{from, from + int64(n-1)*r.Step, r.Step}
}

// rangeDigest is of the bounds alone: to hash a billion numbers would take minutes. So
// a range and a file of the same numbers have different digests, and New says
// that nothing is new.
func (r Range) rangeDigest() string {
	if r.From == r.To {
		r.Step = 1
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "drover range 1\n%d %d %d\n", r.From, r.To, r.Step))
	return hex.EncodeToString(sum[:])
}

func NewRange(r Range) *List {
	if r.From == r.To {
		r.Step = 1
	}
	return &List{format: Lines, count: r.itemCount(), digest: r.rangeDigest(), span: &r}
}
