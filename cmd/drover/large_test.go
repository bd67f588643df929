package main_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drover-run/drover/store/s3/s3test"
)

// Scripts of large files on their way, behind a gate that stops in the middle of them.
func TestScriptsOfLargeFiles(t *testing.T) { ofLargeFiles(t, &s3test.Server{Bucket: "facts"}) }

func TestRealS3ScriptsOfLargeFiles(t *testing.T) {
	if os.Getenv("DROVER_TEST_REAL") != "1" {
		t.Skip("DROVER_TEST_REAL=1 runs it")
	}
	ofLargeFiles(t, versitygw(t))
}

func ofLargeFiles(t *testing.T, facts http.Handler) {
	g := &gate{next: facts, keys: map[string]*passage{}}
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	cmds := maps.Clone(commands)
	cmds["let"] = g.let         // let KEY N: N pieces or parts of it pass, and no more
	cmds["stopped"] = g.stopped // stopped KEY: until those have passed, and another one waits
	cmds["free"] = g.free       // free KEY: once no request waits any more, all pass
	cmds["moved"] = g.moved     // moved KEY FILE: about as many bytes of it have passed since it was asked last as FILE has
	cmds["noted"] = noted       // noted FOLDER N: until N pieces are noted in it
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "large"), Cmds: cmds, RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			for name, value := range map[string]string{
				"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true", "AWS_ENDPOINT_URL": server.URL,
			} {
				env.Setenv(name, value)
			}
			return setUp(env)
		},
	})
}

// gate is the way to a server, of which pieces and parts of a key are let through one
// by one.
type gate struct {
	next http.Handler

	mu   sync.Mutex
	keys map[string]*passage
}

type passage struct {
	left    int // that may begin; below 0: all
	passing int
	waiting int
	bytes   int64 // of those that have passed
}

func (g *gate) at(key string) *passage {
	p := g.keys[key]
	if p == nil {
		p = &passage{left: -1}
		g.keys[key] = p
	}
	return p
}

func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Range") == "" && !r.URL.Query().Has("partNumber") || r.Method == http.MethodHead {
		g.next.ServeHTTP(w, r)
		return
	}
	// A request counts from its head on: a body that still arrives when its client is killed does not pass later.
	g.mu.Lock()
	p := g.at(filepath.Base(r.URL.Path))
	count := &p.passing
	if p.left == 0 {
		count = &p.waiting
	} else if p.left > 0 {
		p.left--
	}
	*count++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		*count--
		g.mu.Unlock()
	}()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if count == &p.waiting {
		<-r.Context().Done() // its client has gone
		panic(http.ErrAbortHandler)
	}
	out := &weighed{ResponseWriter: w}
	g.next.ServeHTTP(out, r)
	g.mu.Lock()
	defer g.mu.Unlock()
	if out.status < 300 {
		p.bytes += max(out.n, int64(len(body)))
	}
}

// weighed counts an answer.
type weighed struct {
	http.ResponseWriter
	status int
	n      int64
}

func (w *weighed) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func (w *weighed) Write(p []byte) (int, error) {
	n, err := w.ResponseWriter.Write(p)
	w.n += int64(n)
	return n, err
}

func (g *gate) let(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "let KEY N")
	n, err := strconv.Atoi(args[1])
	ts.Check(err)
	g.mu.Lock()
	defer g.mu.Unlock()
	g.at(args[0]).left = n
}

func (g *gate) stopped(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, "stopped KEY")
	until(ts, "nobody waits for "+args[0], func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		p := g.at(args[0])
		return p.left == 0 && p.passing == 0 && p.waiting > 0
	})
}

func (g *gate) free(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 1, "free KEY")
	until(ts, "somebody waits for "+args[0]+" still", func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		p := g.at(args[0])
		if p.waiting == 0 && p.passing == 0 {
			p.left = -1
			return true
		}
		return false
	})
}

func (g *gate) moved(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "moved KEY FILE")
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	g.mu.Lock()
	defer g.mu.Unlock()
	p := g.at(args[0])
	// A piece is sent again if its answer was lost, on a machine that has much to do.
	const again = 2 * 16 << 20
	if p.bytes < info.Size() || p.bytes > info.Size()+again {
		ts.Fatalf("%d bytes of %s have passed, and %s has %d", p.bytes, args[0], args[1], info.Size())
	}
	p.bytes = 0
}

func noted(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, args, 2, "noted FOLDER N")
	until(ts, "too few pieces are noted in "+args[0], func() bool {
		notes, err := filepath.Glob(filepath.Join(ts.MkAbs(args[0]), ".drover-get-*", "*", "note"))
		ts.Check(err)
		if len(notes) != 1 {
			return false
		}
		text, err := os.ReadFile(notes[0])
		ts.Check(err)
		return strconv.Itoa(strings.Count(string(text), "\n")-1) == args[1]
	})
}

// until looks again and again, as long as anything is waited for.
func until(ts *testscript.TestScript, why string, holds func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-late:
			ts.Fatalf("%s", why)
		}
	}
}
