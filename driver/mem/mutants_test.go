package mem_test

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// twisted is mem with some of its methods replaced.
type twisted struct {
	*mem.Driver
	offer  func(context.Context, driver.Needs) (driver.Offer, error)
	start  func(context.Context, driver.Request) (driver.Handle, error)
	status func(context.Context, driver.Handle) ([]driver.Member, error)
	stop   func(context.Context, driver.Handle, time.Duration, bool) error
	list   func(context.Context) ([]driver.Handle, error)
	warn   func(h driver.Handle, index int) // nil: as mem does
}

func (d *twisted) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	return d.offer(ctx, n)
}
func (d *twisted) Start(ctx context.Context, r driver.Request) (driver.Handle, error) {
	return d.start(ctx, r)
}
func (d *twisted) Status(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
	return d.status(ctx, h)
}
func (d *twisted) Stop(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
	return d.stop(ctx, h, grace, remove)
}
func (d *twisted) List(ctx context.Context) ([]driver.Handle, error) { return d.list(ctx) }

// mutants break one promise each.
var mutants = []struct {
	name, promise string
	twist         func(*twisted)
}{
	{"starts too few", "starting starts every agent, numbered from 0", func(d *twisted) {
		d.start = func(ctx context.Context, r driver.Request) (driver.Handle, error) {
			r.Agents = max(1, r.Agents-1)
			return d.Driver.Start(ctx, r)
		}
	}},
	{"numbers its agents from 1", "starting starts every agent, numbered from 0", edit(func(m *driver.Member) { m.Index++ })},
	{"starts again when asked again", "starting twice starts once", func(d *twisted) { d.start = startsAgain(d, true) }},
	{"starts for everyone who asks", "starting the same name from many sides at once starts once", func(d *twisted) { d.start = startsAgain(d, true) }},
	{"starts again after the end", "starting again after the end starts nothing", func(d *twisted) { d.start = startsAgain(d, false) }},
	{"stops the whole job", "placements of one job are apart", func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			held, err := d.Driver.List(ctx)
			for _, other := range held {
				err = errors.Join(err, d.Driver.Stop(ctx, other, grace, remove))
			}
			return err
		}
	}},
	{"accepts what cannot be", "a request that names nobody is refused and leaves nothing", func(d *twisted) { d.start = meek(d) }},
	{"accepts any name", "a hostile job id is refused and reaches nothing", func(d *twisted) { d.start = meek(d) }},
	{"makes a path of a name", "a hostile job id is refused and reaches nothing", func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			h.Job = path.Base(h.Job)
			return d.Driver.Stop(ctx, h, grace, remove)
		}
	}},
	{"calls a good end a bad one", "an agent that ends well shows its code", edit(func(m *driver.Member) { m.Code = 1 })},
	{"calls a bad end a good one", "an agent that ends badly shows its code and the end of its log", edit(func(m *driver.Member) { m.Code = 0 })},
	{"shows no log", "an agent that ends badly shows its code and the end of its log", edit(func(m *driver.Member) { m.Tail = "" })},
	{"does not say why", "an agent that cannot start says why", edit(func(m *driver.Member) { m.Reason = "" })},
	{"waits for ever for what cannot start", "an agent that cannot start says why", edit(rename(driver.Ended, driver.Waiting))},
	{"calls a loss an end", "a killed agent is lost, and the reason says so", edit(rename(driver.Lost, driver.Ended))},
	{"explains a loss by a Stop", "stopping the others does not explain a lost agent away", func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			edit(rename(driver.Lost, driver.Ended))(d)
			return d.Driver.Stop(ctx, h, grace, remove)
		}
	}},
	{"calls an interruption a loss", "an interruption is told from a loss", edit(rename(driver.Taken, driver.Lost))},
	{"is upset by an unknown handle", "status of an unknown handle has no members", func(d *twisted) {
		d.status = func(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
			members, err := d.Driver.Status(ctx, h)
			if len(members) == 0 {
				err = errors.New("no such handle")
			}
			return members, err
		}
	}},
	{"does not ask", "stop asks, and lets the agent end by itself within grace", grace(func(time.Duration) time.Duration { return 0 })},
	{"only asks", "stop kills what ignores it after grace", grace(func(time.Duration) time.Duration { return 1e6 * time.Hour })},
	{"asks in spite of no grace", "stop with no grace kills at once", grace(func(g time.Duration) time.Duration { return max(g, time.Hour) })},
	{"heeds the first Stop alone", "a second stop with less grace overtakes the first", func(d *twisted) {
		var once sync.Map
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			if _, again := once.LoadOrStore(h, true); again && !remove {
				return nil
			}
			return d.Driver.Stop(ctx, h, grace, remove)
		}
	}},
	{"is upset by a second Stop", "stop twice, and of what never was, is fine", func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			if m, _ := d.Driver.Status(ctx, h); len(m) == 0 || !m[0].State.Alive() {
				return errors.New("nothing to stop")
			}
			return d.Driver.Stop(ctx, h, grace, remove)
		}
	}},
	{"never removes", "stop with remove leaves nothing", func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, _ bool) error {
			return d.Driver.Stop(ctx, h, grace, false)
		}
	}},
	{"removes only what has ended", "stop with remove waits for agents that are still ending", func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			return d.Driver.Stop(ctx, h, grace, remove && grace == 0)
		}
	}},
	{"lists the living alone", "list names live and ended handles to any process", func(d *twisted) {
		d.list = func(ctx context.Context) ([]driver.Handle, error) {
			held, err := d.Driver.List(ctx)
			return slices.DeleteFunc(held, func(h driver.Handle) bool {
				m, _ := d.Driver.Status(ctx, h)
				return !m[0].State.Alive()
			}), err
		}
	}},
	{"gives handles that do not parse", "handles print and parse", func(d *twisted) {
		d.start = func(ctx context.Context, r driver.Request) (driver.Handle, error) {
			h, err := d.Driver.Start(ctx, r)
			h.Target = "mem:here"
			return h, err
		}
	}},
	{"looks where the target's name leads now", "a handle leads to the place that the target's name meant", func(d *twisted) {
		d.status = func(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
			o, _ := d.Driver.Offer(ctx, driver.Needs{})
			h.Detail = o.Detail
			return d.Driver.Status(ctx, h)
		}
	}},
	{"starts where the target's name leads now", "a handle leads to the place that the target's name meant", alter(func(r *driver.Request) { r.Needs.Detail = "" })},
	{"finds agents of all places in each", "a handle leads to the place that the target's name meant", func(d *twisted) {
		d.status = func(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
			h.Detail = "shelf:1"
			return d.Driver.Status(ctx, h)
		}
	}},
	{"ignores what is asked of machines", "what is asked of machines holds, or is refused", forget(func(n *driver.Needs) { n.Where = where.Expr{} })},
	{"takes what it does not know for true", "what is asked of machines holds, or is refused", forget(func(n *driver.Needs) {
		if len(n.Where.Names()) == 1 && n.Where.Names()[0] == where.Zone {
			n.Where = where.Expr{}
		}
	})},
	{"has on-demand machines alone, and sells spot", "spot capacity is had, or refused", forget(func(n *driver.Needs) { n.Spot = job.SpotAny })},
	{"has prices without a source", "a price can be looked up again", priced(func(p *driver.Price) { p.Source = "" })},
	{"has prices of no day", "a price can be looked up again", priced(func(p *driver.Price) { p.Day = "" })},
	{"has prices without a currency", "a price can be looked up again", priced(func(p *driver.Price) { p.Currency = "" })},
	{"sells spot at the price of on-demand machines", "a price can be looked up again", priced(func(p *driver.Price) { p.Spot = 0 })},
	{"passes over options that it has not", "options that no engine has are refused", forget(func(n *driver.Needs) { n.Args = nil })},
	{"fits everything", "an offer fits, or says why not", func(d *twisted) {
		d.offer = func(ctx context.Context, n driver.Needs) (driver.Offer, error) {
			return d.Driver.Offer(ctx, driver.Needs{})
		}
	}},
	{"works on when cancelled", "a cancelled context changes nothing", func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			return d.Driver.Stop(context.WithoutCancel(ctx), h, grace, remove)
		}
	}},
	{"keeps the secrets", "an agent has the environment and the secrets of its request", alter(func(r *driver.Request) {
		r.Run.Secrets = map[string]string{"OTHER": "env:PATH"}
	})},
	{"keeps the environment", "an agent has the environment and the secrets of its request", alter(func(r *driver.Request) {
		r.Run.Env = slices.DeleteFunc(slices.Clone(r.Run.Env), func(kv string) bool { return strings.HasPrefix(kv, drivertest.EnvName+"=") })
	})},
	{"calls a Stop an interruption", "an agent that is stopped is told that a person has asked, and how long it has", func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			if grace > 0 {
				d.Driver.Warn(h, 0, "stopped")
				return nil
			}
			return d.Driver.Stop(ctx, h, grace, remove)
		}
	}},
	{"calls an interruption a Stop", "an agent whose machine is about to go is told that it is an interruption", func(d *twisted) {
		d.warn = func(h driver.Handle, _ int) { d.Driver.Stop(context.Background(), h, time.Hour, false) }
	}},
	{"says nothing of why the machine goes", "an agent whose machine is about to go is told that it is an interruption", func(d *twisted) {
		d.warn = func(h driver.Handle, index int) { d.Driver.Warn(h, index, "") }
	}},
	{"calls an end without a word a good one", "an agent that ends without a word is not called done", edit(func(m *driver.Member) {
		if m.State == driver.Ended {
			m.Code = 0
		}
	})},
	{"starts again after a lost answer", "a start whose answer was lost can be asked for again", func(d *twisted) { d.start = startsAgain(d, true) }},
	{"leads to another agent", "a way in leads to the agent that runs", edit(func(m *driver.Member) {
		if n := len(m.Enter); n > 2 {
			m.Enter = slices.Clone(m.Enter)
			m.Enter[n-2] = "7"
		}
	})},
}

