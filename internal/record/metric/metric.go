// Package metric finds numbers in what a program prints and keeps them. An
// Extractor finds Points by the patterns of a job and by those of common
// frameworks; a MetricWriter stores them, and RecordSample what a node uses, in frames of
// package record, which ReadSeries and Samples read.
//
// It refuses to know what a metric is for.
//
// Proved by its own tests: the output of common frameworks gives the metrics that
// it should, and no others (testdata), a slow store bounds memory, and stored
// points are fuzzed.
package metric

import (
	"bytes"
	"math"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/internal/record/screen"
	"github.com/drover-run/drover/job"
)

const (
	// maxMetricLine is the longest line that is looked at, in bytes. Tables and
	// dumps are longer; what reports a number is not.
	maxMetricLine = 4 << 10
	// maxNames bounds what one program may name. A line that makes names of
	// values (item_17=3) would fill the store otherwise.
	maxNames = 200
	maxName  = 100 // bytes of a name, as in package job
	// maxPairs in one line are a report; more are a configuration.
	maxPairs = 50
)

// Point is one value of one metric.
type Point struct {
	Time  time.Time
	Name  string
	Value float64
	// Step is what the line said of its step, epoch or iteration, made to go on
	// where a program begins to count anew. Where lines say nothing, Counted is
	// true and the values of that name are counted from 1.
	Step    int64
	Counted bool
}

// Gap is true for what a plot leaves out: not a number, or infinite.
func (p Point) Gap() bool { return math.IsNaN(p.Value) || math.IsInf(p.Value, 0) }

// Extractor finds metrics in one stream of what a program prints. It is not for
// many goroutines at once; its siblings, made by Another, may be used beside it.
type Extractor struct {
	find    presets
	rules   []rule
	names   *names
	series  map[string]*steps
	epochs  epochs
	redact  *redact.Redactor
	pairs   pairs
	held    []byte // a line without its end yet
	skip    bool   // that line is too long
	clean   []byte // a line without its escape sequences
	pending []Point
}

// presets are bits: the programs with output that is understood.
type presets uint8

const (
	findHF presets = 1 << iota
	findLightning
	findKeras
	findPairs
	findAll = findHF | findLightning | findKeras | findPairs
)

// byName has every name of job.Presets; a test says so.
var byName = map[string]presets{
	"auto": findAll, "hf": findHF, "lightning": findLightning, "keras": findKeras, "pairs": findPairs, "none": 0,
}

// names are those of one program, whichever stream they came from.
type names struct {
	mu    sync.Mutex
	known map[string]string
	full  bool // one was left out
	said  bool
}

// NewExtractor makes one. No metrics are the preset auto. Errors: an expression
// that is none, or has no group; package job refuses those as well.
func NewExtractor(metrics []job.Metric) (*Extractor, error) {
	e := &Extractor{names: &names{known: map[string]string{}}, series: map[string]*steps{}}
	if len(metrics) == 0 {
		e.find = findAll
	}
	for _, m := range metrics {
		if bits, ok := byName[m.Regex]; ok && m.Name == "" {
			e.find |= bits
			continue
		}
		r, err := newRule(m)
		if err != nil {
			return nil, err
		}
		e.rules = append(e.rules, r)
	}
	return e, nil
}

// Another makes one for another stream of the same program: it finds the same,
// and both together may find maxNames names.
func (e *Extractor) Another() *Extractor {
	return &Extractor{find: e.find, rules: e.rules, names: e.names, series: map[string]*steps{}, redact: e.redact}
}

// Redact makes e, and those that Another makes from now on, take secrets out of
// a line before its numbers are believed: a PIN is a number too.
func (e *Extractor) Redact(r *redact.Redactor) { e.redact = r }

// Note is a sentence for the job's log when names had to be left out. It is
// given once; else it is empty.
func (e *Extractor) Note() string {
	e.names.mu.Lock()
	defer e.names.mu.Unlock()
	if !e.names.full || e.names.said {
		return ""
	}
	e.names.said = true
	return "found more than 200 metrics: the first 200 are kept; choose with --metric NAME=REGEX, or --metric none"
}

// Feed looks at the next bytes of the stream, read at that time, and gives the
// points of the lines that end in them. The result is good until the next call.
func (e *Extractor) Feed(at time.Time, chunk []byte) []Point {
	e.pending = e.pending[:0]
	for len(chunk) > 0 {
		text, rest, whole := bytes.Cut(chunk, newline)
		chunk = rest
		// A progress bar is a line for each of its states.
		for {
			state, after, more := bytes.Cut(text, carriage)
			if more || whole {
				e.endLine(at, state)
			} else {
				e.holdPartial(state)
			}
			if text = after; !more {
				break
			}
		}
	}
	return e.pending
}

var newline, carriage = []byte{'\n'}, []byte{'\r'}

// Rest is Feed for a last line that has no end.
func (e *Extractor) Rest(at time.Time) []Point {
	e.pending = e.pending[:0]
	e.endLine(at, nil)
	return e.pending
}

func (e *Extractor) holdPartial(b []byte) {
	if e.skip || len(e.held)+len(b) > maxMetricLine {
		e.skip, e.held = true, e.held[:0]
		return
	}
	e.held = append(e.held, b...)
}

// endLine looks at a line: what is held of it, and b.
func (e *Extractor) endLine(at time.Time, b []byte) {
	switch {
	case e.skip || len(e.held)+len(b) > maxMetricLine:
	case len(e.held) > 0:
		e.held = append(e.held, b...)
		e.extractLine(at, e.held)
	default:
		e.extractLine(at, b)
	}
	e.held, e.skip = e.held[:0], false
}

