package metric

import (
	"bytes"
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/record"
)

// A Metric frame is lines of text: first "m1" and a time in Unix milliseconds,
// then a line a point:
//
//	=loss 0 ~1 2.31      a name when the frame has it first: it is number 0 from here on
//	=acc 0 ~1 0.11
//	0 250 ~1 2.29        name, milliseconds since the point above, steps since that name's last, value
//
// ~ says that the steps are counted. Differences pack well: a point takes about
// 5 bytes of the store, most of them the digits of its value.
const metricHead = "m1 "

const (
	// dense points of a name are kept whatever comes; after them no two are
	// nearer than spacing, nor nearer than one part in finest of the time that
	// has passed. So a name takes at most some 200,000 points in a week: more
	// than any screen is wide.
	dense   = 2000
	spacing = 100 * time.Millisecond
	finest  = 36_000

	metricBatch = 32 << 10 // bytes of a frame after which the next one begins; with one more point below MaxFrame
	maxSeries   = 10_000   // remembered for the above: of a map's items, say
)

// MetricWriter keeps points in the objects of a Writer. All methods may be
// called from many goroutines at once; none waits for the store but Flush and
// Close. A name that comes more often than a person can read is thinned; the
// last point before a pause is always kept.
type MetricWriter struct {
	w *record.Writer

	mu      sync.Mutex
	series  map[seriesKey]*kept
	item    uint64
	batch   batch
	dropped int
}

type seriesKey struct {
	item uint64
	name string
}

// kept is what is remembered of a name.
type kept struct {
	count int
	first time.Time
	last  time.Time // of the last point that was kept
	late  Point     // came too soon after it, and is the newest; no Name: none did
}

// NewMetricWriter makes one that stores by w, with a prefix for metrics. It
// takes w over: Close closes both.
func NewMetricWriter(w *record.Writer) *MetricWriter {
	m := &MetricWriter{w: w, series: map[seriesKey]*kept{}}
	w.OnTick(m.sendBatch)
	return m
}

// Add keeps points of an item; 0 is none. A point without a name that may be
// stored is left out.
func (m *MetricWriter) Add(item uint64, points []Point) {
	if len(points) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range points {
		if !storable(p.Name) {
			continue
		}
		m.addPoint(item, p)
	}
}

func storable(name string) bool {
	if name == "" || len(name) > maxName || name[0] == '=' {
		return false
	}
	for _, c := range []byte(name) {
		if c <= ' ' || c == 0x7f {
			return false
		}
	}
	return true
}

func (m *MetricWriter) addPoint(item uint64, p Point) {
	key := seriesKey{item, p.Name}
	k := m.series[key]
	if k == nil {
		if len(m.series) == maxSeries {
			m.releaseLate(time.Time{})
			clear(m.series)
		}
		k = &kept{first: p.Time}
		m.series[key] = k
	}
	passed := p.Time.Sub(k.last)
	apart := max(spacing, p.Time.Sub(k.first)/finest)
	if k.count >= dense && passed >= 0 && passed < apart { // below 0: the clock was set back
		k.late = p
		return
	}
	if k.late.Name != "" && p.Time.Sub(k.late.Time) >= apart { // the last one of a burst
		m.keepPoint(item, k, k.late)
	}
	m.keepPoint(item, k, p)
}

func (m *MetricWriter) keepPoint(item uint64, k *kept, p Point) {
	k.count, k.last, k.late = k.count+1, p.Time, Point{}
	if len(m.batch.text) >= metricBatch || len(m.batch.text) > 0 && m.item != item {
		m.flushBatch()
	}
	m.item = item
	m.batch.addPoint(&p)
}

// releaseLate keeps the late points that came before then; the zero time means all.
func (m *MetricWriter) releaseLate(then time.Time) {
	var late []seriesKey
	for key, k := range m.series {
		if k.late.Name != "" && (then.IsZero() || k.late.Time.Before(then)) {
			late = append(late, key)
		}
	}
	slices.SortFunc(late, func(a, b seriesKey) int {
		return cmp.Or(cmp.Compare(a.item, b.item), m.series[a].late.Time.Compare(m.series[b].late.Time), cmp.Compare(a.name, b.name))
	})
	for _, key := range late {
		k := m.series[key]
		m.keepPoint(key.item, k, k.late)
	}
}

// flushBatch makes a frame of the batch.
func (m *MetricWriter) flushBatch() {
	if len(m.batch.text) > 0 && !m.w.TryAdd(record.Metric, m.item, m.batch.text) {
		m.dropped += m.batch.points
	}
	m.batch.resetText()
}

// sendBatch makes a frame of what is there. Late points a second old are the last
// ones of a burst.
func (m *MetricWriter) sendBatch(now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releaseLate(now.Add(-time.Second))
	m.flushBatch()
}

