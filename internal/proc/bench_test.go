package proc

import (
	"os"
	"os/exec"
	"testing"

	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/resource"
)

// What the supervisor costs, from Start to the program's first byte, beside a bare
// fork and exec of the same program.

func BenchmarkFirstByte(b *testing.B) {
	first := func(b *testing.B, start func(w *os.File) (wait func())) {
		for b.Loop() {
			r, w, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			wait := start(w)
			w.Close()
			if _, err := r.Read(make([]byte, 16)); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			wait()
			r.Close()
			b.StartTimer()
		}
	}
	b.Run("exec", func(b *testing.B) {
		first(b, func(w *os.File) func() {
			cmd := exec.Command("/bin/echo", "x")
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			return func() { _ = cmd.Wait() }
		})
	})
	for _, c := range pens(b) {
		b.Run(c.name, func(b *testing.B) {
			first(b, func(w *os.File) func() {
				c := c.Command
				c.Path, c.Args, c.Stdout = "/bin/echo", []string{"echo", "x"}, w
				p, err := Start(b.Context(), c)
				if err != nil {
					b.Skip(err)
				}
				return func() { p.Wait() }
			})
		})
	}
}

func BenchmarkWhole(b *testing.B) {
	b.Run("exec", func(b *testing.B) {
		for b.Loop() {
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, c := range pens(b) {
		b.Run(c.name, func(b *testing.B) {
			c.Path = "/bin/true"
			for b.Loop() {
				p, err := Start(b.Context(), c.Command)
				if err != nil {
					b.Skip(err)
				}
				p.Wait()
			}
		})
	}
}

type penned struct {
	name string
	Command
}

// pens are the ways of keeping a tree, without a view and with one with targets that
// exist (mounted in place) or do not (the root is built anew), and with limits.
func pens(b *testing.B) []penned {
	dir := b.TempDir()
	exists := &mount.View{Binds: []mount.Bind{{Source: dir, Target: "/opt"}, {Source: dir, Target: "/srv"}}}
	missing := &mount.View{Binds: []mount.Bind{{Source: dir, Target: "/opt/drover-bench"}, {Source: dir, Target: "/drover-bench"}, {Source: "/etc/hosts", Target: "/etc/hosts"}}}
	return []penned{
		{"namespace", Command{}},
		{"subreaper", Command{subreaper: true}},
		{"namespace, view in place", Command{View: exists}},
		{"namespace, view", Command{View: missing}},
		{"subreaper, view", Command{View: missing, subreaper: true}},
		{"namespace, limits", Command{Limits: resource.Limits{Memory: 1 << 30, CPUs: 1, Processes: 1000}}},
		{"subreaper, limits", Command{Limits: resource.Limits{Memory: 1 << 30, CPUs: 1, Processes: 1000}, subreaper: true}},
	}
}
