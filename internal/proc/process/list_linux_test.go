package process

import (
	"encoding/json"
	"os"
	"testing"
)

func TestStatIsReadThoughTheNameIsHostile(t *testing.T) {
	t.Parallel()
	rest := " 2 3 4 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 1 0 777 0 0"
	for _, c := range []struct {
		stat  string
		want  Entry
		alive bool
	}{
		{"10 (sh) S" + rest, Entry{10, 2, 3, 4, 777}, true},
		{"10 (a) R 9 9 9) S" + rest, Entry{10, 2, 3, 4, 777}, true},
		{"10 (new\nline () Z" + rest, Entry{10, 2, 3, 4, 777}, false},
		{"10 (x) Z 2 3 4 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 777 0 0", Entry{10, 2, 3, 4, 777}, true},
	} {
		got, alive, err := ParseStat([]byte(c.stat))
		if err != nil || got != c.want || alive != c.alive {
			t.Errorf("%q: got %+v, %v, %v", c.stat, got, alive, err)
		}
	}
	for _, bad := range []string{"", "10 sh S", "10 (sh) S 1 2", "x (sh) S" + rest, ")("} {
		if got, _, err := ParseStat([]byte(bad)); err == nil {
			t.Errorf("%q: got %+v", bad, got)
		}
	}
}

func FuzzStat(f *testing.F) {
	if own, err := os.ReadFile("/proc/self/stat"); err == nil {
		f.Add(own)
	}
	f.Add([]byte("1 () S 0 1 1"))
	f.Add([]byte("10 (x) Z 2 3 4 0 -1 4194304 0 0 0 0 0 0 0 0 20 0 3 0 777 0 0"))
	f.Fuzz(func(t *testing.T, stat []byte) {
		if p, _, err := ParseStat(stat); err != nil && p != (Entry{}) && p.Start != 0 {
			t.Errorf("%q: a process beside an error: %+v", stat, p)
		}
	})
}

func TestIdentityKnowsTheGone(t *testing.T) {
	t.Parallel()
	self := Self()
	if self.Boot == "" || self.Namespace == "" || self.Start == 0 || self.PID != os.Getpid() || self != Self() {
		t.Fatalf("got %+v", self)
	}
	b, err := json.Marshal(self)
	if err != nil {
		t.Fatal(err)
	}
	var copied Identity
	if err := json.Unmarshal(b, &copied); err != nil || copied != self {
		t.Errorf("as JSON: %s, %v", b, err)
	}
	with := func(change func(*Identity)) Identity {
		id := self
		change(&id)
		return id
	}
	// A child that has exited, before and after it is waited for.
	child, err := os.StartProcess("/bin/sh", []string{"sh", "-c", "read x"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil}})
	if err != nil {
		t.Fatal(err)
	}
	born, _, err := Find(child.Pid)
	if err != nil {
		t.Fatal(err)
	}
	ended := with(func(id *Identity) { id.PID, id.Start = child.Pid, born.Start })
	if _, err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		id          Identity
		gone, known bool
	}{
		"self":              {self, false, true},
		"ended":             {ended, true, true},
		"pid used again":    {with(func(id *Identity) { id.Start++ }), true, true},
		"another boot":      {with(func(id *Identity) { id.Boot = "other" }), false, false},
		"another namespace": {with(func(id *Identity) { id.Namespace = "pid:[1]" }), false, false},
		"unknown start":     {with(func(id *Identity) { id.Start = 0 }), false, false},
		"nobody":            {Identity{}, false, false},
	} {
		if gone, known := c.id.Gone(); gone != c.gone || known != c.known {
			t.Errorf("%s: gone %v, known %v", name, gone, known)
		}
	}
}