// alter changes what is started.
func alter(change func(*driver.Request)) func(*twisted) {
	return func(d *twisted) {
		d.start = func(ctx context.Context, r driver.Request) (driver.Handle, error) {
			change(&r)
			return d.Driver.Start(ctx, r)
		}
	}
}

// startsAgain starts an agent a second time if it is alive, or if it is not.
func startsAgain(d *twisted, alive bool) func(context.Context, driver.Request) (driver.Handle, error) {
	return func(ctx context.Context, r driver.Request) (driver.Handle, error) {
		h := driver.Handle{Target: mem.Name, Detail: r.Needs.Detail, Job: r.Job, Placement: r.Placement}
		if m, _ := d.Driver.Status(ctx, h); len(m) > 0 && m[0].State.Alive() == alive {
			s, _ := drivertest.ScriptOf(r.Run)
			s.Stay = false
			s.Act(ctx, drivertest.Agent{Placement: r.Placement, Given: &driver.Allocation{}, Environ: r.Run.Env, Log: io.Discard})
		}
		return d.Driver.Start(ctx, r)
	}
}

func meek(d *twisted) func(context.Context, driver.Request) (driver.Handle, error) {
	return func(ctx context.Context, r driver.Request) (driver.Handle, error) {
		h, err := d.Driver.Start(ctx, r)
		if fault.KindOf(err) == fault.Invalid {
			return driver.Handle{Target: mem.Name, Detail: r.Needs.Detail, Job: r.Job, Placement: r.Placement}, nil
		}
		return h, err
	}
}

