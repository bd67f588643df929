package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// tinyC is the least program that writes something: 64 bytes, without a C library.
const tinyC = `
static long sys(long n, long a, long b, long c) {
	long r;
#if defined(__x86_64__)
	__asm__ volatile("syscall" : "=a"(r) : "a"(n), "D"(a), "S"(b), "d"(c) : "rcx", "r11", "memory");
#else
	register long x8 __asm__("x8") = n, x0 __asm__("x0") = a, x1 __asm__("x1") = b, x2 __asm__("x2") = c;
	__asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
	r = x0;
#endif
	return r;
}
void _start(void) {
#if defined(__x86_64__)
	sys(1, 1, (long)"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n", 64);
	sys(60, 0, 0, 0);
#else
	sys(64, 1, (long)"0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde\n", 64);
	sys(93, 0, 0, 0);
#endif
	for (;;) ;
}
`

// tiny builds it, where there is a compiler.
func tiny(tb testing.TB) string {
	tb.Helper()
	cc, err := exec.LookPath("cc")
	if err != nil {
		tb.Skip("no C compiler here")
	}
	dir := tb.TempDir()
	source, program := filepath.Join(dir, "tiny.c"), filepath.Join(dir, "tiny")
	if err := os.WriteFile(source, []byte(tinyC), 0o600); err != nil {
		tb.Fatal(err)
	}
	if out, err := exec.Command(cc, "-O2", "-static", "-nostdlib", "-ffreestanding", "-o", program, source).CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return program
}

// BenchmarkSpawner runs commands as an agent with two spawners does: four slots
// each, with a window of commands that is refilled as they end. Compare
//
//	seq 100000 | xargs -P8 -n1 /bin/true
func BenchmarkSpawner(b *testing.B) {
	for _, program := range []string{"tiny", "/bin/true"} {
		for _, pen := range []string{"namespace", "subreaper"} {
			b.Run(filepath.Base(program)+"/"+pen, func(b *testing.B) {
				path := program
				if path == "tiny" {
					path = tiny(b)
				}
				var spawners []*Spawner
				for range 2 {
					s, err := OpenSpawner(b.Context(), SpawnerConfig{Slots: 4, Grace: time.Second, subreaper: pen == "subreaper"})
					if err != nil {
						b.Fatal(err)
					}
					defer s.Close()
					s.Until(time.Hour)
					spawners = append(spawners, s)
				}
				b.ResetTimer()
				var all sync.WaitGroup
				for i, s := range spawners {
					n := (b.N + i) / 2
					all.Go(func() { drive(b, s, path, n) })
				}
				all.Wait()
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
			})
		}
	}
}

// drive keeps 64 commands on their way until n have ended.
func drive(b *testing.B, s *Spawner, path string, n int) {
	const window = 64
	sent, done := 0, 0
	refill := func() {
		var batch []SpawnCommand
		for ; sent < n && sent-done < window; sent++ {
			batch = append(batch, SpawnCommand{ID: uint64(sent), Path: path, Env: []string{"DROVER_ITEM=a", "DROVER_ITEM_INDEX=1"}})
		}
		if err := s.Send(batch...); err != nil {
			b.Error(err)
		}
	}
	refill()
	for done < n {
		batch, ok := <-s.Events()
		if !ok {
			b.Errorf("spawner: %v", s.Err())
			return
		}
		for i := range batch {
			if e := &batch[i]; e.Kind == SpawnedEnded {
				if e.Err != nil || e.Exit.Code != 0 {
					b.Errorf("got %+v", e)
				}
				done++
			}
		}
		if sent-done < window/2 {
			refill()
		}
	}
}
