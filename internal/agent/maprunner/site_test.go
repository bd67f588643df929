package maprunner

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
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
	proc.Main() // this program is its items' supervisor too
	os.Exit(m.Run())
}

// patience is how long a test waits for what must come.
const patience = time.Minute

// bucket is a store in memory that a test can block.
type bucket struct {
	*mem.Bucket
	mu     sync.Mutex
	refuse func(key string) error // of writes
	wrote  func(key string)
	asked  func(key string) // of reads; set before there are any
}

func (b *bucket) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.write(key, func() error { return b.Bucket.Create(ctx, key, body) })
}

func (b *bucket) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	return b.write(key, func() error { return b.Bucket.Put(ctx, key, body) })
}

func (b *bucket) Get(ctx context.Context, key string, offset, length int64) (io.ReadCloser, error) {
	if b.asked != nil {
		b.asked(key)
	}
	return b.Bucket.Get(ctx, key, offset, length)
}

func (b *bucket) write(key string, do func() error) error {
	b.mu.Lock()
	refuse, wrote := b.refuse, b.wrote
	b.mu.Unlock()
	if refuse != nil {
		if err := refuse(key); err != nil {
			return err
		}
	}
	err := do()
	if wrote != nil {
		wrote(key)
	}
	return err
}

// errFull is what a full disk says.
func errFull(key string) error {
	return fault.New(fault.Full, "Free some space.", "create %s: no space left", key)
}

// site is a store with one map in it, and the agents that work on it.
type site struct {
	protocol.World
	t      testing.TB
	bucket *bucket // nil: another store
	job    job.Job
	agents int
	other  store.Bucket                 // when bucket is nil
	ready  func(j *job.Job, dir string) // before it is submitted; may be nil
}

// newSite submits a map of these lines: a program with its arguments for each.
func newSite(t testing.TB, spec job.Spec, lines ...string) *site {
	t.Helper()
	return newLines(t, spec, 0, lines...)
}

// newLines is newSite with chunks of a size.
func newLines(t testing.TB, spec job.Spec, chunk int, lines ...string) *site {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "items.txt")
	if strings.HasPrefix(lines[0], "{") {
		file = filepath.Join(dir, "items.jsonl")
	}
	s := &site{t: t, bucket: &bucket{Bucket: mem.New()}}
	s.check(os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	s.submit(spec, file, chunk)
	return s
}

// newRange submits a map of the items 1 to n.
func newRange(t testing.TB, spec job.Spec, n, chunk int) *site {
	t.Helper()
	s := &site{t: t, bucket: &bucket{Bucket: mem.New()}}
	s.submit(spec, fmt.Sprintf("1-%d", n), chunk)
	return s
}

func (s *site) submit(spec job.Spec, from string, chunk int) {
	s.t.Helper()
	ctx := s.t.Context()
	var b store.Bucket = s.other
	if s.bucket != nil {
		b = s.bucket
	}
	s.World = protocol.World{Store: store.New(b, store.Options{}), Rand: rand.Reader,
		Gone: func(h protocol.Host) (bool, bool) { return process.Identity(h).Gone() }}
	list, err := items.Collect(ctx, items.Source{From: from}, s.t.TempDir())
	s.check(err)
	spec.Project, spec.Task, spec.Verb, spec.From = "demo", "sums", job.Map, from
	if spec.Grace == 0 {
		spec.Grace = job.Duration(10 * time.Second)
	}
	spec, err = spec.Normal()
	s.check(err)
	j := job.Job{V: job.Format, Spec: spec, At: time.Now().UTC()}
	s.check(tasks.NameJob(ctx, s.World, &j))
	m, err := list.Put(ctx, s.Store, protocol.ItemsPrefix(j.Path()))
	s.check(err)
	s.check(list.Close())
	if j.Manifest, j.ChunkSize = job.Manifest(m), chunk; chunk == 0 {
		j.ChunkSize = chunks.ChunkSize(m.Count, spec.Workers)
	}
	if s.ready != nil {
		s.ready(&j, s.t.TempDir())
	}
	_, mine, err := tasks.SubmitJob(ctx, s.World, j, "cli-1")
	if s.check(err); !mine {
		s.t.Fatal("another job is live")
	}
	s.job = j
}

