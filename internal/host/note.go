package host

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// note is what a lock file says of its holder, a line of JSON. Only people read
// it: one that was not written, the disk being full, takes no lock away.
type note struct {
	PID   int       `json:"pid"`
	Label string    `json:"label"`
	Since time.Time `json:"since"`
}

func (n note) write(fd int) {
	line, err := json.Marshal(n)
	if err != nil {
		return
	}
	again(func() error { return unix.Ftruncate(fd, 0) })
	again(func() error { _, err := unix.Pwrite(fd, append(line, '\n'), 0); return err })
}

// readNote is the note of who holds a lock; an empty one where it cannot be read.
// It is read behind the gate, and so never between a lock and its note.
func readNote(path string) (n note) {
	data, err := os.ReadFile(path)
	if err != nil || json.Unmarshal(data, &n) != nil {
		return note{}
	}
	return n
}

// holder is who holds a GPU.
type holder struct {
	GPU
	note
}

// sentence says who holds what: "waiting for 2 GPUs: job 7fk2 node 1 has GPUs 0
// and 1 (process 4711, for 12m)".
func sentence(n int, others []holder) string {
	var who []note
	what := map[note][]string{}
	for _, o := range others {
		if what[o.note] == nil {
			who = append(who, o.note)
		}
		name := fmt.Sprint(o.Index)
		if strings.HasPrefix(o.UUID, "MIG-") {
			name = o.UUID
		}
		what[o.note] = append(what[o.note], name)
	}
	var parts []string
	for _, w := range who {
		names, s := what[w], ""
		if len(names) > 1 {
			s = "s"
			names = []string{strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]}
		}
		parts = append(parts, fmt.Sprintf("%s has GPU%s %s%s", cmp.Or(w.Label, "somebody"), s, names[0], w.details()))
	}
	return "waiting for " + countGPUs(n) + ": " + strings.Join(parts, "; ")
}

func (n note) details() string {
	if n.PID == 0 {
		return ""
	}
	held := max(0, time.Since(n.Since))
	switch {
	case held < time.Minute:
		return fmt.Sprintf(" (process %d, for %ds)", n.PID, int(held.Seconds()))
	case held < time.Hour:
		return fmt.Sprintf(" (process %d, for %dm)", n.PID, int(held.Minutes()))
	}
	return fmt.Sprintf(" (process %d, for %dh%02dm)", n.PID, int(held.Hours()), int(held.Minutes())%60)
}
