package maprunner

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/job"
)

// outputs are what is stored of an item, checked by its digests.
func (s *site) outputs(r views.ItemReport) map[string]string {
	s.t.Helper()
	got := map[string]string{}
	for _, o := range r.Result.Outputs {
		body, err := s.Store.Open(s.t.Context(), protocol.OutKey(s.job.Path(), r.N, r.Result.Try, o.Name), 0, -1)
		s.check(err)
		b, err := io.ReadAll(body)
		s.check(err)
		body.Close()
		sum := sha256.Sum256(b)
		if hex.EncodeToString(sum[:]) != o.SHA256 || int64(len(b)) != o.Size {
			s.t.Errorf("item %d: %s is not what its result says", r.N, o.Name)
		}
		got[o.Name] = string(b)
	}
	return got
}

func TestOutputsAreStoredBeforeTheirResult(t *testing.T) {
	t.Parallel()
	hostile := []string{"plain", "two words", "-rf", `q"uo'te`, "ünï", ".hidden"}
	spec := command("sh", "-c", `echo "$DROVER_ITEM" >"$1"; [ "$1" = "$DROVER_OUT" ] && mkdir "$2/deep" && echo deep >"$2/deep/$DROVER_ITEM" && : >"$2/empty"`, "sh", "{out}", "{out2}")
	spec.Out = []string{"thumbs/{}.txt", "more {n}/"}
	s := newSite(t, spec, hostile...)
	s.bucket.wrote = func(key string) { // a result names nothing that is not there
		if !strings.Contains(key, "/chunks/") {
			return
		}
		for _, r := range s.results() {
			if r.Result != nil {
				s.outputs(r)
			}
		}
	}
	s.run(3)
	s.wants(job.Succeeded, job.Tally{Items: len(hostile), Succeeded: len(hostile)})
	for i, r := range s.results() {
		n := string(rune('1' + i))
		want := map[string]string{"thumbs/" + hostile[i] + ".txt": hostile[i] + "\n", "more " + n + "/deep/" + hostile[i]: "deep\n", "more " + n + "/empty": ""}
		if diff := cmp.Diff(want, s.outputs(r)); diff != "" {
			t.Errorf("item %d (-want +got):\n%s", r.N, diff)
		}
	}
}

func TestASuccessWithoutItsOutputsIsAFailure(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ out, line, why string }{
		{"a/{n}.png", "exit 0", "no output a/1.png"},
		{"a/{n}.png", `: >"$1"`, "output a/1.png is empty"},
		{"a/{n}.png", `mkdir "$1"`, "output a/1.png is not a regular file"},
		{"a/{n}.png", `mkfifo "$1"`, "output a/1.png is not a regular file"},
		{"a/{n}.png", `ln -s ` + secret + ` "$1"`, "output a/1.png cannot be read, or leads elsewhere"},
		{"a/{n}.png", `ln -s ../../../../../../../etc/passwd "$1"`, "output a/1.png cannot be read, or leads elsewhere"},
		{"a/{n}.png", `rm -r "$(dirname "$(dirname "$1")")"`, "its folder for outputs is gone"},
		{"a/{n}.png", `echo x >"$1"; exit 3`, ""},
		{"d{n}/", "exit 0", "output d1/ is empty"},
		{"d{n}/", `rmdir "$1"; echo x >"$1"`, "no output folder d1"},
		{"d{n}/", `rmdir "$1"; ln -s /etc "$1"`, "no output folder d1"},
		{"d{n}/", `echo x >"$1/a"; ln -s ` + secret + ` "$1/b"`, "output d1/b cannot be read, or leads elsewhere"},
	} {
		t.Run(row.out+" "+row.why, func(t *testing.T) {
			t.Parallel()
			spec := command("sh", "-c", row.line, "sh", "{out}")
			spec.Out = []string{row.out}
			s := newRange(t, spec, 1, 0)
			s.run(1)
			s.wants(job.Failed, job.Tally{Items: 1, Failed: 1})
			if r := s.results()[0].Result; r.Why != row.why || len(r.Outputs) > 0 || r.Try != "" {
				t.Errorf("it failed with %+v", r)
			}
		})
	}
}

func TestAnOutputThatItsItemHasLockedIsStored(t *testing.T) {
	t.Parallel()
	spec := command("sh", "-c", `echo x >"$1"; chmod 0 "$1"`, "sh", "{out}")
	spec.Out = []string{"{n}"}
	s := newRange(t, spec, 1, 0)
	s.run(1)
	s.wants(job.Succeeded, job.Tally{Items: 1, Succeeded: 1})
	if diff := cmp.Diff(map[string]string{"1": "x\n"}, s.outputs(s.results()[0])); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// feeder is a runner with commands that leave an output at once and end.
type feeder struct {
	*idler
	leave func(place string)
}

func (f *feeder) Send(commands ...proc.SpawnCommand) error {
	for _, e := range commands {
		i := slices.IndexFunc(e.Env, func(kv string) bool { return strings.HasPrefix(kv, "DROVER_OUT=") })
		f.leave(strings.TrimPrefix(e.Env[i], "DROVER_OUT="))
	}
	return f.idler.Send(commands...)
}

func TestOutputsThatWaitToBeStoredAreBounded(t *testing.T) {
	t.Parallel()
	const n, each, fit = 60, 300 << 10, 4 // the last of them crosses the limit
	spec := command("true")
	spec.Out, spec.Disk = []string{"{n}"}, 1<<20
	s := newRange(t, spec, n, n)
	left, pass := make(chan struct{}, n), make(chan struct{}, n)
	s.bucket.refuse = func(key string) error {
		if strings.Contains(key, "/out/") {
			<-pass
		}
		return nil
	}
	var waiting, most atomic.Int64
	a := s.start(1, func(c *Config, _ *Prepared) {
		c.open = func(context.Context, proc.SpawnerConfig) (processExecutor, error) {
			return &feeder{newIdler(), func(place string) {
				if err := os.WriteFile(place, make([]byte, each), 0o600); err != nil {
					t.Error(err)
				}
				most.Store(max(most.Load(), waiting.Add(1)))
				left <- struct{}{}
			}}, nil
		}
	})
	for i := range n {
		select {
		case <-left:
		case <-time.After(patience):
			t.Fatalf("only %d items ran", i)
		}
		if i+1 >= fit { // as many wait as may
			waiting.Add(-1)
			pass <- struct{}{}
		}
	}
	close(pass)
	a.leave(0)
	s.wants(job.Succeeded, job.Tally{Items: n, Succeeded: n})
	if most.Load() > fit {
		t.Errorf("outputs of %d items waited, of %d bytes each", most.Load(), each)
	}
}

func TestAnItemWhoseOutputWouldLieOutsideFailsAlone(t *testing.T) {
	t.Parallel()
	spec := command("sh", "-c", `echo x >"$1"`, "sh", "{out}")
	spec.Out = []string{"o/{}"}
	s := newSite(t, spec, "good", "../../up", "/abs", "good too")
	s.run(2)
	s.wants(job.Failed, job.Tally{Items: 4, Succeeded: 2, Failed: 2})
}