func (e *Extractor) extractLine(at time.Time, b []byte) {
	if i := bytes.Index(b, metricMark); i >= 0 {
		e.extractMarked(at, b[i+len(metricMark):])
		b = b[:i]
	}
	if len(b) < 3 || e.find == 0 && len(e.rules) == 0 { // x=1
		return
	}
	if bytes.IndexByte(b, 0x1b) >= 0 || bytes.IndexByte(b, '\b') >= 0 {
		e.clean = plainText(e.clean[:0], b)
		b = e.clean
	}
	e.epochs.readHeading(b)
	pairs := e.pairs.pairsInLine(b, e.find)
	if e.redact != nil && (len(pairs) > 0 || e.matchesRule(b)) {
		if shown := e.redact.String(string(b)); shown != string(b) {
			b = []byte(shown)
			pairs = e.pairs.pairsInLine(b, e.find)
		}
	}
	var where position // found when first needed
	for i := range e.rules {
		e.rules[i].extractLine(e, at, b, &where)
	}
	for _, p := range pairs {
		e.addPoint(at, p.name, p.value, where.readPosition(b, &e.epochs))
	}
}

// matchesRule is true when an expression of the user's matches.
func (e *Extractor) matchesRule(b []byte) bool {
	return slices.ContainsFunc(e.rules, func(r rule) bool { return bytes.Contains(b, r.literal) && r.re.Match(b) })
}

// addPoint gives a point, unless there are too many names.
func (e *Extractor) addPoint(at time.Time, name []byte, value float64, where *position) {
	s := e.series[string(name)]
	if s == nil {
		known, ok := e.names.internName(name)
		if !ok {
			return
		}
		s = &steps{name: known}
		e.series[known] = s
	}
	p := Point{Time: at, Name: s.name, Value: value}
	p.Step, p.Counted = s.nextStep(where)
	e.pending = append(e.pending, p)
}

func (n *names) internName(name []byte) (string, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if s, ok := n.known[string(name)]; ok {
		return s, true
	}
	if len(n.known) == maxNames {
		n.full = true
		return "", false
	}
	s := string(name)
	n.known[s] = s
	return s, true
}

// rule is an expression of the user's.
type rule struct {
	re      *regexp.Regexp
	literal []byte // every match holds it; empty: not known
	groups  []ruleGroup
	step    int // the group that says the step; 0: none
}

type ruleGroup struct {
	name  []byte
	index int
}

func newRule(m job.Metric) (r rule, err error) {
	r.re, err = regexp.Compile(m.Regex)
	if err != nil {
		return r, fault.Wrap(err, fault.Invalid, "", "find metric %q: %q is not a regular expression", m.Name, m.Regex)
	}
	for i, group := range r.re.SubexpNames() {
		switch {
		case i == 0:
		case r.step == 0 && stepWords[strings.ToLower(group)] != noStep && r.re.NumSubexp() > 1:
			r.step = i
		case m.Name != "" && len(r.groups) == 0:
			r.groups = []ruleGroup{{[]byte(short(m.Name)), i}}
		case m.Name == "" && group != "":
			r.groups = append(r.groups, ruleGroup{[]byte(short(group)), i})
		}
	}
	if len(r.groups) == 0 {
		return r, fault.New(fault.Invalid, "Put the number into brackets: `--metric 'loss=loss: ([0-9.]+)'`.",
			"find metric %q: %q has no group for its number", m.Name, m.Regex)
	}
	if tree, err := syntax.Parse(m.Regex, syntax.Perl); err == nil {
		r.literal = []byte(needed(tree))
	}
	return r, nil
}

// short cuts a name to maxName bytes.
func short(name string) string {
	if len(name) <= maxName {
		return name
	}
	name = name[:maxName]
	for !utf8.ValidString(name) {
		name = name[:len(name)-1]
	}
	return name
}

// needed is the longest text that every match of re holds. Looking for it is
// fifty times as fast as matching, and most lines lack it.
func needed(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return needed(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return needed(re.Sub[0])
		}
	case syntax.OpConcat:
		var longest string
		for _, sub := range re.Sub {
			if s := needed(sub); len(s) > len(longest) {
				longest = s
			}
		}
		return longest
	}
	return ""
}

// extractLine gives every match's numbers; a group that holds no number gives nothing.
func (r *rule) extractLine(e *Extractor, at time.Time, b []byte, where *position) {
	if !bytes.Contains(b, r.literal) {
		return
	}
	for _, m := range r.re.FindAllSubmatchIndex(b, maxPairs) {
		here := where.readPosition(b, &e.epochs)
		if r.step > 0 && m[2*r.step] >= 0 {
			if step, _, ok := digits(b[m[2*r.step]:m[2*r.step+1]]); ok {
				here = &position{kind: byStep, step: step}
			}
		}
		for _, g := range r.groups {
			if m[2*g.index] < 0 {
				continue
			}
			text := bytes.TrimSuffix(bytes.TrimSpace(b[m[2*g.index]:m[2*g.index+1]]), []byte{'%'})
			if v, n, _ := number(text); n > 0 && n == len(text) {
				e.addPoint(at, g.name, v, here)
			}
		}
	}
}

// plainText appends b to dst without escape sequences and backspaces.
func plainText(dst, b []byte) []byte {
	for len(b) > 0 {
		if b[0] == '\b' {
			b = b[1:]
		} else if n := screen.EscapeLen(b); n > 0 {
			b = b[n:]
		} else {
			dst, b = append(dst, b[0]), b[1:]
		}
	}
	return dst
}
