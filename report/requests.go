package report

import "math"

// Requests is how many an object store gets. Stores ask as much for a list as for a
// write, and nothing for what deletes.
type Requests struct{ Writes, Lists, Reads int }

// Times is n times as many, and Add as many more.
func (r Requests) Times(n float64) Requests {
	times := func(m int) int { return int(math.Ceil(n * float64(m))) }
	return Requests{times(r.Writes), times(r.Lists), times(r.Reads)}
}

// Add is as many more.
func (r Requests) Add(o Requests) Requests {
	return Requests{r.Writes + o.Writes, r.Lists + o.Lists, r.Reads + o.Reads}
}

// Sum is all of them.
func (r Requests) Sum() int { return r.Writes + r.Lists + r.Reads }
