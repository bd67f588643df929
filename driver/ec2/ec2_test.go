package ec2

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
	"github.com/drover-run/drover/driver/ec2/ec2test"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

func TestMain(m *testing.M) {
	orderLook, noticeLook = 20*time.Millisecond, 50*time.Millisecond
	programs, err := os.MkdirTemp("", "drover-ec2-*")
	if err != nil {
		panic(err)
	}
	programFile = filepath.Join(programs, "drover")
	if _, machine := os.LookupEnv(variableGroup); machine {
		os.Remove(programs)
		if !remote.Supervised() { // the agent's script is in the placement's record
			os.Setenv("DROVER_DRIVERTEST", "{}")
		}
	} else {
		for name, value := range map[string]string{"AWS_REGION": ec2test.Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true"} {
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

// ownNetwork are options of jobs without a set-up, over a store that is a folder.
var ownNetwork = []string{"profile=machines", "subnets=subnet-0a,subnet-0b,subnet-0c", "security-groups=sg-0a"}

// fakeAccount is a fake of EC2 with a store, and what reaches them.
type fakeAccount struct {
	*ec2test.Server
	store *store.Store
	facts string
	state string
}

func newAccount(t *testing.T) fakeAccount {
	t.Helper()
	a := fakeAccount{Server: ec2test.New(t), facts: t.TempDir(), state: t.TempDir()}
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
	d.engine.now = a.Now
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

// machine is the machine of an agent.
func (a fakeAccount) machine(t *testing.T, h driver.Handle, number int) string {
	t.Helper()
	p, err := remote.NewRecords(a.store, Name).Open(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	c, ok := p.Agent(t.Context(), number)
	if !ok {
		t.Fatalf("no machine is agent %d", number)
	}
	return c.Process
}

// located is a driver with the account that it asks, and a store that its agents open.
type located struct {
	*Driver
	fakeAccount
	detail string // of offers for which none is named
}

// Start has agents open the account's store. Answers are lost until it has returned.
func (l located) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	defer l.Lose("UpdateAutoScalingGroup", 0)
	r.Run.Store, r.Needs.Args = l.facts, slices.Concat(ownNetwork, r.Needs.Args)
	return l.Driver.Start(ctx, r)
}

func (l located) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	n.Detail, n.Args = cmp.Or(n.Detail, l.detail), slices.Concat(ownNetwork, n.Args)
	return l.Driver.Offer(ctx, n)
}

func TestEC2IsADriverOverAFake(t *testing.T) {
	p := place(t, "")
	p.Break = func(_ *testing.T, _ driver.Driver, r *driver.Request) {
		r.Needs.Place.Image = "registry.example.com/nowhere:1"
	}
	drivertest.Run(t, p)
}

func TestBareMachinesAreADriverOverAFake(t *testing.T) {
	p := place(t, bareWord)
	p.Break = func(t *testing.T, _ driver.Driver, r *driver.Request) {
		broken := drivertest.Program(t)
		broken.SHA256 = broken.SHA256[1:] + "0"
		r.Run.Programs = func(context.Context, string) (driver.Program, error) { return broken, nil }
	}
	drivertest.Run(t, p)
}

// place is the account as the suite knows it, with agents of a detail.
func place(t *testing.T, detail string) drivertest.Place {
	self := drivertest.Program(t)
	on := func(do func(*ec2test.Server, string)) func(*testing.T, driver.Driver, driver.Handle, driver.Member) {
		return func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			a := d.(located).fakeAccount
			do(a.Server, a.machine(t, h, m.Index))
		}
	}
	return drivertest.Place{
		Open: func(t *testing.T) func() driver.Driver {
			a := newAccount(t)
			return func() driver.Driver { return located{a.driver(t), a, detail} }
		},
		Boot: func(t *testing.T, s drivertest.Script) driver.Boot {
			return driver.Boot{Env: s.Environ(), Programs: func(context.Context, string) (driver.Program, error) { return self, nil }}
		},
		Kill:       on((*ec2test.Server).KillProcesses),
		Take:       on((*ec2test.Server).Take),
		Warn:       on((*ec2test.Server).Warn),
		LoseAnswer: func(d driver.Driver) { d.(located).Lose("UpdateAutoScalingGroup", -1) },
	}
}
