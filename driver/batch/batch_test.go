package batch

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/batch/batchtest"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

func TestMain(m *testing.M) {
	orderLook = 20 * time.Millisecond
	programs, err := os.MkdirTemp("", "drover-batch-*")
	if err != nil {
		panic(err)
	}
	programFile = filepath.Join(programs, "drover")
	if _, container := os.LookupEnv(variableCPUs); container {
		os.Remove(programs)
	}
	for name, value := range map[string]string{"AWS_REGION": batchtest.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true"} {
		os.Setenv(name, value)
	}
	drivertest.Main(m, func(p driver.AgentProcess) (*driver.Allocation, error) {
		p.Open = func(context.Context, string) (*store.Store, error) {
			b, err := dir.Open(p.Args.Store, dir.OS)
			return store.New(b, store.Options{}), err
		}
		return adopt(p)
	}, programs)
}

const role = "job-role=arn:aws:iam::123456789012:role/train"

// fakeAccount is a fake of AWS Batch with a store, and what reaches them.
type fakeAccount struct {
	*batchtest.Server
	store *store.Store
	facts string
	state string
}

func newAccount(t *testing.T) fakeAccount {
	t.Helper()
	a := fakeAccount{Server: batchtest.New(t), facts: t.TempDir(), state: t.TempDir()}
	b, err := dir.Open(a.facts, dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	a.store = store.New(b, store.Options{})
	return a
}

// driver is one that another process would make.
func (a fakeAccount) driver(t *testing.T) *Driver {
	return a.driverOf(t, remote.Options{Settle: 100 * time.Millisecond, Look: 10 * time.Millisecond})
}

func (a fakeAccount) driverOf(t *testing.T, o remote.Options) *Driver {
	t.Helper()
	d := New(a.state, func(context.Context) (*store.Store, error) { return a.store, nil }, o)
	d.engine.clients = amazon.NewClients(func(ctx context.Context, region string) (*client, string, error) {
		account, err := amazon.Open(ctx, amazon.Options{Region: region})
		if err != nil {
			return nil, "", err
		}
		account.Config.BaseEndpoint = aws.String(a.URL())
		c := newClient(account, batchtest.Region, 2*time.Second)
		return c, c.region, nil
	})
	return d
}

// job is the id of the job of an agent, as AWS Batch names it.
func (a fakeAccount) job(t *testing.T, h driver.Handle, index int) string {
	t.Helper()
	p, err := remote.NewRecords(a.store, Name).Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := p.Agent(t.Context(), index)
	if !ok {
		t.Fatalf("no process is agent %d", index)
	}
	return childID(c.ID, c.Index, map[bool]int{true: p.Request.Agents, false: 0}[p.Request.Agents > 1])
}

func TestBatchIsADriverOverAFake(t *testing.T) {
	self := drivertest.Program(t)
	drivertest.Run(t, drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			a := newAccount(t)
			return func() driver.Driver {
				d := a.driver(t)
				return located{d, a}
			}
		},
		Boot: func(t *testing.T, s drivertest.Script) driver.Boot {
			return driver.Boot{Env: s.Environ(), Programs: func(context.Context, string) (driver.Program, error) { return self, nil }}
		},
		Break: func(_ *testing.T, _ driver.Driver, r *driver.Request) { r.Needs.Place.Image = "nowhere/none:1" },
		Kill: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			a := d.(located).fakeAccount
			a.Kill(a.job(t, h, m.Index))
		},
		Take: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			a := d.(located).fakeAccount
			a.Take(a.job(t, h, m.Index))
		},
		Warn: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			a := d.(located).fakeAccount
			a.Warn(a.job(t, h, m.Index))
		},
		LoseAnswer: func(d driver.Driver) { d.(located).LoseSubmit() },
	})
}

// located is a driver with the account that it asks, and a store that its agents open.
type located struct {
	*Driver
	fakeAccount
}

// Start has agents open the account's store.
func (l located) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	r.Run.Store = l.facts
	return l.Driver.Start(ctx, r)
}

// A queue is named once in full: region and account are those of the answer.
func TestASiteIsReadAsItIsWritten(t *testing.T) {
	for text, want := range map[string]site{"": {}, "train": {queue: "train"}, "train@eu-west-1": {"train", "eu-west-1", ""}, "train@us-gov-west-1/123456789012": {"train", "us-gov-west-1", "123456789012"}} {
		got, err := parseSite(text)
		if err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, written %q, %v", text, got, got, err)
		}
	}
	for _, text := range []string{"-train", "train@", "train@eu-west-1/12", "a/b", "train@EU", "train eu"} {
		if _, err := parseSite(text); fault.KindOf(err) != fault.Invalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
