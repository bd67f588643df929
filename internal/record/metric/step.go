package metric

import "bytes"

// A line that reports a number often says when: epoch 3, step=40, [10], 12/100.
// What it says may begin anew with every epoch; what is stored must not, or a
// plot would draw one epoch over the other.

// stepKind says what a step was read from. The highest one of a line counts.
type stepKind uint8

const (
	noStep     stepKind = iota
	byEpoch             // epoch 3
	byLead              // [3] at the beginning, as XGBoost and LightGBM write it
	byFraction          // 12/100, of a bar
	byStep              // step 3, step 3/100
	byGlobal            // global_step 3: never begins anew
)

// stepWords are followed by a step, and are no metrics themselves.
var stepWords = map[string]stepKind{
	"epoch": byEpoch, "step": byStep, "iter": byStep, "iteration": byStep, "it": byStep, "itr": byStep, "batch": byStep,
	"round": byStep, "episode": byStep, "update": byStep, "global_step": byGlobal, "globalstep": byGlobal,
}

// position is what a line says of its step.
type position struct {
	read  bool
	kind  stepKind
	step  int64
	total int64 // as in 12/100; 0: not said
	epoch int64 // -1: not known
	whole bool  // epoch and total were said: step counts from the very beginning
}

// epochs remembers what the stream said last.
type epochs struct {
	now   int64
	known bool
	zero  bool // epoch 0 was seen
}

// readHeading remembers Epoch 2/3 where it stands alone above what it is about.
func (e *epochs) readHeading(line []byte) {
	n := spaces(line)
	if len(line)-n < len("epoch 1") || line[n]|0x20 != 'e' || !bytes.EqualFold(line[n:n+5], []byte("epoch")) {
		return
	}
	if said, ok := after(line, n+5); ok {
		e.setEpoch(said.step)
	}
}

func (e *epochs) setEpoch(epoch int64) {
	e.now, e.known = epoch, true
	e.zero = e.zero || epoch == 0
}

// readPosition reads a line, once.
func (p *position) readPosition(line []byte, e *epochs) *position {
	if p.read {
		return p
	}
	var best, bar, epoch position
	if n, ok := lead(line); ok {
		best = position{kind: byLead, step: n}
	}
	for i := 0; i < len(line); {
		switch c := line[i]; {
		case letter(c):
			to := i
			for to < len(line) && (letter(line[to]) || figure(line[to])) {
				to++
			}
			said, ok := after(line, to)
			said.kind = stepWord(line[i:to])
			switch {
			case !ok || said.kind == noStep:
				i = to
				continue
			case said.kind == byEpoch:
				epoch = said
			case said.kind > best.kind:
				best = said
			}
			i = said.endOfPosition(line, to)
		case figure(c):
			step, total, to := fraction(line, i)
			if total > 0 && bar.kind == noStep {
				bar = position{kind: byFraction, step: step, total: total}
			}
			i = to
		default:
			i++
		}
	}
	if epoch.kind != noStep {
		e.setEpoch(epoch.step)
	}
	if bar.kind > best.kind {
		best = bar
	}
	*p = best.withinEpoch(epoch, e)
	if p.read, p.epoch = true, -1; e.known {
		p.epoch = e.now
	}
	return p
}

// withinEpoch puts a step into its epoch.
func (p position) withinEpoch(epoch position, e *epochs) position {
	switch {
	case p.kind == noStep:
		return epoch
	case p.total > 0 && e.known && p.kind != byGlobal && p.total <= 1e12 && e.now <= 1e6:
		done := e.now
		if !e.zero {
			done--
		}
		p.step += max(0, done) * p.total
		p.whole = true
	}
	return p
}

func stepWord(w []byte) stepKind {
	var buf [maxName]byte
	if len(w) > len("global_step") {
		return noStep
	}
	return stepWords[string(last(w, &buf))]
}

