package agent

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

func TestMain(m *testing.M) {
	proc.Main() // this program is its programs' minder too
	os.Exit(m.Run())
}

// patience is how long a test waits for an event that must come.
const patience = time.Minute

// memBucket is a store in memory that tells of each write, and that a test
// can block.
type memBucket struct {
	*mem.Bucket
	wrote chan struct{} // has room for one

	mu     sync.Mutex
	refuse func(key string) error                      // of writes
	before func(ctx context.Context, key string) error // reads
	// create stands for the writing of blobs.
	create func(ctx context.Context, key string, body io.ReadSeeker) error
}

func (b *memBucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	b.mu.Lock()
	create := b.create
	b.mu.Unlock()
	if create == nil || !strings.HasPrefix(key, "blobs/") {
		create = b.Bucket.Create
	}
	return b.write(key, func() error { return create(ctx, key, body) })
}

func (b *memBucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.write(key, func() error { return b.Bucket.Put(ctx, key, body) })
}

func (b *memBucket) write(key string, do func() error) error {
	b.mu.Lock()
	refuse := b.refuse
	b.mu.Unlock()
	var err error
	if refuse != nil {
		err = refuse(key)
	}
	if err == nil {
		err = do()
	}
	select {
	case b.wrote <- struct{}{}:
	default: // the waiting process has not looked yet
	}
	return err
}

func (b *memBucket) Get(ctx context.Context, key string, off, n int64) (io.ReadCloser, error) {
	b.mu.Lock()
	before := b.before
	b.mu.Unlock()
	if before != nil {
		if err := before(ctx, key); err != nil {
			return nil, err
		}
	}
	return b.Bucket.Get(ctx, key, off, n)
}

func (b *memBucket) set(change func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	change()
}

// place is a machine with a store in memory, on which agents are started.
type place struct {
	protocol.World
	t       *testing.T
	bucket  *memBucket
	work    string
	environ []string
	index   int
}

func newPlace(t *testing.T) *place {
	t.Helper()
	b := &memBucket{Bucket: mem.New(), wrote: make(chan struct{}, 1)}
	p := &place{t: t, bucket: b, work: t.TempDir(), environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "PWD=/elsewhere"}}
	p.World = protocol.World{Store: store.New(b, store.Options{}), Rand: rand.Reader,
		Gone: func(h protocol.Host) (bool, bool) { return process.Identity(h).Gone() }}
	return p
}

