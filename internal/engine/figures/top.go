package figures

import (
	"bytes"
	"cmp"
	"container/heap"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/record/metric"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/unit"
	"github.com/drover-run/drover/report"
)

// Top gives the N items with the largest number in their results, or the smallest; the first of
// those that are equal. It holds no more than N, however many all are, and all have their whole
// output. Fault: Invalid where no result has that number.
func Top(all iter.Seq2[report.ItemResult, error], o report.TopOptions) (report.Ranking, error) {
	var r report.Ranking
	if o.N < 1 || o.By == "" {
		return r, fault.New(fault.Invalid, "", "order results: by %q, %d of them: it needs a number of at least 1 and a name", o.By, o.N)
	}
	h := &ranks{ascending: o.Ascending}
	reader := &numbers{by: o.By, seen: map[string]bool{}}
	for it, err := range all {
		if err != nil {
			return r, err
		}
		if it.State != job.ItemSucceeded {
			r.Open++
			continue
		}
		v, ok := reader.numberOfTry(it.Try)
		if !ok {
			r.Without++
			continue
		}
		h.offerRanked(report.Ranked{Number: v, ItemResult: it}, o.N)
	}
	r.Top = h.list
	slices.SortFunc(r.Top, h.compareRanked)
	if len(r.Top) == 0 && r.Without > 0 {
		return r, fault.New(fault.Invalid, reader.hintAtFields(), "order results by %q: none of %s has such a number", o.By, unit.Comma(r.Without))
	}
	return r, nil
}

// ranks is a heap with the last of the order as its first element.
type ranks struct {
	list      []report.Ranked
	ascending bool
}

// offerRanked takes one in if it is among the first.
func (h *ranks) offerRanked(one report.Ranked, most int) {
	switch {
	case h.Len() < most:
		heap.Push(h, one)
	case h.comesBefore(one, h.list[0]):
		h.list[0] = one
		heap.Fix(h, 0)
	}
}

func (h *ranks) compareRanked(a, b report.Ranked) int {
	c := cmp.Compare(b.Number, a.Number)
	if h.ascending {
		c = -c
	}
	return cmp.Or(c, cmp.Compare(a.Item, b.Item))
}

func (h *ranks) comesBefore(a, b report.Ranked) bool { return h.compareRanked(a, b) < 0 }
func (h *ranks) Len() int                            { return len(h.list) }
func (h *ranks) Less(i, k int) bool                  { return h.comesBefore(h.list[k], h.list[i]) }
func (h *ranks) Swap(i, k int)                       { h.list[i], h.list[k] = h.list[k], h.list[i] }
func (h *ranks) Push(x any)                          { h.list = append(h.list, x.(report.Ranked)) }
func (h *ranks) Pop() any                            { panic("nobody leaves a ranking") }

// numbers finds one number in what items came to.
type numbers struct {
	by   string
	seen map[string]bool // names of numbers in results that lack it
}

// mostSeen bounds the names that a hint is made from.
const mostSeen = 100

// numberOfTry finds it in a try's standard output, which is a stream's answer too. What is
// not a number, and NaN, has no place in an order.
func (n *numbers) numberOfTry(t report.Try) (float64, bool) {
	head, tail := t.Stdout, t.Tail
	if int64(len(head)+len(tail)) == t.StdoutBytes {
		head, tail = head+tail, ""
	}
	last := lastLine(head)
	if tail != "" {
		head = head[:strings.LastIndexByte(head, '\n')+1] // no half of a number
		_, tail, _ = strings.Cut(tail, "\n")
		last = lastLine(tail)
	}
	for _, text := range slices.Compact([]string{strings.TrimSpace(head + tail), last}) {
		object, ok := objectOf(text)
		if !ok {
			continue
		}
		if v, ok := field(object, n.by); ok {
			return v, true
		}
		n.rememberFields(object)
	}
	return n.numberPrinted(head + tail)
}

// numberPrinted finds it as a metric is found.
func (n *numbers) numberPrinted(text string) (v float64, ok bool) {
	e, err := metric.NewExtractor(nil)
	if err != nil {
		return 0, false
	}
	look := func(points []metric.Point) {
		for _, p := range points {
			switch {
			case p.Name == n.by && !p.Gap():
				v, ok = p.Value, true
			case len(n.seen) < mostSeen:
				n.seen[p.Name] = true
			}
		}
	}
	look(e.Feed(time.Time{}, []byte(text)))
	look(e.Rest(time.Time{}))
	return v, ok
}

func (n *numbers) rememberFields(object map[string]any) {
	for name, value := range object {
		if _, ok := numberOf(value); ok && len(n.seen) < mostSeen {
			n.seen[name] = true
		}
	}
}

// hintAtFields names what there is instead.
func (n *numbers) hintAtFields() string {
	names := slices.Sorted(maps.Keys(n.seen))
	if near := fault.Nearest(n.by, names); near != "" {
		return fmt.Sprintf("Did you mean --by %s?", near)
	}
	if len(names) == 0 {
		return "Let each item answer or print a JSON object, or a line such as " + n.by + "=0.91."
	}
	return "There is " + strings.Join(names[:min(len(names), 10)], ", ") + "."
}

// objectOf reads text that is one JSON object, without space around it.
func objectOf(text string) (map[string]any, bool) {
	if !strings.HasPrefix(text, "{") || !strings.HasSuffix(text, "}") {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	var object map[string]any
	if d.Decode(&object) != nil || d.More() {
		return nil, false
	}
	return object, true
}

// field follows a path of names and places, as in scores.f1 and top.0.p; a name with
// a dot in it is found as it is.
func field(value any, path string) (float64, bool) {
	if path == "" {
		return numberOf(value)
	}
	switch value := value.(type) {
	case map[string]any:
		for end := len(path); end > 0; end = strings.LastIndexByte(path[:end], '.') {
			if inner, ok := value[path[:end]]; ok {
				if v, ok := field(inner, strings.TrimPrefix(path[end:], ".")); ok {
					return v, true
				}
			}
		}
	case []any:
		word, rest, _ := strings.Cut(path, ".")
		if i, err := strconv.Atoi(word); err == nil && i >= 0 && i < len(value) {
			return field(value[i], rest)
		}
	}
	return 0, false
}

// numberOf takes a number that was written as text for one too.
func numberOf(value any) (float64, bool) {
	switch value := value.(type) {
	case float64:
		return value, true
	case string:
		v, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		return v, err == nil && !math.IsNaN(v)
	}
	return 0, false
}

// lastLine is the last line that has anything on it.
func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return strings.TrimSpace(text[strings.LastIndexByte(text, '\n')+1:])
}