func (s *site) check(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

var errStopped = errors.New("the test ends")

// agent is one that was started.
type agent struct {
	s      *site
	c      Config
	kit    chan Prepared
	notice chan node.Notice
	ended  chan struct{}
	status int
	err    error
	code   string // the items' working folder
	stop   func()

	mu    sync.Mutex
	notes []string
}

func (a *agent) note(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.notes = append(a.notes, text)
}

func (a *agent) noted(part string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.ContainsFunc(a.notes, func(n string) bool { return strings.Contains(n, part) })
}

// program prepares a program on PATH, with the job's arguments.
func (s *site) program(dir string) Prepared {
	s.t.Helper()
	spec := s.job.Spec
	path, args := lookPath(s.t, spec.Program), spec.Args
	if spec.ByShell {
		path, args = lookPath(s.t, "bash"), []string{"-c", spec.Program}
	}
	return Prepared{Path: path, Args: args, Dir: dir, Environ: []string{"PATH=" + os.Getenv("PATH"), "DROVER_JOB=" + s.job.ID}}
}

// lookPath finds a program; this test's own is "self", which knows some roles.
func lookPath(t testing.TB, name string) string {
	t.Helper()
	if name == "self" {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		return self
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && !info.IsDir() {
			return filepath.Join(dir, name)
		}
	}
	t.Skipf("%s is not here", name)
	return ""
}

// start starts an agent that is ready at once.
func (s *site) start(slots int, change func(*Config, *Prepared)) *agent {
	s.t.Helper()
	s.agents++
	a := &agent{s: s, kit: make(chan Prepared, 1), notice: make(chan node.Notice, 1), ended: make(chan struct{}), code: s.t.TempDir()}
	id := liveness.NewAgentID(s.World, 1, s.agents)
	out, err := record.NewWriter(record.Options{Store: s.Store, Prefix: protocol.LogsPrefix(s.job.Path()), Rank: s.agents, ID: fmt.Sprintf("w%d", s.agents)})
	s.check(err)
	a.c = Config{World: s.World, Job: s.job, ID: id, Self: protocol.Host(process.Self()), Slots: slots, Near: true, Root: s.t.TempDir(),
		Token: strings.ReplaceAll(id, ":", "-"), Out: out, Note: a.note, ChangeHeartbeat: func(bool, func(*protocol.Heartbeat)) {},
		Log: slog.New(slog.NewTextHandler(s.t.Output(), nil)), Notice: a.notice, Prepared: a.kit, CancelPreparation: func() {}, JobRemoved: func() {}, NoteLeftovers: func() {}, WriteNotice: func(string, time.Duration) {}, Patience: patience}
	kit := s.program(a.code)
	if change != nil {
		change(&a.c, &kit)
	}
	a.kit <- kit
	ctx, stop := context.WithCancelCause(context.Background())
	a.stop = func() { stop(errStopped) }
	go func() { // the clean-up below waits
		defer close(a.ended)
		a.status, a.err = Run(ctx, a.c)
		if err := a.c.Out.Close(context.Background()); a.err == nil {
			a.err = err
		}
	}()
	s.t.Cleanup(func() {
		a.stop()
		<-a.ended
	})
	return a
}

// leave waits until the agent has gone, and wants this status of it.
func (a *agent) leave(want int) {
	a.s.t.Helper()
	select {
	case <-a.ended:
	case <-time.After(patience):
		stacks := make([]byte, 1<<20)
		a.s.t.Fatalf("the agent does not leave; notes %q\n%s", a.notes, stacks[:runtime.Stack(stacks, true)])
	}
	if a.err != nil || a.status != want {
		a.s.t.Fatalf("the agent left with %d, %v; want %d", a.status, a.err, want)
	}
	if left, err := os.ReadDir(a.c.Root); err != nil || len(left) > 0 {
		a.s.t.Errorf("it left %v in its folder (%v)", left, err)
	}
}

// run has one agent do the whole map.
func (s *site) run(slots int) *agent {
	s.t.Helper()
	a := s.start(slots, nil)
	a.leave(0)
	return a
}

// settled is how the map ended.
func (s *site) settled() protocol.Settled {
	s.t.Helper()
	rep, err := views.NewMapView(s.World, s.job).Refresh(s.t.Context())
	s.check(err)
	if rep.Map.Settled == nil {
		s.t.Fatalf("it has not settled: %+v", rep.Tally)
	}
	return *rep.Map.Settled
}

// wants checks how the map ended.
func (s *site) wants(state job.State, tally job.Tally) {
	s.t.Helper()
	got := s.settled()
	if got.State != state || got.Tally == nil || *got.Tally != tally {
		s.t.Fatalf("settled as %s, %+v (%s); want %s, %+v", got.State, got.Tally, got.Reason, state, tally)
	}
}

// results are those of all items, in order.
func (s *site) results() (all []views.ItemReport) {
	s.t.Helper()
	s.check(views.NewMapView(s.World, s.job).Each(s.t.Context(), func(r views.ItemReport) error {
		all = append(all, r)
		return nil
	}))
	return all
}

// said is what an item printed in all of its tries, as the log has it.
func (s *site) said(item int, streams record.Stream) string {
	s.t.Helper()
	var b strings.Builder
	for f, err := range record.Read(s.t.Context(), s.Store, protocol.LogsPrefix(s.job.Path()), record.Filter{Item: uint64(item), Streams: streams}) {
		s.check(err)
		b.Write(f.Data)
	}
	return b.String()
}
