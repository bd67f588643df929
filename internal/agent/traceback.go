package agent

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// traceback is the last line of a Python traceback and the innermost frame in
// the user's own files.
type traceback struct {
	Error string // "ValueError: bad thing"
	File  string // relative to the code folder where it lies in it
	Line  string
}

// String is "ValueError: bad thing at train.py line 12".
func (t traceback) String() string {
	if t.File == "" {
		return t.Error
	}
	return fmt.Sprintf("%s at %s line %s", t.Error, t.File, t.Line)
}

var (
	frameLine = regexp.MustCompile(`^  File "([^"]+)", line (\d+)`)
	errorLine = regexp.MustCompile(`^([A-Za-z_][\w.]*)(: .*)?$`)
)

// lastTraceback finds the last Python traceback in what a program wrote.
func lastTraceback(text, code string) (traceback, bool) {
	i := strings.LastIndex(text, "Traceback (most recent call last):")
	if i < 0 {
		return traceback{}, false
	}
	var t, outer traceback
	for _, line := range strings.Split(text[i:], "\n")[1:] {
		line = strings.TrimRight(line, "\r")
		if m := frameLine.FindStringSubmatch(line); m != nil {
			outer.File, outer.Line = filepath.Base(m[1]), m[2]
			if rel, err := filepath.Rel(code, m[1]); err == nil && !strings.HasPrefix(rel, "..") {
				t.File, t.Line = rel, m[2]
			}
			continue
		}
		if line == "" || line[0] == ' ' {
			continue
		}
		if m := errorLine.FindStringSubmatch(line); m != nil {
			t.Error = line
			if len(t.Error) > 300 {
				t.Error = strings.ToValidUTF8(t.Error[:300], "") + "..."
			}
			break
		}
	}
	if t.File == "" {
		t.File, t.Line = outer.File, outer.Line
	}
	return t, t.Error != ""
}
