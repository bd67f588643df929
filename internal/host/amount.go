package host

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// Amount is so much of a machine.
type Amount struct {
	CPUs   float64 `json:"cpus,omitempty"`   // cores' worth of time; thousandths count
	Memory int64   `json:"memory,omitempty"` // bytes
	GPUs   int     `json:"gpus,omitempty"`
}

// Fits says whether a machine that has total could give w what it wants, were
// there no other claim: fault.Full when not. Memory 0 in total is not known, and
// fits. A claim that does not wait may want more than its queue's share.
func (total Amount) Fits(w Wish) error {
	w = w.withDefaults()
	have := total.roundedUnits()
	if total.Memory <= 0 {
		have[ofMemory] = math.MaxInt64
	}
	need := w.totalUnits()
	if short := need.kindsAbove(have); len(short) > 0 {
		return fault.New(fault.Full, "Ask for less with "+flags[short[0]]+", or run it where there are more.",
			"reserve %s: this machine has %s", w.wishInWords(), some(short[0], have[short[0]]))
	}
	share := w.Share.limitUnits()
	if short := need.kindsAbove(share); len(short) > 0 && !w.Now {
		return fault.New(fault.Full, "Ask for less, raise "+keys[short[0]]+" of queue "+w.Queue+" in the config, or use another `--queue`.",
			"reserve %s: queue %s may use %s", w.wishInWords(), w.Queue, some(short[0], share[short[0]]))
	}
	return nil
}

// What a machine has, as indices of units.
const (
	ofCores = iota
	ofMemory
	ofGPUs
	kinds
)

var (
	flags = [kinds]string{"--cpus", "--memory", "--gpus"}
	keys  = [kinds]string{"cpus", "memory", "gpus"}
)

// units are an Amount in whole numbers, which add up exactly: thousandths of a
// core, bytes, GPUs.
type units [kinds]int64

// roundedUnits rounds down: a third of 2 cores, three times, must fit 2 cores.
func (a Amount) roundedUnits() (u units) {
	if a.CPUs > 0 { // and is a number
		u[ofCores] = max(int64(min(a.CPUs, 1e9)*1000+1e-6), 1)
	}
	u[ofMemory], u[ofGPUs] = max(a.Memory, 0), int64(max(a.GPUs, 0))
	return u
}

// limitUnits is an Amount that limits, where 0 does not.
func (a Amount) limitUnits() units {
	u := a.roundedUnits()
	for k, n := range u {
		if n == 0 {
			u[k] = math.MaxInt64
		}
	}
	return u
}

// addUnits adds, up to what an int64 holds.
func (u units) addUnits(others ...units) units {
	for _, o := range others {
		for k := range u {
			u[k] = sum(u[k], o[k])
		}
	}
	return u
}

func (u units) multipliedBy(n int) (all units) {
	for k := range u {
		if u[k] > math.MaxInt64/int64(n) {
			all[k] = math.MaxInt64
		} else {
			all[k] = u[k] * int64(n)
		}
	}
	return all
}

func sum(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// kindsAbove says of which kinds u is more than limit. What is not wanted at all is
// never too much, however little there is.
func (u units) kindsAbove(limit units) (short []int) {
	for k := range u {
		if u[k] > 0 && u[k] > limit[k] {
			short = append(short, k)
		}
	}
	return short
}

// wholeCores is how many cores of its own a member gets; 0: its time comes from
// any of them.
func (u units) wholeCores() int {
	if u[ofCores]%1000 != 0 {
		return 0
	}
	return int(u[ofCores] / 1000)
}

// unitsInWords are "2 cores, 4 GB and 1 GPU".
func (u units) unitsInWords() string {
	var parts []string
	for k, n := range u {
		if n > 0 {
			parts = append(parts, some(k, n))
		}
	}
	if len(parts) > 1 {
		last := len(parts) - 1
		parts = append(parts[:last-1], parts[last-1]+" and "+parts[last])
	}
	return strings.Join(parts, ", ")
}

// some is so much of one kind: "1.5 cores", "64 MB", "2 GPUs".
func some(kind int, n int64) string {
	switch {
	case kind == ofMemory:
		return job.Bytes(n).Words()
	case kind == ofGPUs && n == 0:
		return "none"
	case kind == ofGPUs:
		return countGPUs(int(n))
	case n == 1000:
		return "1 core"
	}
	return number(kind, n) + " cores"
}

// number is some without the noun, where it stands beside another: "1.5".
func number(kind int, n int64) string {
	switch kind {
	case ofCores:
		return strconv.FormatFloat(float64(n)/1000, 'f', -1, 64)
	case ofMemory:
		return job.Bytes(n).Words()
	}
	return strconv.FormatInt(n, 10)
}

func countGPUs(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}