func (p *place) check(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// submit makes a job of a spec and of the files that come along.
func (p *place) submit(spec job.Spec, files map[string]string) job.Job {
	p.t.Helper()
	return p.submitSince(spec, files, 0)
}

// submitSince is submit of a job that takes over no checkpoints from before that place.
func (p *place) submitSince(spec job.Spec, files map[string]string, since int) job.Job {
	p.t.Helper()
	return p.submitWith(spec, files, func(j *job.Job) { j.Since = since })
}

// submitWith is submit of a job that change has changed.
func (p *place) submitWith(spec job.Spec, files map[string]string, change func(*job.Job)) job.Job {
	p.t.Helper()
	spec.Project, spec.Task = "demo", "digits"
	spec, err := spec.Normal()
	p.check(err)
	j := job.Job{V: job.Format, Spec: spec, At: time.Now().UTC(), Code: p.code(spec.Program, files)}
	change(&j)
	p.check(tasks.NameJob(p.t.Context(), p.World, &j))
	_, mine, err := tasks.SubmitJob(p.t.Context(), p.World, j, "cli-1")
	if p.check(err); !mine {
		p.t.Fatal("another job is live")
	}
	return j
}

// code stores the files that come along with a program, if there are any.
func (p *place) code(program string, files map[string]string) (c job.Code) {
	p.t.Helper()
	if len(files) == 0 {
		return c
	}
	dir := p.t.TempDir()
	write(p.t, dir, files)
	list, err := bundle.Scan(p.t.Context(), bundle.Source{Dir: dir})
	p.check(err)
	b, err := bundle.Put(p.t.Context(), p.Store, list)
	p.check(err)
	c.Blob, c.Digest = string(b.Blob), b.Content
	if _, ok := files[program]; ok {
		c.Script = program
	}
	return c
}

func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for name, text := range files {
		full := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

// worker is one agent that was started.
type worker struct {
	p      *place
	notice chan node.Notice
	ended  chan struct{}
	stop   context.CancelFunc // as if it had been killed: it records nothing
	status int
	err    error

	mu    sync.Mutex
	procs []*proc.Process
}

// start starts an agent on a job.
func (p *place) start(j job.Job, change func(*node.Config)) *worker {
	p.t.Helper()
	w := &worker{p: p, notice: make(chan node.Notice, 2), ended: make(chan struct{})}
	c := node.Config{World: p.World, Path: j.Path(), Placement: 1, Index: p.index, Log: slog.New(slog.NewTextHandler(p.t.Output(), nil)),
		Machine: node.Machine{Self: protocol.Host(process.Self()), Name: "desk", Address: "127.0.0.1", CPUs: 2, Work: p.work,
			Cache: p.t.TempDir(), Environ: p.environ, Notice: w.notice, Near: true,
			Start: func(ctx context.Context, c proc.Command) (*proc.Process, error) {
				started, err := proc.Start(ctx, c)
				if err == nil {
					w.mu.Lock()
					defer w.mu.Unlock()
					w.procs = append(w.procs, started)
				}
				return started, err
			}}}
	p.index++
	if change != nil {
		change(&c)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	go func() { // the clean-up below waits
		defer close(w.ended)
		w.status, w.err = Run(ctx, c)
	}()
	p.t.Cleanup(func() {
		stop()
		<-w.ended
		for _, started := range w.programs() {
			started.Kill()
			started.Wait()
		}
	})
	return w
}

func (w *worker) programs() []*proc.Process {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.procs)
}

// leave waits until the agent has gone, and wants this status of it.
func (w *worker) leave(want int) {
	w.p.t.Helper()
	select {
	case <-w.ended:
	case <-time.After(patience):
		w.p.t.Fatal("the agent does not leave")
	}
	if w.err != nil || w.status != want {
		w.p.t.Fatalf("the agent left with %d, %v; want %d", w.status, w.err, want)
	}
}

// run works on a job to its end and gives what is known of it then.
func (p *place) run(j job.Job) views.Report {
	p.t.Helper()
	p.start(j, nil).leave(0)
	return p.look(j)
}

func (p *place) look(j job.Job) views.Report {
	p.t.Helper()
	rep, err := views.ReadReport(p.t.Context(), p.World, j.Path())
	p.check(err)
	return rep
}

// until waits for something that is seen in the store.
func (p *place) until(what string, seen func() bool) {
	p.t.Helper()
	late := time.After(patience)
	for !seen() {
		select {
		case <-p.bucket.wrote:
		case <-late:
			p.t.Fatalf("it does not come: %s", what)
		}
	}
}

// output reads one output of a rank, as texts by name.
func (p *place) output(e protocol.Exit, name string) map[string]string {
	p.t.Helper()
	d, ok := e.Outputs[name]
	if !ok {
		return nil
	}
	listing, err := tree.LoadTree(p.t.Context(), p.Store, d)
	p.check(err)
	dir := p.t.TempDir()
	p.check(tree.Restore(p.t.Context(), p.Store, listing, dir))
	return texts(p.t, dir)
}

// texts reads a folder; a folder in it with nothing inside ends in a slash.
func texts(t *testing.T, dir string) map[string]string {
	t.Helper()
	found := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		if d.IsDir() {
			if inside, err := os.ReadDir(path); err == nil && len(inside) == 0 {
				found[name+"/"] = ""
			}
			return nil
		}
		b, err := os.ReadFile(path)
		found[name] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// said is what the job's programs printed, or the agents noted.
func (p *place) said(j job.Job, s record.Stream) string {
	p.t.Helper()
	var b strings.Builder
	for f, err := range record.Read(p.t.Context(), p.Store, protocol.LogsPrefix(j.Path()), record.Filter{Streams: s}) {
		p.check(err)
		b.Write(f.Data)
	}
	return b.String()
}

// nothingLeft says that no agent has left anything in the work folder.
func (p *place) nothingLeft() {
	p.t.Helper()
	if left := slices.Sorted(maps.Keys(texts(p.t, p.work))); len(left) > 0 {
		p.t.Errorf("left in the work folder: %s", left)
	}
}

// gate is a pipe with a name, by which a program and a test wait for each other.
type gate struct {
	t    *testing.T
	Path string
	file *os.File
}

func newGate(t *testing.T) gate {
	t.Helper()
	path := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0) // both ends: the first need not wait to open it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return gate{t, path, f}
}

// wait waits until the program has written a line.
func (g gate) wait() {
	g.t.Helper()
	if err := g.file.SetReadDeadline(time.Now().Add(patience)); err != nil {
		g.t.Fatal(err)
	}
	for b := make([]byte, 1); b[0] != '\n'; {
		if _, err := g.file.Read(b); err != nil {
			g.t.Fatalf("the program does not come to its gate: %v", err)
		}
	}
}

// open lets a program that reads a line go on.
func (g gate) open() {
	g.t.Helper()
	if _, err := g.file.WriteString("go\n"); err != nil {
		g.t.Fatal(err)
	}
}
