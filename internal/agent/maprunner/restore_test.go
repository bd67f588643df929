package maprunner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// stocked submits a map of these lines, of each of which files says what is stored, by
// field.
func stocked(t *testing.T, spec job.Spec, files []map[int]string, lines ...string) *site {
	t.Helper()
	ctx := t.Context()
	from := filepath.Join(t.TempDir(), "items"+map[bool]string{false: ".txt", true: ".jsonl"}[lines[0][0] == '{'])
	if strings.HasPrefix(lines[0], "name,") {
		from = filepath.Join(t.TempDir(), "items.csv")
	}
	s := &site{t: t, bucket: &bucket{Bucket: mem.New()}}
	s.check(os.WriteFile(from, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	s.ready = func(j *job.Job, dir string) {
		l, _, err := manifest.StoredFiles(dir, func(yield func([]manifest.File, error) bool) {
			for _, by := range files {
				var all []manifest.File
				for field := range 9 {
					if text, ok := by[field-1]; ok {
						d, n, err := s.Store.PutBlob(ctx, strings.NewReader(text))
						s.check(err)
						all = append(all, manifest.File{Field: field - 1, Blob: d, Size: n, Exec: strings.HasPrefix(text, "#!")})
					}
				}
				if !yield(all, nil) {
					return
				}
			}
		})
		s.check(err)
		m, err := l.Put(ctx, s.Store, protocol.ItemsPrefix(j.Path()))
		s.check(err)
		j.Manifest.Files = &m
	}
	s.submit(spec, from, 0)
	return s
}

// packed stores a pack of contents, and gives a file of each, of a whole line; gone says
// that the pack is taken away.
func (s *site) packed(gone bool, contents ...string) (all [][]manifest.File) {
	s.t.Helper()
	p := &manifest.Pack{}
	for _, text := range contents {
		sum := sha256.Sum256([]byte(text))
		d := store.Digest(hex.EncodeToString(sum[:]))
		all = append(all, []manifest.File{{Field: manifest.Whole, Blob: d, Size: int64(len(text)), Off: p.Add(d, []byte(text)), Exec: strings.HasPrefix(text, "#!")}})
	}
	for _, f := range all {
		f[0].Pack = p.Digest()
	}
	_, _, err := s.Store.PutBlob(s.t.Context(), bytes.NewReader(p.Bytes()))
	s.check(err)
	if gone {
		s.check(s.Store.Delete(s.t.Context(), "blobs/"+string(p.Digest())))
	}
	return all
}

// Forty files of one pack are read by one request.
func TestFilesOfAPackStandInForTheirNames(t *testing.T) {
	t.Parallel()
	var lines, contents []string
	for i := range 40 {
		lines, contents = append(lines, fmt.Sprintf("/no/such/%d.txt", i)), append(contents, fmt.Sprintf("text %d\n", i))
	}
	contents[7] = "#!/bin/sh\n"
	contents[8] = contents[9]
	from := filepath.Join(t.TempDir(), "items.txt")
	s := &site{t: t, bucket: &bucket{Bucket: mem.New()}}
	s.check(os.WriteFile(from, []byte(strings.Join(append(lines, "/no/such/gone"), "\n")+"\n"), 0o600))
	var reads atomic.Int64
	s.bucket.asked = func(key string) {
		if strings.HasPrefix(key, "blobs/") {
			reads.Add(1)
		}
	}
	s.ready = func(j *job.Job, dir string) {
		all := append(s.packed(false, contents...), s.packed(true, "other", "gone")[1])
		l, _, err := manifest.StoredFiles(dir, func(yield func([]manifest.File, error) bool) {
			for _, files := range all {
				if !yield(files, nil) {
					return
				}
			}
		})
		s.check(err)
		m, err := l.Put(t.Context(), s.Store, protocol.ItemsPrefix(j.Path()))
		s.check(err)
		j.Manifest.Files = &m
		reads.Store(0)
	}
	s.submit(shell(`basename "$1"; [ -x "$1" ] && echo runs; cat "$1"`), from, 0)
	s.run(3)
	s.wants(job.Failed, job.Tally{Items: 41, Succeeded: 40, Failed: 1})
	all := s.results()
	for i, text := range contents {
		want := fmt.Sprintf("%d.txt\n%s", i, text)
		if i == 7 {
			want = "7.txt\nruns\n" + text
		}
		if got := all[i].Result.Head; got != want {
			t.Errorf("item %d printed %q, want %q", i+1, got, want)
		}
	}
	if why := all[40].Result.Why; !strings.Contains(why, "fetch gone: its stored content is gone") {
		t.Errorf("of a pack that is gone: %q", why)
	}
	if n := reads.Load(); n > 3 { // the pack, and the one that is gone
		t.Errorf("the store was asked %d times", n)
	}
}

// wantsHeads compares what items printed, in their order.
func (s *site) wantsHeads(want ...string) {
	s.t.Helper()
	var got []string
	for _, r := range s.results() {
		got = append(got, r.Result.Head)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("printed (-want +got):\n%s", diff)
	}
}

func TestStoredFilesStandInForTheirNames(t *testing.T) {
	t.Parallel()
	spec := shell(`echo "$(basename "$1"): $(cat "$1" 2>&1)"; [ "$1" = "$DROVER_ITEM" ] || echo other; [ -x "$1" ] && echo runs; cp "$1" "$2" 2>/dev/null || echo none >"$2"`)
	spec.Args = append(spec.Args, "{out}")
	spec.Out = []string{"got/{.stem}.out"}
	s := stocked(t, spec, []map[int]string{{-1: "one"}, nil, {-1: "one"}, {-1: "#!/bin/sh"}},
		"/no/such/folder of mine/a b.txt", "plain", "/no/such/other/a2.txt", "/no/such/run.sh")
	s.run(2)
	s.wants(job.Succeeded, job.Tally{Items: 4, Succeeded: 4})
	all := s.results()
	for i, want := range []string{"a b.txt: one\n", "plain: cat: ", "a2.txt: one\n", "run.sh: #!/bin/sh\nruns\n"} {
		if got := all[i].Result.Head; !strings.HasPrefix(got, want) || strings.Contains(got, "other") || i == 3 && got != want {
			t.Errorf("item %d printed %q, want %q", i+1, got, want)
		}
	}
	for i, want := range []map[string]string{{"got/a b.out": "one"}, {"got/plain.out": "none\n"}, {"got/a2.out": "one"}, {"got/run.out": "#!/bin/sh"}} {
		if diff := cmp.Diff(want, s.outputs(all[i])); diff != "" {
			t.Errorf("item %d (-want +got):\n%s", i+1, diff)
		}
	}
}

func TestStoredFilesStandInRows(t *testing.T) {
	t.Parallel()
	s := stocked(t, command("sh", "-c", `cat "$1"; echo " $2 $DROVER_ITEM_N"; case "$DROVER_ITEM" in *"$1"*) echo told;; esac`, "sh", "{image}", "{name}"),
		[]map[int]string{{1: "A"}, {1: "B"}}, "name,image", "\"x, y\",/no/a.png", "z,/no/a.png")
	s.run(1)
	s.wants(job.Succeeded, job.Tally{Items: 2, Succeeded: 2})
	s.wantsHeads("A x, y 1\ntold\n", "B z 2\ntold\n")

	s = stocked(t, command("sh", "-c", `cat "$1"; echo " $DROVER_ITEM" | sed "s|$1|FILE|"`, "sh", "{image}"),
		[]map[int]string{{0: "A"}}, `{"image": "/no/a.png", "n": 12345678901234567890, "deep": {"b": [1, "<"]}}`)
	s.run(1)
	s.wantsHeads(`A {"deep":{"b":[1,"<"]},"image":"FILE","n":12345678901234567890}` + "\n")
}

func TestStoredFilesAreAmongThoseThatAreFetched(t *testing.T) {
	t.Parallel()
	d := newDepot(t, true)
	spec := fetching(`cat "$1"; [ "$1" = "$DROVER_ITEM_FILE" ] && echo " $DROVER_ITEM"`)
	s := stocked(t, spec, []map[int]string{{-1: "one"}, nil}, "/no/such/a", d.URL+"/x/b")
	s.run(1)
	s.wants(job.Succeeded, job.Tally{Items: 2, Succeeded: 2})
	s.wantsHeads("one /no/such/a\n", "b\n "+d.URL+"/x/b\n")
}

func TestAStoredFileThatIsGoneFailsItsItemAlone(t *testing.T) {
	t.Parallel()
	s := stocked(t, shell(`cat "$1"`), []map[int]string{{-1: "one"}, {-1: "two"}}, "/no/a", "/no/b")
	d, _, err := s.Store.PutBlob(t.Context(), strings.NewReader("two"))
	s.check(err)
	s.check(s.Store.Delete(t.Context(), "blobs/"+string(d)))
	s.run(1)
	s.wants(job.Failed, job.Tally{Items: 2, Succeeded: 1, Failed: 1})
	if r := s.results()[1].Result; r == nil || !r.Failed || !strings.Contains(r.Why, "fetch b: its stored content is gone") {
		t.Errorf("the item whose file is gone: %+v", r)
	}
}
