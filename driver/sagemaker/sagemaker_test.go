package sagemaker

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/driver/sagemaker/sagemakertest"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

func TestMain(m *testing.M) {
	orderLook = 20 * time.Millisecond
	programs, err := os.MkdirTemp("", "drover-sagemaker-*")
	if err != nil {
		panic(err)
	}
	programFile = filepath.Join(programs, "drover")
	if _, container := os.LookupEnv(variableGPUs); container {
		os.Remove(programs)
	} else {
		for name, value := range map[string]string{"AWS_REGION": sagemakertest.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true"} {
			os.Setenv(name, value)
		}
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
const patience = 4 * time.Second

// image is one of the account's own.
const image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/train:1"

// ownRole and ownOutput are options of jobs without a set-up, over a store that is a folder.
const (
	ownRole   = "role=arn:aws:iam::123456789012:role/train"
	ownOutput = "output=s3://bucket/models"
)

// fakeAccount is a fake of SageMaker with a store, and what reaches them.
type fakeAccount struct {
	*sagemakertest.Server
	store *store.Store
	facts string
	state string
}

func newAccount(t *testing.T) fakeAccount {
	t.Helper()
	a := fakeAccount{Server: sagemakertest.New(t), facts: t.TempDir(), state: t.TempDir()}
	b, err := dir.Open(a.facts, dir.OS)
	if err != nil {
		t.Fatal(err)
	}
	a.store = store.New(b, store.Options{})
	return a
}

// driver is one that another process would make.
func (a fakeAccount) driver(t *testing.T) *Driver {
	t.Helper()
	d := New(a.state, func(context.Context) (*store.Store, error) { return a.store, nil }, remote.Options{Settle: 100 * time.Millisecond, Look: 10 * time.Millisecond})
	d.engine.look = 0
	d.engine.clients = amazon.NewClients(func(ctx context.Context, region string) (*client, string, error) {
		account, err := amazon.Open(ctx, amazon.Options{Region: region})
		if err != nil {
			return nil, "", err
		}
		account.Config.BaseEndpoint = aws.String(a.URL())
		c := newClient(account, patience, time.Millisecond)
		return c, c.region, nil
	})
	return d
}

// job is the training job of an agent, and its instance there.
func (a fakeAccount) job(t *testing.T, h driver.Handle, number int) (name string, host int) {
	t.Helper()
	p, err := remote.NewRecords(a.store, Name).Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := p.Agent(t.Context(), number)
	if !ok {
		t.Fatalf("no process is agent %d", number)
	}
	if _, worker, _ := parseJobName(c.ID); worker >= 0 {
		return c.ID, 0
	}
	return c.ID, c.Index
}

// located is a driver with the account that it asks, and a store that its agents open.
type located struct {
	*Driver
	fakeAccount
	detail string // of offers for which none is named
}

// placed are needs in the account, which the suite does not know.
func placed(n driver.Needs) driver.Needs {
	if n.Place.Image == "" {
		n.Place.Image = image
	}
	n.Args = slices.Concat([]string{ownRole, ownOutput}, n.Args)
	return n
}

// Start has agents open the account's store. Answers are lost until it has returned.
func (l located) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	defer l.LoseCreate(false)
	r.Run.Store, r.Needs = l.facts, placed(r.Needs)
	return l.Driver.Start(ctx, r)
}

func (l located) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	n.Detail = cmp.Or(n.Detail, l.detail)
	return l.Driver.Offer(ctx, placed(n))
}

func TestSageMakerIsADriverOverAFake(t *testing.T) { drivertest.Run(t, place(t, "")) }

func TestProcessingJobsAreADriverOverAFake(t *testing.T) {
	drivertest.Run(t, place(t, processes))
}

// place is the account as the suite knows it, with agents of a detail.
func place(t *testing.T, detail string) drivertest.Place {
	self := drivertest.Program(t)
	return drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			a := newAccount(t)
			return func() driver.Driver { return located{a.driver(t), a, detail} }
		},
		Boot: func(t *testing.T, s drivertest.Script) driver.Boot {
			return driver.Boot{Env: s.Environ(), Programs: func(context.Context, string) (driver.Program, error) { return self, nil }}
		},
		Break: func(_ *testing.T, _ driver.Driver, r *driver.Request) {
			r.Needs.Place.Image = "123456789012.dkr.ecr.eu-west-1.amazonaws.com/nowhere:1"
		},
		Kill: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			a := d.(located).fakeAccount
			a.Kill(a.job(t, h, m.Index))
		},
		Take: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			a := d.(located).fakeAccount
			name, _ := a.job(t, h, m.Index)
			a.Interrupt(name)
		},
		Warn: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			a := d.(located).fakeAccount
			a.Warn(a.job(t, h, m.Index))
		},
		LoseAnswer: func(d driver.Driver) { d.(located).LoseCreate(true) },
	}
}
