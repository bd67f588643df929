package gcpbatch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/gcpbatch/gcpbatchtest"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

func TestMain(m *testing.M) {
	orderLook, noticeLook, enableLook = 20*time.Millisecond, 20*time.Millisecond, time.Millisecond
	programs, err := os.MkdirTemp("", "drover-gcp-*")
	if err != nil {
		panic(err)
	}
	programFile = filepath.Join(programs, "drover")
	if _, container := os.LookupEnv(variableJob); container {
		os.Remove(programs)
	} else {
		os.Setenv("GCE_METADATA_HOST", "127.0.0.1:1") // this machine has an account; no test asks it for a token
		os.Setenv("GOOGLE_CLOUD_PROJECT", gcpbatchtest.Project)
		os.Setenv("CLOUDSDK_COMPUTE_REGION", gcpbatchtest.Region)
	}
	drivertest.Main(m, func(p driver.AgentProcess) (*driver.Allocation, error) {
		p.Open = func(context.Context, string) (*store.Store, error) {
			b, err := dir.Open(p.Args.Store, dir.OS)
			return store.New(b, store.Options{}), err
		}
		return adopt(p)
	}, programs)
}

// patience is how long a request is sent again here.
const patience = 2 * time.Second

// project is a fake of a project with a store, and what reaches them.
type project struct {
	*gcpbatchtest.Server
	store *store.Store
	facts string
	state string
}

func newProject(t *testing.T) project {
	t.Helper()
	p := project{Server: gcpbatchtest.New(t), facts: t.TempDir(), state: t.TempDir()}
	b, err := dir.Open(p.facts, dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	p.store = store.New(b, store.Options{})
	return p
}

// driver is one that another process would make.
func (p project) driver() *Driver {
	d := New(p.state, func(context.Context) (*store.Store, error) { return p.store, nil }, remote.Options{Settle: 100 * time.Millisecond, Look: 10 * time.Millisecond})
	d.engine.look, d.engine.list = 0, 0
	caller := &rest.Caller{Over: google.Transport(), Wait: patience, At: p.At,
		Tokens: google.NewTokens(nil, func(context.Context) (google.Token, error) { return google.Token{Value: p.Token()}, nil })}
	d.engine.caller = func() *rest.Caller { return caller }
	return d
}

// task is the job and the task of an agent.
func (p project) task(t *testing.T, h driver.Handle, number int) (id string, index int) {
	t.Helper()
	r, err := remote.NewRecords(p.store, Name).Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := r.Agent(t.Context(), number)
	if !ok {
		t.Fatalf("no process is agent %d", number)
	}
	return c.ID, c.Index
}

// located is a driver with the project that it asks, and a store that its agents open.
type located struct {
	*Driver
	project
}

// Start has agents open the project's store, with an account that may read secrets. Answers are lost until it has returned.
func (l located) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	defer l.LoseCreate(false)
	r.Run.Store = l.facts
	r.Needs.Args = append([]string{"service-account=" + gcpbatchtest.Account}, r.Needs.Args...)
	return l.Driver.Start(ctx, r)
}

func TestGoogleBatchIsADriverOverAFake(t *testing.T) {
	self := drivertest.Program(t)
	drivertest.Run(t, drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			p := newProject(t)
			return func() driver.Driver { return located{p.driver(), p} }
		},
		Boot: func(t *testing.T, s drivertest.Script) driver.Boot {
			return driver.Boot{Env: s.Environ(), Programs: func(context.Context, string) (driver.Program, error) { return self, nil }}
		},
		Break: func(_ *testing.T, _ driver.Driver, r *driver.Request) {
			r.Needs.Place.Image = "europe-docker.pkg.dev/demo-project/nowhere/image:1"
		},
		Kill: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			p := d.(located).project
			p.Kill(p.task(t, h, m.Index))
		},
		Take: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			p := d.(located).project
			p.Take(p.task(t, h, m.Index))
		},
		Warn: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			p := d.(located).project
			p.Warn(p.task(t, h, m.Index))
		},
		LoseAnswer: func(d driver.Driver) { d.(located).LoseCreate(true) },
	})
}