func edit(change func(*driver.Member)) func(*twisted) {
	return func(d *twisted) {
		d.status = func(ctx context.Context, h driver.Handle) ([]driver.Member, error) {
			members, err := d.Driver.Status(ctx, h)
			for i := range members {
				change(&members[i])
			}
			return members, err
		}
	}
}

func rename(from, to driver.State) func(*driver.Member) {
	return func(m *driver.Member) {
		if m.State == from {
			m.State = to
		}
	}
}

func grace(change func(time.Duration) time.Duration) func(*twisted) {
	return func(d *twisted) {
		d.stop = func(ctx context.Context, h driver.Handle, grace time.Duration, remove bool) error {
			if remove {
				return d.Driver.Stop(ctx, h, grace, remove) // the suite's own clearing up
			}
			return d.Driver.Stop(ctx, h, change(grace), remove)
		}
	}
}

// mutantVariable names the mutant for which a copy of this program runs the suite.
const mutantVariable = "DROVER_MEM_MUTANT"

// TestMutant runs the suite against the mutant in the environment, if any.
func TestMutant(t *testing.T) {
	for _, m := range mutants {
		if m.name != os.Getenv(mutantVariable) {
			continue
		}
		p := memPlace
		p.Looks = 40
		p.Open = func(t *testing.T) func() driver.Driver {
			d := scripted(t)
			w := &twisted{Driver: d, offer: d.Offer, start: d.Start, status: d.Status, stop: d.Stop, list: d.List}
			m.twist(w)
			return func() driver.Driver { return w }
		}
		drivertest.Run(t, p)
	}
}

func TestEveryPromiseCatchesItsMutant(t *testing.T) {
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			t.Parallel()
			promise := strings.ReplaceAll(m.promise, " ", "_")
			cmd := exec.Command(os.Args[0], "-test.run=^TestMutant$/^"+regexp.QuoteMeta(promise)+"$", "-test.timeout=1m")
			cmd.Env = append(os.Environ(), mutantVariable+"="+m.name, "TMPDIR="+t.TempDir(), "GORACE=atexit_sleep_ms=0")
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), "--- FAIL: TestMutant/"+promise) {
				t.Errorf("the promise %q holds for it: %v\n%s", m.promise, err, out)
			}
		})
	}
}

// priced changes the price of each offer.
func priced(change func(*driver.Price)) func(*twisted) {
	return func(d *twisted) {
		d.offer = func(ctx context.Context, n driver.Needs) (driver.Offer, error) {
			o, err := d.Driver.Offer(ctx, n)
			change(&o.Price)
			return o, err
		}
	}
}

// forget has an offer pass over a part of what is needed.
func forget(part func(*driver.Needs)) func(*twisted) {
	return func(d *twisted) {
		d.offer = func(ctx context.Context, n driver.Needs) (driver.Offer, error) {
			part(&n)
			return d.Driver.Offer(ctx, n)
		}
	}
}
