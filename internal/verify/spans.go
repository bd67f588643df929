package verify

import (
	mathbits "math/bits"
	"slices"

	"github.com/drover-run/drover/internal/ledger/protocol"
)

// ground is the items of a chunk, which are counted from 0 by their place in it.
type ground struct {
	spans []([2]int)
	start []int // by span: how many items are before it
	n     int   // items
}

// maxItems is more than a map can have.
const maxItems = 1_000_000_000

// groundOf refuses spans that are not in order, or meet.
func groundOf(s protocol.Spans) (g ground, ok bool) {
	last := 0
	for i, r := range s {
		if r[0] < 1 || r[1] < r[0] || r[1] > maxItems || i > 0 && r[0] <= last {
			return ground{}, false
		}
		g.spans, g.start = append(g.spans, r), append(g.start, g.n)
		g.n += r[1] - r[0] + 1
		last = r[1]
	}
	return g, true
}

// placeOfItem is the place of an item.
func (g ground) placeOfItem(item int) (place int, ok bool) {
	i, exact := slices.BinarySearchFunc(g.spans, item, func(r [2]int, item int) int { return r[0] - item })
	if !exact {
		i--
	}
	if i < 0 || item > g.spans[i][1] {
		return 0, false
	}
	return g.start[i] + item - g.spans[i][0], true
}

// containsAll says whether all of o's items are here.
func (g ground) containsAll(o ground) bool {
	for _, r := range o.spans {
		first, ok := g.placeOfItem(r[0])
		last, both := g.placeOfItem(r[1])
		if !ok || !both || last-first != r[1]-r[0] {
			return false
		}
	}
	return true
}

// eachItem calls f for every item and its place, in order.
func (g ground) eachItem(f func(item, place int)) {
	for i, r := range g.spans {
		for item := r[0]; item <= r[1]; item++ {
			f(item, g.start[i]+item-r[0])
		}
	}
}

// bits is a set of items.
type bits []uint64

func newBits(items int) bits { return make(bits, items/64+1) }

// addItem says whether the item is new.
func (b bits) addItem(item int) bool {
	i, bit := item/64, uint64(1)<<(item%64)
	if i >= len(b) || b[i]&bit != 0 {
		return false
	}
	b[i] |= bit
	return true
}

func (b bits) hasItem(item int) bool { return item/64 < len(b) && b[item/64]&(1<<(item%64)) != 0 }

func (b bits) countItems() (n int) {
	for _, word := range b {
		n += mathbits.OnesCount64(word)
	}
	return n
}