// after reads the number behind a word that ends at i: " 3", ": 3/10", "=[3]",
// "': 3". A number with a point, as in 'epoch': 0.5, is no step.
func after(line []byte, i int) (p position, ok bool) {
	n := i
	for n < len(line) && n < i+8 && bytes.IndexByte([]byte(" \t:=[(#'\""), line[n]) >= 0 {
		n++
	}
	if n == i || n == len(line) {
		return p, false
	}
	step, length, ok := digits(line[n:])
	if !ok {
		return p, false
	}
	p.step, n = step, n+length
	rest := line[n:]
	if len(rest) > 0 && (letter(rest[0]) || rest[0] == '.' && len(rest) > 1 && figure(rest[1])) {
		return p, false
	}
	if slash := spaces(rest); slash < len(rest) && rest[slash] == '/' {
		slash++
		slash += spaces(rest[slash:])
		if total, _, ok := digits(rest[slash:]); ok {
			p.total = total
		}
	}
	return p, true
}

// endOfPosition is where what after read ends, so that the 3 of Epoch 1/3 is not read again.
func (p *position) endOfPosition(line []byte, i int) int {
	for i < len(line) && !figure(line[i]) {
		i++
	}
	i = run(line, i)
	if p.total > 0 {
		for i < len(line) && !figure(line[i]) {
			i++
		}
		i = run(line, i)
	}
	return i
}

// fraction reads 12/100 at i. total is 0 when there is none; to is where to go on.
func fraction(line []byte, i int) (step, total int64, to int) {
	step, n, ok := digits(line[i:])
	if !ok {
		return 0, 0, run(line, i)
	}
	to = i + n
	if i > 0 && bytes.IndexByte([]byte(" \t[(|"), line[i-1]) < 0 || isValue(line[:i]) || to == len(line) || line[to] != '/' {
		return 0, 0, to
	}
	total, n, ok = digits(line[to+1:])
	if !ok || step > total {
		return 0, 0, to
	}
	to += 1 + n
	if to < len(line) && bytes.IndexByte([]byte(" \t])(,:["), line[to]) < 0 {
		return 0, 0, to
	}
	return step, total, to
}

// isValue is true when what follows before is a value, as in Accuracy: 9830/10000.
func isValue(before []byte) bool {
	before = bytes.TrimRight(before, " \t")
	return len(before) > 0 && (before[len(before)-1] == ':' || before[len(before)-1] == '=')
}

// lead reads the [10] that a line begins with, or the 10: before a tab.
func lead(line []byte) (int64, bool) {
	if len(line) < 3 {
		return 0, false
	}
	if line[0] == '[' {
		step, n, ok := digits(line[1:])
		return step, ok && n+1 < len(line) && line[n+1] == ']'
	}
	step, n, ok := digits(line)
	return step, ok && n+1 < len(line) && line[n] == ':' && line[n+1] == '\t'
}

// steps makes the steps of one name go on.
type steps struct {
	name  string
	began bool
	kind  stepKind // what the first line said; others are not mixed with it
	total int64    // of which, and in which epoch
	epoch int64
	said  int64
	base  int64
	last  int64
}

// nextStep gives the step of a value from the line at p.
func (s *steps) nextStep(p *position) (step int64, counted bool) {
	if !s.began {
		s.began, s.kind, s.said, s.total, s.epoch = true, p.kind, p.step, p.total, p.epoch
	}
	switch {
	case s.kind == noStep:
		s.last++
		return s.last, true
	case p.kind != s.kind, p.total != s.total && p.epoch == s.epoch:
		// A summary, or the bar of an evaluation: both are of the last step.
		return s.last, false
	}
	s.total, s.epoch = p.total, p.epoch
	// A count that begins anew goes on here. Workers that print into one stream
	// step back a little, and mean it.
	if s.kind != byGlobal && p.step < s.said && (p.step <= 1 || p.step <= s.said/2) {
		if p.total > 0 && !p.whole {
			s.base += p.total
		} else {
			s.base += s.said
		}
	}
	s.said = p.step
	s.last = s.base + p.step
	return s.last, false
}
