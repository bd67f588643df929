package maprunner

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// What runs of a chunk ends once another agent has claimed that (M1): its results would
// not count, and the other runs the same items.
func TestItemsOfAChunkThatAnotherHasClaimedAreEnded(t *testing.T) {
	t.Parallel()
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	s := newRange(t, command("sh", "-c", `exec >"$0"; echo begun; exec sleep 1000`, pipe), 1, 1)
	s.start(1, nil)
	f, err := os.OpenFile(pipe, os.O_RDWR, 0) // so that neither end waits to be opened
	s.check(err)
	defer f.Close()
	s.check(f.SetReadDeadline(time.Now().Add(patience)))
	begun := make([]byte, len("begun\n"))
	_, err = io.ReadFull(f, begun)
	s.check(err)
	// As after a silence of this agent's: the claim is the entry after its own.
	claim, err := json.Marshal(protocol.ChunkEntry{Header: protocol.Header{V: protocol.Format, By: "9-0-other", At: time.Now()},
		Claimed: &protocol.Claimed{Agent: "9-0-other", N: 2, Why: protocol.Silence}})
	s.check(err)
	first := ""
	for o, err := range s.Store.List(t.Context(), "demo/sums/"+s.job.ID+"/chunks/") {
		s.check(err)
		first = o.Key
	}
	s.check(s.Store.Put(t.Context(), strings.TrimSuffix(first, "0")+"1", claim))
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	s.check(err)
	defer reader.Close()
	s.check(reader.SetReadDeadline(time.Now().Add(patience)))
	s.check(f.Close()) // the item alone writes there now
	if _, err := reader.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("the item runs on: %v", err)
	}
}

// untils is a runner that keeps for how long its commands may begin.
type untils struct {
	*idler
	longest *atomic.Int64
}

func (u untils) Until(d time.Duration) { u.longest.Store(max(u.longest.Load(), int64(d))) }

// A runner is told no later time than the start deadline of the chunks: it is a process of
// its own, and begins what waits there also while this one is stopped (M5).
func TestNothingBeginsAfterTheStartDeadlineOfItsChunk(t *testing.T) {
	t.Parallel()
	const near = time.Second // the start deadline after a read of a folder's log
	var longest atomic.Int64
	s := newRange(t, command("true"), 3000, 100)
	s.start(2, func(c *Config, _ *Prepared) {
		c.open = func(context.Context, proc.SpawnerConfig) (processExecutor, error) {
			return untils{newIdler(), &longest}, nil
		}
	}).leave(0)
	if d := time.Duration(longest.Load()); d <= 0 || d > near {
		t.Errorf("its runner may begin items for %s", d)
	}
}

// An output that grows or shrinks while it is stored is none: what was stored is neither
// what the item left nor what is there now.
func TestAnOutputThatChangesWhileItIsStoredFailsItsItem(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]string{"longer": "as it was, and more", "shorter": "as"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := command("true")
			spec.Out = []string{"o/{n}"}
			s := newRange(t, spec, 1, 0)
			var mu sync.Mutex
			left := ""
			s.bucket.refuse = func(key string) error {
				mu.Lock()
				defer mu.Unlock()
				if strings.Contains(key, "/out/") {
					return os.WriteFile(left, []byte(later), 0o600)
				}
				return nil
			}
			s.start(1, func(c *Config, _ *Prepared) {
				c.open = func(context.Context, proc.SpawnerConfig) (processExecutor, error) {
					return &feeder{newIdler(), func(place string) {
						mu.Lock()
						defer mu.Unlock()
						if left = place; os.WriteFile(place, []byte("as it was"), 0o600) != nil {
							t.Error("the output is not there")
						}
					}}, nil
				}
			}).leave(0)
			s.wants(job.Failed, job.Tally{Items: 1, Failed: 1})
			if r := s.results()[0].Result; r.Why != "output o/1 changed while it was stored" || len(r.Outputs) > 0 {
				t.Errorf("%+v", r)
			}
		})
	}
}

// forgetful is a store that loses its first answer about an output: it has the file, and
// says so when half of it has come again.
type forgetful struct {
	*mem.Bucket
	lost atomic.Bool
}

func (f *forgetful) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if !strings.Contains(key, "/out/") {
		return f.Bucket.Create(ctx, key, body)
	}
	if !f.lost.Swap(true) {
		if err := f.Bucket.Create(ctx, key, body); err != nil {
			return err
		}
		return fmt.Errorf("create %s: %w", key, store.ErrUnclear)
	}
	if _, err := body.Seek(0, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.CopyN(io.Discard, body, 3); err != nil {
		return err
	}
	return fmt.Errorf("create %s: %w", key, store.ErrExists)
}

// A digest is of what the store holds, not of what was sent last (M6).
func TestADigestIsOfWhatTheStoreHolds(t *testing.T) {
	t.Parallel()
	spec := command("sh", "-c", `echo "a line of text" >"$1"`, "sh", "{out}")
	spec.Out = []string{"{n}"}
	b := &forgetful{Bucket: mem.New()}
	s := &site{t: t, other: b}
	s.submit(spec, "1-1", 0)
	s.run(1)
	s.wants(job.Succeeded, job.Tally{Items: 1, Succeeded: 1})
	if got := s.outputs(s.results()[0])["1"]; got != "a line of text\n" || !b.lost.Load() {
		t.Errorf("stored is %q, an answer was lost: %v", got, b.lost.Load())
	}
}
