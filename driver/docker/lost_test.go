package docker

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/driver"
)

// What an agent has left that was lost is moved to where the next one of its task looks.
// One that has said how it ended, or never came up, has left nothing.
func TestTheRootOfALostAgentIsKept(t *testing.T) {
	h := driver.Handle{Target: Name, Job: "abcd2345abcd2345", Placement: 2}
	for name, c := range map[string]struct {
		notes []note
		kept  bool
	}{
		"lost":           {[]note{{Up: true}}, true},
		"killed":         {[]note{{Up: true}, {Outcome: "it was killed by signal 9"}}, true},
		"ended":          {[]note{{Up: true}, {End: &end{Code: 1, Reason: "failed"}}}, false},
		"never started":  {[]note{{End: &end{Code: -1, Reason: "no such image"}}}, false},
		"never heard of": {nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			base := t.TempDir()
			d := New(filepath.Join(base, "docker"), "")
			d.work = filepath.Join(base, "work")
			dir, _ := d.placementFolder(h)
			file := filepath.Join(agentDir(dir, 0), rootDir, "opt/ml/n")
			if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte("7"), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, n := range c.notes {
				if err := say(agentDir(dir, 0), n); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // a second process does the same
				if err := d.keepLost(h, dir, 0); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"opt/ml/n", driver.LostFile} {
				_, err := os.Stat(filepath.Join(d.work, h.Job, "docker-2-0", name))
				if kept := err == nil; kept != c.kept || err != nil && !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%s: %v, want it kept: %v", name, err, c.kept)
				}
			}
		})
	}
}
