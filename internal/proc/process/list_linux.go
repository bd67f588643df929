package process

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// List lists the living. A process that ends while we read is left out.
func List() ([]Entry, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	all := make([]Entry, 0, len(names))
	for _, name := range names {
		if name[0] < '1' || name[0] > '9' {
			continue
		}
		stat, err := os.ReadFile("/proc/" + name + "/stat")
		if err != nil {
			continue
		}
		if p, alive, err := ParseStat(stat); err == nil && alive {
			all = append(all, p)
		}
	}
	return all, nil
}

// ParseStat reads proc(5)'s stat. A program may name itself anything, brackets
// and newlines too, so the fields are counted from the last bracket.
func ParseStat(stat []byte) (p Entry, alive bool, err error) {
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return p, false, fmt.Errorf("read stat: %q: no name", stat)
	}
	f := bytes.Fields(stat[end+1:])
	if len(f) < 20 {
		return p, false, fmt.Errorf("read stat: %q: too short", stat)
	}
	var threads int
	for _, n := range []struct {
		into *int
		text []byte
	}{
		{&p.PID, bytes.TrimSpace(stat[:open])},
		{&p.Parent, f[1]}, {&p.Group, f[2]}, {&p.Session, f[3]}, {&threads, f[17]},
	} {
		if *n.into, err = strconv.Atoi(string(n.text)); err != nil {
			return Entry{}, false, fmt.Errorf("read stat: %w", err)
		}
	}
	if p.Start, err = strconv.ParseUint(string(f[19]), 10, 64); err != nil {
		return Entry{}, false, fmt.Errorf("read stat: %w", err)
	}
	// A zombie with threads has lost its first thread only, and runs.
	dead := (f[0][0] == 'Z' || f[0][0] == 'X') && threads <= 1
	return p, !dead, nil
}

// Carries says whether the process was started with the token. What we may not
// read is not ours to kill.
func Carries(pid int, token string) bool {
	env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
	return err == nil && Marked(env, token)
}