// Dropped is how many points were dropped because the store was slow, or came
// after Close.
func (m *MetricWriter) Dropped() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped
}

// Flush stores all points that were added before, as Writer.Flush does.
func (m *MetricWriter) Flush(ctx context.Context) error {
	m.everything()
	return m.w.Flush(ctx)
}

// Close keeps the last points and closes the writer, as Writer.Close does.
func (m *MetricWriter) Close(ctx context.Context) error {
	m.everything()
	return m.w.Close(ctx)
}

func (m *MetricWriter) everything() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.releaseLate(time.Time{})
	m.flushBatch()
}

// batch is a frame that grows. The zero batch is empty.
type batch struct {
	text   []byte
	points int
	millis int64 // of the last point
	names  map[string]*batchName
}

type batchName struct {
	index int
	step  int64
}

func (b *batch) resetText() {
	b.text, b.points = b.text[:0], 0
	clear(b.names)
}

func (b *batch) addPoint(p *Point) {
	millis := min(max(p.Time.UnixMilli(), 0), record.MaxTime/1000-1)
	if len(b.text) == 0 {
		b.text = append(append(b.text, metricHead...), strconv.FormatInt(millis, 10)...)
		b.text = append(b.text, '\n')
		b.millis = millis
	}
	n := b.names[p.Name]
	if n == nil {
		if b.names == nil {
			b.names = map[string]*batchName{}
		}
		n = &batchName{index: len(b.names)}
		b.names[p.Name] = n
		b.text = append(append(b.text, '='), p.Name...)
	} else {
		b.text = strconv.AppendInt(b.text, int64(n.index), 10)
	}
	b.text = strconv.AppendInt(append(b.text, ' '), millis-b.millis, 10)
	b.text = append(b.text, ' ')
	if p.Counted {
		b.text = append(b.text, '~')
	}
	b.text = strconv.AppendInt(b.text, p.Step-n.step, 10) // may wrap, and wraps back
	b.text = appendValue(append(b.text, ' '), p.Value)
	b.text = append(b.text, '\n')
	b.millis, n.step = millis, p.Step
	b.points++
}

func appendValue(dst []byte, v float64) []byte {
	switch {
	case math.IsNaN(v):
		return append(dst, "nan"...)
	case math.IsInf(v, 0):
		return append(dst, map[bool]string{true: "inf", false: "-inf"}[v > 0]...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, 64)
}

// Points gives the points of a Metric frame. Errors: what no MetricWriter made.
func Points(f record.Frame) ([]Point, error) {
	head, text, _ := bytes.Cut(f.Data, newline)
	since, ok := bytes.CutPrefix(head, []byte(metricHead))
	millis, n, plain := digits(since)
	if f.Stream != record.Metric || !ok || !plain || n != len(since) || millis >= record.MaxTime/1000 {
		return nil, record.NewDamagedError("a frame of metrics has no beginning")
	}
	d := unbatch{millis: millis}
	points := make([]Point, 0, bytes.Count(text, newline))
	for len(text) > 0 {
		line, rest, whole := bytes.Cut(text, newline)
		p, ok := d.parsePoint(line)
		if !whole || !ok {
			return points, record.NewDamagedError("a frame of metrics has a line that is not a metric point")
		}
		points, text = append(points, p), rest
	}
	return points, nil
}

// unbatch undoes batch, line by line.
type unbatch struct {
	millis int64
	names  []string
	steps  []int64
}

func (d *unbatch) parsePoint(line []byte) (p Point, ok bool) {
	var fields [4][]byte
	for i := range fields {
		var more bool
		if fields[i], line, more = bytes.Cut(line, []byte{' '}); more != (i < 3) {
			return p, false
		}
	}
	index := len(d.names)
	if name, new := bytes.CutPrefix(fields[0], []byte{'='}); new {
		if !storable(string(name)) {
			return p, false
		}
		d.names, d.steps = append(d.names, string(name)), append(d.steps, 0)
	} else if n, err := strconv.Atoi(string(fields[0])); err != nil || n < 0 || n >= index {
		return p, false
	} else {
		index = n
	}
	later, err := strconv.ParseInt(string(fields[1]), 10, 64)
	if d.millis += later; err != nil || d.millis < 0 || d.millis >= record.MaxTime/1000 {
		return p, false
	}
	by, counted := bytes.CutPrefix(fields[2], []byte{'~'})
	steps, err := strconv.ParseInt(string(by), 10, 64)
	if err != nil {
		return p, false
	}
	d.steps[index] += steps
	v, n, _ := number(fields[3])
	p = Point{Time: time.UnixMilli(d.millis).UTC(), Name: d.names[index], Value: v, Step: d.steps[index], Counted: counted}
	return p, n > 0 && n == len(fields[3])
}
