// Package process sees the processes of one program on this machine: their memory, the
// time that agents use, and which of them live. It refuses to know what they do. Where
// there is no /proc it sees none. Tests that start processes of a copy of drover prove it.
package process

import (
	"context"
	"time"
)

// Program is the absolute path of a program, as /proc names it: a process is one of the
// program's by the file that it runs.
type Program string

// memoryEvery is rare enough to cost nothing and often enough: the kernel keeps
// each process's peak until it ends, and those that grow live as long as the job.
const memoryEvery = 200 * time.Millisecond

// sharesEvery is longer: the kernel walks all pages of a process for its shares.
const sharesEvery = 500 * time.Millisecond

// Memory is the highest resident size of the program's processes, by what they are.
type Memory map[string]int64

// Add gives the higher peaks of two.
func (m Memory) Add(other Memory) Memory {
	all := Memory{}
	for _, one := range []Memory{m, other} {
		for name, peak := range one {
			all[name] = max(all[name], peak)
		}
	}
	return all
}

// Shares is what the program's processes hold: of pages that several hold each its part.
type Shares struct {
	Sum  int64   // of all
	Each []int64 // of each agent
}

// WatchMemory samples until the function it gives is called, which answers with the peaks.
func (p Program) WatchMemory(ctx context.Context) func() Memory {
	return watch(ctx, memoryEvery, func(peaks Memory) Memory { return peaks.Add(p.ResidentPeaks()) })
}

// WatchShares samples until the function it gives is called, which answers with the moment
// in which most was held.
func (p Program) WatchShares(ctx context.Context) func() Shares {
	return watch(ctx, sharesEvery, func(most Shares) Shares {
		if now := p.Shares(); now.Sum > most.Sum {
			return now
		}
		return most
	})
}

// watch folds samples, one at once and then one every so often, until the function it gives
// is called, which answers with the fold.
func watch[T any](ctx context.Context, every time.Duration, fold func(T) T) func() T {
	ctx, cancel := context.WithCancel(ctx)
	seen := make(chan T)
	go func() { // ends with ctx
		var all T
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			all = fold(all)
			select {
			case <-tick.C:
			case <-ctx.Done():
				seen <- all
				return
			}
		}
	}()
	return func() T {
		cancel()
		return <-seen
	}
}
