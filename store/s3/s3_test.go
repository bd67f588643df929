package s3_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

// TestMain hides the keys, profiles and endpoints of the user that runs the tests.
func TestMain(m *testing.M) {
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			os.Unsetenv(name)
		}
	}
	for name, value := range map[string]string{
		"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull,
	} {
		os.Setenv(name, value)
	}
	os.Exit(m.Run())
}

// serve starts a server, behind h if there is one.
func serve(t testing.TB, s *s3test.Server, h *s3test.Hostile) (endpoint string) {
	t.Helper()
	if s.Bucket == "" {
		s.Bucket = "facts"
	}
	handler := http.Handler(s)
	if h != nil {
		h.Next, handler = s, h
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

func open(t testing.TB, url string, o s3.Options) *s3.Bucket {
	t.Helper()
	b, err := s3.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestBucketKeepsEveryPromise(t *testing.T) {
	for _, url := range []string{"s3://facts", "s3://facts/a/prefix"} {
		t.Run(url, func(t *testing.T) {
			handles := func(t *testing.T) (first, second store.Bucket) {
				o := s3.Options{Endpoint: serve(t, &s3test.Server{Pages: 7}, nil)}
				return open(t, url, o), open(t, url, o)
			}
			storetest.Run(t, handles)
			storetest.RunPieces(t, handles)
			if url != "s3://facts" { // once: it takes long
				storetest.RunResumes(t, handles, 1<<20, 28<<20)
			}
		})
	}
}

// nets are what may stand between us and a server: each evil alone and often,
// and all of them.
var nets = map[string]s3test.Evils{
	"refusing":   {Refuse: 0.4},
	"slow down":  {SlowDown: 0.4},
	"failing":    {Fail: 0.4},
	"losing":     {Lose: 0.3},
	"deaf":       {LoseLate: 0.4},
	"truncating": {Truncate: 0.3},
	"contending": {Conflict: 0.5},
	"flipping":   {Flip: 0.3},
	"stuttering": {Stutter: 0.5},
	"everything": {Refuse: 0.05, SlowDown: 0.05, Fail: 0.1, Lose: 0.05, LoseLate: 0.1, Truncate: 0.1, Conflict: 0.05, Flip: 0.05, Stutter: 0.1},
}

// behind makes the net of this name, and says at the end that it was one.
func behind(t *testing.T, name string, seed uint64) *s3test.Hostile {
	t.Helper()
	h := &s3test.Hostile{Evils: nets[name], Rand: rand.New(rand.NewPCG(seed, 1)).IntN}
	t.Cleanup(func() {
		if len(h.Met()) == 0 && !t.Failed() {
			t.Logf("seed %d of %s befell nothing", seed, name)
		}
	})
	return h
}

func TestStoreKeepsItsPromisesBehindAHostileNet(t *testing.T) {
	for name := range nets {
		t.Run(name, func(t *testing.T) {
			var seed atomic.Uint64
			storetest.RunStore(t, func(t *testing.T) (first, second store.Bucket) {
				o := s3.Options{Endpoint: serve(t, &s3test.Server{}, behind(t, name, seed.Add(1))), Clock: &storetest.Clock{}}
				return open(t, "s3://facts", o), open(t, "s3://facts", o)
			})
		})
	}
}

func TestLostRepliesNeverMakeTwoWinners(t *testing.T) {
	const keys, writers = 40, 8
	h := behind(t, "everything", 7)
	h.LoseLate = 0.3
	o := s3.Options{Endpoint: serve(t, &s3test.Server{}, h), Clock: &storetest.Clock{}}
	winners := race(t, keys, writers, func() *store.Store {
		return store.New(open(t, "s3://facts/race", o), store.Options{Clock: &storetest.Clock{}})
	})
	for key, n := range winners {
		if n != 1 {
			t.Errorf("key %d has %d winners", key, n)
		}
	}
	for _, name := range []string{"LoseLate", "Fail", "Conflict", "Truncate", "Flip"} {
		if h.Met()[name] == 0 {
			t.Errorf("%s never happened: %v", name, h.Met())
		}
	}
}

// race has writers create each of the keys once, and counts for each the writers that were
// told that they won.
func race(t *testing.T, keys, writers int, handle func() *store.Store) []int32 {
	t.Helper()
	won := make([]int32, keys)
	var all sync.WaitGroup
	for w := range writers {
		s := handle()
		all.Go(func() {
			for key := range keys {
				_, mine, err := s.CreateOnce(t.Context(), fmt.Sprintf("log/%08d", key), fmt.Appendf(nil, "writer %d of %d", w, key))
				if err != nil {
					t.Errorf("writer %d of %d: %v", w, key, err)
				} else if mine {
					atomic.AddInt32(&won[key], 1)
				}
			}
		})
	}
	all.Wait()
	return won
}

func TestWithoutCredentialsItIsAskedAsAPublicOneAndThatIsSaid(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("HOME", t.TempDir())
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	server := &s3test.Server{Bucket: "facts", Public: true}
	server.Set("a b/.c", "public")
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	said := 0
	for _, c := range []struct {
		say  func()
		want bool
	}{{func() { said++ }, true}, {nil, false}} {
		b, err := s3.Open(t.Context(), "s3://facts", s3.Options{Endpoint: h.URL, Foreign: true, Unsigned: c.say})
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			objects, _, err := b.List(t.Context(), "a b/", "", 10)
			if found := err == nil && len(objects) == 1 && objects[0].Key == "a b/.c" && objects[0].Tag != ""; found != c.want {
				t.Errorf("listed %v, %v", objects, err)
			}
		}
	}
	if said != 1 {
		t.Errorf("it was said %d times, want once", said)
	}
}
