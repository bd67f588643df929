package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// section is one comparison and the claim it bears. A new one is one entry below.
type section struct {
	name  string
	ours  func(*place) command
	peer  func(*place) command
	until moment
	claim string
	holds func(ours, peer times) bool
	needs string // a program on PATH; without it the section is passed over
	// prepare makes what the commands find in their place; nil: nothing.
	prepare func(*place) error
	// trial measures in a way of its own, and all above but name and needs is empty. It
	// gives its report, from "to ..." on, and the claims that do not hold.
	trial func(context.Context, *hall) (report string, broken []string, err error)
}

// command is a program and its arguments, and how it is shown: paths are long.
type command struct {
	argv []string
	show string
}

// moment is when the clock stops.
type moment string

const (
	untilExit  moment = "exit"
	untilFirst moment = "first line" // of standard output, newline included
)

const (
	maxHelp  = 15 * time.Millisecond  // DESIGN section 9: a person leans on --help and completion
	maxDelay = 150 * time.Millisecond // what `drover run` may put before a program's first word
	// what two nodes may cost from nothing to the shell's next prompt: two agents
	// that begin, meet and store, and a job that settles
	maxNodes = 600 * time.Millisecond
	// what MPI may cost more than mpiexec alone: the same, and the calls between nodes
	maxMPI = 1500 * time.Millisecond
)

// sections are all that can be measured, in this order.
var sections = slices.Concat([]section{
	{
		name:  "help",
		ours:  func(p *place) command { return command{[]string{p.drover, "--help"}, "drover --help"} },
		peer:  hello,
		until: untilExit,
		claim: "drover --help takes at most 15 ms",
		holds: func(ours, _ times) bool { return ours.medianTime() <= maxHelp },
	},
	{
		name: "first-line",
		ours: func(p *place) command {
			return command{[]string{p.drover, "run", p.python, "hello.py"}, "drover run python3 hello.py"}
		},
		peer:  hello,
		until: untilFirst,
		claim: "the first line comes at most 150 ms after python's own",
		holds: func(ours, peer times) bool { return ours.medianTime() <= peer.medianTime()+maxDelay },
	},
	{
		name: "two-nodes", ours: twoNodes, peer: twoAtOnce, until: untilExit,
		claim: "two nodes take at most 600 ms more than two bare processes",
		holds: func(ours, peer times) bool { return ours.medianTime() <= peer.medianTime()+maxNodes },
	},
	{
		name: "mpi", ours: twoNodesMPI, peer: mpiexec, until: untilExit, needs: "mpiexec",
		claim: "four processes on two nodes take at most 1.5 s more than mpiexec on one",
		holds: func(ours, peer times) bool { return ours.medianTime() <= peer.medianTime()+maxMPI },
	},
}, inputSections, copySections, mapSections, streamSections, searchSections, requestSections)

func twoNodes(p *place) command {
	return command{[]string{p.drover, "run", "-q", "--nodes", "2", p.python, "hello.py"}, "drover run --nodes 2"}
}

func twoAtOnce(p *place) command {
	return command{[]string{"sh", "-c", `"$0" hello.py & "$0" hello.py; wait`, p.python}, "hello.py & hello.py"}
}

func twoNodesMPI(p *place) command {
	return command{[]string{p.drover, "run", "-q", "--nodes", "2", "--procs-per-node", "2", "--launcher", "mpi", p.python, "hello.py"}, "drover run --launcher mpi"}
}

func mpiexec(p *place) command {
	return command{[]string{"mpiexec", "-n", "4", p.python, "hello.py"}, "mpiexec -n 4 hello.py"}
}

func hello(p *place) command {
	return command{[]string{p.python, "hello.py"}, "python3 hello.py"}
}

// report is a section's table: both commands, their figures, and the verdict.
func report(p *place, s section, ours, peer times) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%s: to %s\n", s.name, s.until)
	for _, row := range []struct {
		who string
		c   command
		t   times
	}{{"ours", s.ours(p), ours}, {"peer", s.peer(p), peer}} {
		fmt.Fprintf(&b, "  %s  %-28s  median %10s  min %10s\n", row.who, row.c.show, millis(row.t.medianTime()), millis(row.t.shortestTime()))
	}
	verdict := "holds"
	if !s.holds(ours, peer) {
		verdict = "DOES NOT HOLD"
	}
	fmt.Fprintf(&b, "  ratio %.2f, difference %s (medians)\n  claim: %s: %s\n",
		float64(ours.medianTime())/float64(peer.medianTime()), millis(ours.medianTime()-peer.medianTime()), s.claim, verdict)
	return b.String()
}

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
