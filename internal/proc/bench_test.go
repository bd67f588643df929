package proc

import (
	"os"
	"os/exec"
	"testing"
)

// What the minder costs, from Start to the program's first byte, beside a bare
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
	for name, herded := range map[string]bool{"namespace": false, "herd": true} {
		b.Run(name, func(b *testing.B) {
			first(b, func(w *os.File) func() {
				p, err := Start(b.Context(), Command{Path: "/bin/echo", Args: []string{"echo", "x"}, Stdout: w, herded: herded})
				if err != nil {
					b.Fatal(err)
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
	for name, herded := range map[string]bool{"namespace": false, "herd": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				p, err := Start(b.Context(), Command{Path: "/bin/true", herded: herded})
				if err != nil {
					b.Fatal(err)
				}
				p.Wait()
			}
		})
	}
}
