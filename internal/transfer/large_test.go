package transfer

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

// small is a piece in these tests.
const small = 64 << 10

// noise is a body of so many bytes, in which no piece is as another.
func noise(n int) string {
	body := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(body)
	return string(body)
}

// gets are the reads that a server was asked for.
func gets(srv *s3test.Server) (ranges []string) {
	for _, line := range srv.Requests() {
		if strings.HasPrefix(line, "GET ") && strings.Contains(line, "Range: ") {
			ranges = append(ranges, line[strings.Index(line, "Range: "):])
		}
	}
	return ranges
}

// parts are the leftovers in a target that can be gone on with.
func partsIn(t *testing.T, dir string) (notes []string) {
	t.Helper()
	notes, err := filepath.Glob(filepath.Join(dir, ours+"*", "*", "note"))
	if err != nil {
		t.Fatal(err)
	}
	return notes
}

func brought(t *testing.T, dir, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil || string(got) != want {
		t.Errorf("%s holds %d bytes, %v; want the %d that are in the bucket", name, len(got), err, len(want))
	}
	left, err := filepath.Glob(filepath.Join(dir, ours+"*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestALargeObjectComesInPiecesOfOneObject(t *testing.T) {
	srv, s := server(t)
	body := noise(10*small + 7)
	srv.SetSum("x/big", body, "", sumText(store.CRC32C, body), 0)
	to := t.TempDir()
	done, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{piece: small})
	if err != nil || done.Files != 1 || done.Bytes != int64(len(body)) || done.SameBytes != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	brought(t, to, "big", body)
	ranges := gets(srv)
	for _, r := range ranges {
		if !strings.Contains(r, "If-Match: ") {
			t.Errorf("a piece was asked for of whatever is there: %s", r)
		}
	}
	if len(ranges) != 11 {
		t.Errorf("%d pieces, want 11", len(ranges))
	}
	if done, err = Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{piece: small}); err != nil || done.Same != 1 {
		t.Errorf("again: %+v, %v", done, err)
	}
}

// sumText is the checksum of a body as S3 writes it.
func sumText(kind, body string) string {
	h := store.Sum{Of: kind}.New()
	h.Write([]byte(body))
	return base64.StdEncoding.EncodeToString(h.Sum(nil))
}

func TestEveryChecksumIsComparedThatFollowsFromThePieces(t *testing.T) {
	body := noise(5*small + 99)
	const part = 100_000 // of the sender's
	composite := func(kind string) string {
		all, n := "", 0
		for chunk := range slices.Chunk([]byte(body), part) {
			h := store.Sum{Of: kind}.New()
			h.Write(chunk)
			all, n = all+string(h.Sum(nil)), n+1
		}
		return fmt.Sprintf("%s-%d", sumText(kind, all), n)
	}
	for _, kind := range []string{store.CRC32C, store.CRC32, store.CRC64NVME} {
		for name, c := range map[string]struct {
			sum   string
			first int
		}{"whole": {sumText(kind, body), 0}, "of parts": {composite(kind), part}} {
			t.Run(kind+" "+name, func(t *testing.T) {
				srv, s := server(t)
				srv.SetSum("x/big", body, kind, c.sum, c.first)
				to := t.TempDir()
				if _, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{piece: small}); err != nil {
					t.Fatal(err)
				}
				brought(t, to, "big", body)
				if n := len(gets(srv)); n == 0 {
					t.Error("it came in one stream")
				}
				// Of another content that sum is not: it comes again, whole.
				srv.Rot("x/big", body[1:]+"!")
				_, err := Get(t.Context(), Place{Store: s, Key: "x"}, t.TempDir(), Options{piece: small})
				if c.first == 0 && err == nil {
					t.Error("a damaged object was brought")
				}
				whole := false
				for _, line := range srv.Requests() {
					whole = whole || strings.HasPrefix(line, "GET /data/x/big") && !strings.Contains(line, "Range: ")
				}
				if !whole {
					t.Error("what did not match was not asked for again")
				}
			})
		}
	}
}

