package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// drover runs items from a file of lines. Its start and its end are in the time.
func drover(items int, command string) runner {
	return runner{who: us, items: items, line: func(n int) string {
		return fmt.Sprintf("drover map -q --from ../items-%d -j 8 -- %s", n, command)
	}}
}

// accept is drover up to the moment where nothing can be lost any more. The job
// itself is of no interest, and is cancelled after the clock has stopped.
var accept = runner{who: us, items: 1_000_000, line: func(n int) string {
	return fmt.Sprintf("drover map -q --detach --from ../items-%d -j 8 -- silent {}", n)
}, undo: "drover cancel last"}

// xargs appends each item to the command; its items write into one file, where
// it is unknown which wrote what.
func xargs(program string, each int) runner {
	return runner{who: "xargs", items: 20_000, leaves: each, line: func(n int) string {
		return fmt.Sprintf("xargs -a ../items-%d -P8 -n1 %s >../written", n, program)
	}, lack: onPath("xargs")}
}

// vfork is the limit: a loop in C that starts, waits, and does nothing else.
func vfork(program string, each int) runner {
	return runner{who: "vfork", items: 20_000, leaves: each, line: func(n int) string {
		return fmt.Sprintf("vfork %d 8 %s >../written", n, program)
	}}
}

var parallel = runner{who: "parallel", items: 4_000, line: func(n int) string {
	return fmt.Sprintf("parallel --will-cite -j8 --joblog ../joblog -a ../items-%d /bin/true", n)
}, lack: onPath("parallel")}

// These three are timed from submit to done by their own scripts: that their
// clusters take seconds to start and stop is left out, in their favour.
var (
	hyperqueue = engine("hyperqueue", 6_000)
	ray        = engine("ray", 6_000)
	dask       = engine("dask", 6_000)
)

func engine(name string, items int) runner {
	return runner{who: name, items: items, says: true, line: func(n int) string {
		return fmt.Sprintf("$peers/bin/python ../scripts/with_%s.py %d /bin/true", name, n)
	}, lack: func(h *hall) string {
		python := filepath.Join(h.peers, "bin", "python")
		if _, err := os.Stat(python); err != nil {
			return "there is no " + python + ": make bench-peers"
		}
		if exec.Command(python, "-c", "import sys, importlib.util as u; sys.exit(not u.find_spec('"+name+"'))").Run() != nil {
			return name + " is not in " + h.peers + ": make bench-peers"
		}
		return ""
	}}
}

// sqlite is the common way to remember what is to be done: a table, one
// transaction, synchronous = FULL. Python's start is in the time, and no program
// is ever run.
var sqlite = runner{who: "sqlite", items: 1_000_000, line: func(n int) string {
	return fmt.Sprintf("$python ../scripts/with_sqlite.py ../items-%d ../items.db", n)
}, lack: func(h *hall) string {
	if exec.Command(h.place.python, "-c", "import sqlite3").Run() != nil {
		return h.place.python + " has no sqlite3"
	}
	return ""
}}

func onPath(program string) func(*hall) string {
	return func(*hall) string {
		if _, err := exec.LookPath(program); err != nil {
			return program + " is not installed"
		}
		return ""
	}
}
