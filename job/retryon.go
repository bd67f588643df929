package job

import (
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
)

// The kinds of an item's failure that its exit status does not tell. They are
// names in a RetryOn, too.
const (
	FailMemory = "OOM"     // it went over its memory limit
	FailTime   = "timeout" // its try took longer than it may
)

// RetryOn are the failures of an item after which it is tried again; all others
// are final at once. It names exit statuses and ranges of them, signals, OOM and
// timeout: "75", "70-79", "SIGSEGV". None: it is tried again after each.
type RetryOn []string

// signalNumbers are the signals that it may name, and what they are on Linux.
var signalNumbers = map[string]int{"SIGHUP": 1, "SIGINT": 2, "SIGQUIT": 3, "SIGILL": 4, "SIGTRAP": 5, "SIGABRT": 6, "SIGBUS": 7, "SIGFPE": 8, "SIGKILL": 9,
	"SIGUSR1": 10, "SIGSEGV": 11, "SIGUSR2": 12, "SIGPIPE": 13, "SIGALRM": 14, "SIGTERM": 15, "SIGXCPU": 24, "SIGXFSZ": 25, "SIGSYS": 31}

// ParseRetryOn reads what was typed: names apart by commas, in any case. "any" alone
// is none.
func ParseRetryOn(text string) (on RetryOn, err error) {
	if strings.EqualFold(strings.TrimSpace(text), "any") {
		return RetryOn{}, nil
	}
	for part := range strings.SplitSeq(text, ",") {
		name, ok := failureName(strings.TrimSpace(part))
		if !ok {
			return nil, unknownFailure(part)
		}
		if !slices.Contains(on, name) {
			on = append(on, name)
		}
	}
	return on, nil
}

func unknownFailure(name string) error {
	return fault.New(fault.Invalid, "Use exit statuses, signals, OOM and timeout: `--retry-on 75,100-110,SIGSEGV,OOM`.", "read --retry-on: %q is not a kind of failure", name)
}

// failureName is how a failure is kept.
func failureName(text string) (name string, ok bool) {
	upper := strings.ToUpper(text)
	switch {
	case upper == FailMemory:
		return FailMemory, true
	case strings.EqualFold(text, FailTime):
		return FailTime, true
	case signalNumbers[upper] > 0:
		return upper, true
	case signalNumbers["SIG"+upper] > 0:
		return "SIG" + upper, true
	}
	from, to, ok := statuses(text)
	if ok && from == to {
		text = strconv.Itoa(from)
	}
	return text, ok
}

// statuses reads an exit status, or a range of them.
func statuses(text string) (from, to int, ok bool) {
	first, last, ranged := strings.Cut(text, "-")
	if !ranged {
		last = first
	}
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	return from, to, err == nil && err2 == nil && from >= 1 && from <= to && to <= 255
}

// Matches says whether an item is tried again after a failure: its exit status as a
// shell says it, its signal or "", and its kind or "". A signal is known by the
// status of a shell that has passed it on, too.
func (on RetryOn) Matches(code int, signal, kind string) bool {
	if len(on) == 0 {
		return true
	}
	for _, name := range on {
		from, to, isStatus := statuses(name)
		n, isSignal := signalNumbers[name]
		switch {
		case isSignal && kind == "":
			if signal == name || code == 128+n {
				return true
			}
		case isStatus && kind == "":
			if from <= code && code <= to {
				return true
			}
		case !isStatus && !isSignal && kind == name:
			return true
		}
	}
	return false
}

// Has says whether a name is one of them.
func (on RetryOn) Has(name string) bool { return slices.Contains(on, name) }

// ParseStep reads how much more memory an item gets after it had too little: "2x",
// "1.5x" or "2".
func ParseStep(text string) (float64, error) {
	step, err := strconv.ParseFloat(strings.TrimSuffix(strings.ToLower(strings.TrimSpace(text)), "x"), 64)
	if err != nil || !(step > 1 && step <= maxStep) {
		return 0, fault.New(fault.Invalid, "Use more than 1 and at most 16: `--memory-step 2x`.", "read --memory-step: %q", text)
	}
	return step, nil
}

const maxStep = 16

// checkRules sees that rules of retry can have an effect.
func checkRules(s Spec) error {
	for i, name := range s.RetryOn {
		kept, ok := failureName(name)
		if !ok {
			return unknownFailure(name)
		}
		s.RetryOn[i] = kept
	}
	switch {
	case (len(s.RetryOn) > 0 || s.MemoryStep != 0) && s.Retries == 0:
		return fault.New(fault.Invalid, "Say how often: `--retries 3`.", "check job: --retry-on and --memory-step have no effect without --retries")
	case s.MemoryStep == 0:
		return nil
	case !(s.MemoryStep > 1 && s.MemoryStep <= maxStep):
		return fault.New(fault.Invalid, "Use more than 1 and at most 16: `--memory-step 2x`.", "check job: memory step %v", s.MemoryStep)
	case s.Memory == 0:
		return fault.New(fault.Invalid, "Say what an item begins with: `--memory 2G`.", "check job: --memory-step is for items that have a memory limit")
	case s.Stream:
		return fault.New(fault.Invalid, "Leave `--memory-step` out, and give `--memory` what the largest item needs.", "check job: a stream program keeps the memory it was started with")
	case len(s.RetryOn) > 0 && !s.RetryOn.Has(FailMemory):
		return fault.New(fault.Invalid, "Add OOM to `--retry-on`.", "check job: --memory-step, but items that run out of memory are not tried again")
	}
	return nil
}