// A part is of one object: what is replaced meanwhile begins anew.
func TestAnObjectThatIsReplacedMeanwhileComesAsTheNewOne(t *testing.T) {
	srv, s := server(t)
	was, now := noise(8*small), noise(8*small-1)
	srv.Set("x/big", was)
	var asked atomic.Int64
	srv.Before = func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Range") != "" && asked.Add(1) == 5 {
			srv.Set("x/big", now)
		}
		return false
	}
	to := t.TempDir()
	done, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{piece: small})
	if err != nil || done.Bytes != int64(len(now)) {
		t.Errorf("%+v, %v", done, err)
	}
	brought(t, to, "big", now)
}

// interrupted ends a Get when so many pieces have been asked for, and gives what is
// left of it.
func interrupted(t *testing.T, bucket store.Bucket, to string, after int) {
	t.Helper()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	enough := errors.New("enough")
	tired := store.New(&tiringPieces{Pieces: bucket.(store.Pieces), tiring: tiring{Bucket: bucket, left: after, end: func() { cancel(enough) }}}, store.Options{})
	if _, err := Get(ctx, Place{Store: tired, Key: "x"}, to, Options{piece: small}); !errors.Is(err, enough) {
		t.Fatal(err)
	}
}

// tiringPieces ends the run after so many pieces.
type tiringPieces struct {
	store.Pieces
	tiring
}

func (b *tiringPieces) GetOf(ctx context.Context, o store.Object, off, n int64) (io.ReadCloser, error) {
	b.mu.Lock()
	b.left--
	over := b.left < 0
	b.mu.Unlock()
	if over {
		b.end()
		return nil, context.Cause(ctx)
	}
	return b.Pieces.GetOf(ctx, o, off, n)
}

