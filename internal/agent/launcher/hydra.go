package launcher

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Hydra, the mpiexec of MPICH and Intel MPI, prints with "-launcher manual" what
// it wants started, a line for each host, then that it is done, and waits. All
// else that it prints is the program's.
const (
	hydraLine = "HYDRA_LAUNCH: "
	hydraEnd  = "HYDRA_LAUNCH_END"
)

// filter takes these lines out of a stream and passes on everything else, byte
// for byte and at once.
type filter struct {
	out   io.Writer
	start func(line string) // told of each command, in order
	over  bool              // hydraEnd was seen
	line  []byte            // what may become one of these lines
	other bool              // the line that goes on is the program's
}

// Write never holds back what cannot be one of the lines.
func (f *filter) Write(b []byte) (int, error) {
	n := len(b)
	for len(b) > 0 {
		if f.over {
			_, err := f.out.Write(b)
			return n, err
		}
		i := bytes.IndexByte(b, '\n')
		text := b[:i+1]
		if i < 0 {
			text = b
		}
		b = b[len(text):]
		if err := f.filterPiece(text, i >= 0); err != nil {
			return n, err
		}
	}
	return n, nil
}

// filterPiece handles a piece of one line; ended says that it holds the line's end.
func (f *filter) filterPiece(text []byte, ended bool) error {
	if !f.other {
		f.line = append(f.line, text...)
		switch {
		case f.mayBeHydraLine() && !ended:
			return nil
		case f.mayBeHydraLine() && f.isHydraLine(string(bytes.TrimSuffix(f.line, []byte("\n")))):
			f.line = f.line[:0]
			return nil
		}
		text = f.line
		f.line = nil
	}
	f.other = !ended
	_, err := f.out.Write(text)
	return err
}

// isHydraLine says whether a whole line is hydra's, and does what it says.
func (f *filter) isHydraLine(line string) bool {
	command, ok := strings.CutPrefix(line, hydraLine)
	switch {
	case line == hydraEnd:
		f.over = true
		return true
	case ok:
		f.start(command)
		return true
	}
	return false
}

// mayBeHydraLine says whether the line so far could become one of hydra's.
func (f *filter) mayBeHydraLine() bool {
	for _, sign := range []string{hydraLine, hydraEnd} {
		n := min(len(f.line), len(sign))
		if string(f.line[:n]) == sign[:n] {
			return true
		}
	}
	return false
}

// flushHeldBack passes on what was held back when the stream ends.
func (f *filter) flushHeldBack() error {
	_, err := f.out.Write(f.line)
	f.line = nil
	return err
}

var proxyID = regexp.MustCompile(`(?:^| )--proxy-id (\d+)(?: |$)`)

// proxy is the number of the host that a command of hydra's is for; ok is false
// when it does not say.
func proxy(line string) (n int, ok bool) {
	m := proxyID.FindStringSubmatch(line)
	if m == nil {
		return 0, false
	}
	n, err := strconv.Atoi(m[1])
	return n, err == nil
}
