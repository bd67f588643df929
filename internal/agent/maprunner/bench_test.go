package maprunner

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store/dir"
)

// BenchmarkItems runs a map of b.N items of a program that prints 64 bytes, through
// a store in a folder: all that an agent does for each.
func BenchmarkItems(b *testing.B) {
	path := filepath.Join(b.TempDir(), "tiny")
	source := path + ".c"
	text := "#include <unistd.h>\nint main(void) { char s[64]; for (int i = 0; i < 64; i++) s[i] = 'x'; return write(1, s, 64) != 64; }\n"
	if err := os.WriteFile(source, []byte(text), 0o600); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command("cc", "-O2", "-static", "-o", path, source).CombinedOutput(); err != nil {
		b.Skipf("no static program can be built here: %s", out)
	}
	bucket, err := dir.Open(b.TempDir(), dir.OS)
	if err != nil {
		b.Fatal(err)
	}
	s := &site{t: b, other: bucket}
	s.submit(job.Spec{Program: "echo", Args: []string{"{}"}}, fmt.Sprintf("1-%d", b.N), 0)
	b.ResetTimer()
	s.start(8, func(_ *Config, k *Prepared) { k.Path = path }).leave(0)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	s.wants(job.Succeeded, job.Tally{Items: b.N, Succeeded: b.N})
}

// BenchmarkStream runs a map of b.N items of a Python program that stays.
func BenchmarkStream(b *testing.B) {
	bucket, err := dir.Open(b.TempDir(), dir.OS)
	if err != nil {
		b.Fatal(err)
	}
	s := &site{t: b, other: bucket}
	s.submit(python("for item in drover.items(): item.done(int(item.value)**2)"), fmt.Sprintf("1-%d", b.N), 0)
	b.ResetTimer()
	s.start(2, module(b)).leave(0)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	s.wants(job.Succeeded, job.Tally{Items: b.N, Succeeded: b.N})
}

// BenchmarkCrew is what the map runner itself costs for each item: its runner only says
// that all has begun, printed 64 bytes and ended.
func BenchmarkCrew(b *testing.B) {
	s := newRange(b, job.Spec{Program: "echo", Args: []string{"{}"}}, b.N, 0)
	b.ReportAllocs()
	b.ResetTimer()
	s.start(8, func(c *Config, _ *Prepared) {
		c.open = func(context.Context, proc.SpawnerConfig) (processExecutor, error) { return newIdler(), nil }
	}).leave(0)
	s.wants(job.Succeeded, job.Tally{Items: b.N, Succeeded: b.N})
}

// idler is a runner that runs nothing.
type idler struct {
	sent   chan []proc.SpawnCommand
	events chan []proc.Spawned
}

func newIdler() *idler {
	i := &idler{make(chan []proc.SpawnCommand, 1024), make(chan []proc.Spawned, 4)}
	data := bytes.Repeat([]byte("x"), 64)
	go func() { // ends with Close
		defer close(i.events)
		for commands := range i.sent {
			for part := range slices.Chunk(commands, 16) {
				var batch []proc.Spawned
				for _, e := range part {
					now := time.Now()
					batch = append(batch, proc.Spawned{ID: e.ID, Kind: proc.SpawnedBegan},
						proc.Spawned{ID: e.ID, Kind: proc.SpawnedOutput, Stream: 1, Data: data},
						proc.Spawned{ID: e.ID, Kind: proc.SpawnedEnded, Began: now, Ended: now, Output: [2]int64{64, 0}})
				}
				i.events <- batch
			}
		}
	}()
	return i
}

func (i *idler) Send(commands ...proc.SpawnCommand) error {
	i.sent <- slices.Clone(commands)
	return nil
}
func (i *idler) Until(time.Duration)            {}
func (i *idler) Drop()                          {}
func (i *idler) Kill(syscall.Signal, ...uint64) {}
func (i *idler) Events() <-chan []proc.Spawned  { return i.events }
func (i *idler) Close()                         { close(i.sent) }

// BenchmarkFetch runs a map of b.N items that each fetch a small file from a server on
// this machine; its runner only says that all has ended.
func BenchmarkFetch(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") }))
	defer server.Close()
	var lines []string
	for i := range b.N {
		lines = append(lines, fmt.Sprintf("%s/%d.txt", server.URL, i))
	}
	s := newSite(b, job.Spec{Program: "echo", Args: []string{"{}"}, Items: job.Items{Fetch: true}}, lines...)
	b.ResetTimer()
	s.start(8, func(c *Config, _ *Prepared) {
		c.open = func(context.Context, proc.SpawnerConfig) (processExecutor, error) { return newIdler(), nil }
	}).leave(0)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "items/s")
	s.wants(job.Succeeded, job.Tally{Items: b.N, Succeeded: b.N})
}