func TestAGetThatWasEndedGoesOnInsideTheFile(t *testing.T) {
	bucket := mem.New()
	body := noise(40 * small)
	put := func(text string) {
		t.Helper()
		if err := bucket.Put(t.Context(), "x/big", strings.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	put(body)
	at := Place{Store: store.New(bucket, store.Options{}), Key: "x"}
	to := t.TempDir()
	for range 3 { // it goes on more than once
		interrupted(t, bucket, to, 10)
		if n := len(partsIn(t, to)); n != 1 {
			t.Fatalf("%d parts are left, want 1", n)
		}
	}
	done, err := Get(t.Context(), at, to, Options{piece: small})
	if err != nil || done.Bytes+done.SameBytes != int64(len(body)) || done.SameBytes < 20*small {
		t.Errorf("%+v, %v; want most of it there already", done, err)
	}
	brought(t, to, "big", body)

	t.Run("not with another object", func(t *testing.T) {
		to := t.TempDir()
		interrupted(t, bucket, to, 20)
		other := noise(40*small - 1)
		put(other)
		defer put(body)
		done, err := Get(t.Context(), at, to, Options{piece: small})
		if err != nil || done.SameBytes != 0 {
			t.Errorf("%+v, %v; want nothing of the old one", done, err)
		}
		brought(t, to, "big", other)
	})
	for name, spoil := range map[string]func(t *testing.T, note string){
		"not with bytes that a power cut took": func(t *testing.T, note string) {
			data := filepath.Join(filepath.Dir(note), "data")
			if err := errors.Join(os.Truncate(data, 0), os.Truncate(data, int64(len(body)))); err != nil {
				t.Fatal(err)
			}
		},
		"not with data that is gone": func(t *testing.T, note string) {
			if err := os.Remove(filepath.Join(filepath.Dir(note), "data")); err != nil {
				t.Fatal(err)
			}
		},
		"not with a note of nonsense": func(t *testing.T, note string) {
			text, err := os.ReadFile(note)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := bytes.Cut(text, []byte("\n"))
			if err := os.WriteFile(note, fmt.Appendf(nil, "%s\n-1 00\n0 zz\n99999999999 00000000\n", first), 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"not with half a line": func(t *testing.T, note string) {
			text, err := os.ReadFile(note)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := bytes.Cut(text, []byte("\n"))
			if err := os.WriteFile(note, fmt.Appendf(nil, "%s\n3 0000", first), 0o600); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			interrupted(t, bucket, to, 20)
			spoil(t, partsIn(t, to)[0])
			done, err := Get(t.Context(), at, to, Options{piece: small})
			if err != nil || done.SameBytes != 0 {
				t.Errorf("%+v, %v; want all of it anew", done, err)
			}
			brought(t, to, "big", body)
		})
	}
}

// Parts of objects that are not wanted any more go when a run ends well, and not
// before: one that is ended may be gone on with.
func TestPartsOfOthersAreSweptAtAGoodEnd(t *testing.T) {
	bucket := mem.New()
	for _, key := range []string{"x/big", "y/small"} {
		if err := bucket.Put(t.Context(), key, strings.NewReader(noise(40*small))); err != nil {
			t.Fatal(err)
		}
	}
	to := t.TempDir()
	interrupted(t, bucket, to, 5)
	if err := bucket.Delete(t.Context(), "x/big"); err != nil {
		t.Fatal(err)
	}
	at := Place{Store: store.New(bucket, store.Options{}), Key: "y"}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Get(ctx, at, to, Options{}); err == nil || len(partsIn(t, to)) != 1 {
		t.Errorf("a run that was ended has swept: %v", err)
	}
	if _, err := Get(t.Context(), at, to, Options{}); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(to, ours+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Two that find the same part: one has it, the other begins anew, and both end well.
func TestTwoAtOnceGoOnWithOnePart(t *testing.T) {
	bucket := mem.New()
	body := noise(40 * small)
	if err := bucket.Put(t.Context(), "x/big", strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	at := Place{Store: store.New(bucket, store.Options{}), Key: "x"}
	for range 20 {
		to := t.TempDir()
		interrupted(t, bucket, to, 20)
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if _, err := Get(t.Context(), at, to, Options{piece: small}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		brought(t, to, "big", body)
	}
}

func TestLargeObjectsOverABucketThatLosesAnswers(t *testing.T) {
	bucket := mem.New()
	body := noise(100 * small)
	if err := bucket.Put(t.Context(), "x/big", strings.NewReader(body)); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(3, 4))
	var mu sync.Mutex
	draw := func(n int) int { mu.Lock(); defer mu.Unlock(); return r.IntN(n) }
	b := flaky.New(bucket, flaky.Plan{Rand: draw, LoseReply: 0.1, LoseRequest: 0.1, Busy: 0.1})
	s := store.New(b, store.Options{Clock: &storetest.Clock{}})
	to := t.TempDir()
	if done, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{piece: small}); err != nil || done.Bytes != int64(len(body)) {
		t.Fatalf("%+v, %v", done, err)
	}
	brought(t, to, "big", body)
	if b.Counts()["LoseReply"] == 0 {
		t.Error("nothing was lost")
	}
}

// A leftover that looks like a part and is none is swept, and nothing is followed out
// of the target.
func TestWhatOnlyLooksLikeAPartIsSwept(t *testing.T) {
	srv, s := server(t)
	srv.Set("x/f", "text")
	base := t.TempDir()
	to := filepath.Join(base, "to")
	write(t, base, map[string]string{"outside/note": `{"key":"x/f","size":4,"piece":1}` + "\n", "outside/data": "kept",
		"to/" + ours + "1/lock": "", "to/" + ours + "1/7/note": "{", "to/" + ours + "1/8/note": `{"size":1}` + "\n", "to/" + ours + "1/9/data": "x",
		"to/" + ours + "1/10/note": `{"size":9000000000000000000,"piece":1}` + "\n"})
	if err := os.Symlink(filepath.Join(base, "outside"), filepath.Join(to, ours+"1", "11")); err != nil {
		t.Fatal(err)
	}
	if _, err := Get(t.Context(), Place{Store: s, Key: "x"}, to, Options{}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(to, ours+"1")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the dead run's folder: %v", err)
	}
	if got := read(t, filepath.Join(base, "outside")); got["data"] != "kept" || len(got) != 2 {
		t.Errorf("outside: %v", got)
	}
}

func FuzzNote(f *testing.F) {
	f.Add([]byte("{}\n0 00000000\n"))
	f.Add([]byte("{}\n1 0000000g\n"))
	f.Add([]byte("\n\n3"))
	id := identity{Size: 100, Piece: 10}
	f.Fuzz(func(t *testing.T, text []byte) {
		said, whole := parseNote(text, id)
		if len(said) != 10 || whole > len(text) || whole > 0 && text[whole-1] != '\n' {
			t.Fatalf("%d pieces, %d of %d bytes", len(said), whole, len(text))
		}
		again, same := parseNote(text[:whole], id)
		if same != whole || fmt.Sprint(again) != fmt.Sprint(said) {
			t.Fatal("what can be read of it reads otherwise")
		}
	})
}
