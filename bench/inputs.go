package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const (
	// inputFiles of inputBytes each are a small data set of small files: what a
	// sync costs is the files then, not their bytes.
	inputFiles = 10_000
	inputBytes = 1 << 10
)

const (
	// what a plan may take that finds 10,000 files as they were: "a fraction of a
	// second", the start of the program included
	maxLook = 500 * time.Millisecond
	// how much longer than rsync and a fresh copy a whole run may take: its program
	// gets 10,000 files of its own, too, each verified, and they are taken away at
	// the end. What it finds out about them is inputs-look
	maxRun = 5 * time.Second
	// how often rsync's time a first run may take: its files are on the disk when
	// it ends (two fsyncs each), and then laid out for the program; rsync waits for
	// no disk
	maxFirst = 40
)

// inputSections are about `drover run -i`, beside rsync -a of the same folder.
var inputSections = []section{
	{
		name: "inputs-first", needs: "rsync", prepare: makeInputs, until: untilExit,
		ours:  shell("drover run -i data, new store", `"$0" run -q --store "$(mktemp -d -p .. new.XXXXXX)" -i ../data "$1" hello.py`),
		peer:  shell("rsync -a data/ new/", `rm -rf ../copy && rsync -a ../data/ ../copy/ && echo done`),
		claim: "to store 10,000 new files and run takes at most 40 times rsync, which syncs none",
		holds: func(ours, peer times) bool { return ours.medianTime() <= maxFirst*peer.medianTime() },
	},
	{
		name: "inputs-look", needs: "rsync", prepare: makeInputs, until: untilExit,
		ours:  shell("drover run --plan -i data", `"$0" run --plan -i ../data "$1" hello.py && echo done`),
		peer:  shell("rsync -a data/ copy/", `rsync -a ../data/ ../copy/ && echo done`),
		claim: "to find 10,000 files unchanged takes at most 0.5 s",
		holds: func(ours, _ times) bool { return ours.medianTime() <= maxLook },
	},
	{
		name: "inputs-unchanged", needs: "rsync", prepare: makeInputs, until: untilExit,
		ours:  shell("drover run -i data", `"$0" run -q -i ../data "$1" hello.py`),
		peer:  shell("rsync; rm, cp -a copy fresh", rsyncAndCopy),
		claim: "to run with 10,000 unchanged files takes at most 5 s more than rsync and a fresh copy",
		holds: func(ours, peer times) bool { return ours.medianTime()-peer.medianTime() <= maxRun },
	},
	{
		name: "inputs-touched", needs: "rsync", prepare: makeInputs, until: untilExit,
		ours:  shell("touch 1; drover run -i data", `echo $$ >../data/00/000 && "$0" run -q -i ../data "$1" hello.py`),
		peer:  shell("touch 1; rsync; rm, cp -a", "echo $$ >../data/00/001 && "+rsyncAndCopy),
		claim: "to run with one of 10,000 files changed takes at most 5 s more than rsync and a fresh copy",
		holds: func(ours, peer times) bool { return ours.medianTime()-peer.medianTime() <= maxRun },
	},
}

// rsyncAndCopy brings a copy up to date, and gives a program one of its own.
const rsyncAndCopy = `rsync -a ../data/ ../copy/ && rm -rf ../fresh && cp -a ../copy ../fresh && echo done`

// shell is a line for sh, which finds the program to measure in $0 and the
// interpreter in $1.
func shell(show, line string) func(*place) command {
	return func(p *place) command {
		return command{[]string{"sh", "-c", line, p.drover, p.python}, show}
	}
}

// makeInputs makes the folder data once, beside the one that the commands run in
// and so no part of the code, in the shape of a data set:
// a hundred folders of files.
func makeInputs(p *place) error {
	top := filepath.Join(p.dir, "data")
	if err := os.Mkdir(top, 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	for i := range inputFiles {
		folder := filepath.Join(top, fmt.Sprintf("%02d", i/100))
		if i%100 == 0 {
			if err := os.Mkdir(folder, 0o700); err != nil {
				return err
			}
		}
		text := fmt.Appendf(nil, "%0*d", inputBytes, i) // no two alike
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%03d", i%100)), text, 0o600); err != nil {
			return err
		}
	}
	return nil
}
