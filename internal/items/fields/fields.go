// Package fields reads the named values of one CSV record or one line of JSON.
//
// It refuses to know where the line stands. Proved by its tests and those of
// package items: encoding/csv and encoding/json as oracles, fuzz.
package fields

import "strings"

// MaxNames and MaxNameBytes bound the fields' names, which stand in the job's
// record: of JSON lines further ones are no placeholders, a wider CSV is refused.
const (
	MaxNames     = 1_000
	MaxNameBytes = 64 << 10
)

// Names are the keys of JSON objects in order of first sight.
type Names struct {
	List     []string
	at       map[string]int
	bytes    int
	Full     bool  // a key was left out
	LastSeen []int // by name: the last line that had it
}

func NewNames(list []string) *Names {
	n := &Names{at: make(map[string]int, len(list))}
	for _, name := range list {
		n.Add(name)
	}
	return n
}

// Add gives a name's place; -1: no more are taken.
func (n *Names) Add(name string) int {
	if i, known := n.at[name]; known {
		return i
	}
	if len(n.List) == MaxNames || n.bytes+len(name) > MaxNameBytes {
		n.Full = true
		return -1
	}
	name = strings.Clone(name) // of a line, which would be kept whole
	n.at[name] = len(n.List)
	n.List, n.bytes, n.LastSeen = append(n.List, name), n.bytes+len(name), append(n.LastSeen, 0)
	return len(n.List) - 1
}

// Absent is the value of a field that a JSON line does not have. No value that
// fills a command is like it: an argument cannot hold a NUL byte.
const Absent = "\x00"
