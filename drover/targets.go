package drover

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// TargetStatus is a target as it stands now.
type TargetStatus struct {
	Name    string      `json:"name"`
	Named   *job.Target `json:"named,omitempty"` // nil: it is built in
	OK      bool        `json:"ok"`              // it can be used
	Text    string      `json:"text"`            // what it has, or in one line why it cannot be used
	Fix     string      `json:"fix,omitempty"`   // what to do about that
	Missing []string    `json:"missing,omitempty"`
}

// Targets asks every target whether it can be used: the built-in ones, then those that
// were named, each in the order of their names.
func (c *Client) Targets(ctx context.Context) []TargetStatus {
	names := c.targetNames()
	list := make([]TargetStatus, len(names))
	driver.AskAll(ctx, len(names), func(ctx context.Context, i int) {
		list[i] = c.askTarget(ctx, names[i])
		if t, named := c.engine.Targets[names[i]]; named && i >= len(c.engine.Drivers) {
			list[i].Named = &t
		}
	})
	return list
}

// targetNames are those of all targets, the built-in ones first.
func (c *Client) targetNames() []string {
	return slices.Concat(slices.Sorted(maps.Keys(c.engine.Drivers)), slices.Sorted(maps.Keys(c.engine.Targets)))
}

func (c *Client) askTarget(ctx context.Context, name string) TargetStatus {
	s := TargetStatus{Name: name}
	o, err := c.Offer(ctx, name, driver.Needs{Agents: 1, Place: driver.Place{Later: true}})
	switch {
	case err != nil:
		s.Text, s.Fix = err.Error(), fault.Hint(err)
	case !o.Fits:
		s.Text, s.Fix, s.Missing = o.Reason, o.Hint, o.Missing
	default:
		s.OK, s.Text = true, o.Machine
	}
	return s
}

// Offer asks a target, built in or named, whether what is needed fits there.
func (c *Client) Offer(ctx context.Context, target string, n driver.Needs) (driver.Offer, error) {
	on, args := target, []string(nil)
	if t, ok := c.engine.Targets[target]; ok {
		on, args = t.On, t.Args
	}
	d, err := c.engine.Driver(on)
	if err != nil {
		return driver.Offer{}, err
	}
	_, n.Detail = job.SplitTarget(on)
	n.Args = slices.Concat(args, n.Args)
	if n.Labels == nil {
		n.Labels = map[string]string{"project": c.project}
	}
	return d.Offer(ctx, n)
}

// Choice is a kind of machine that a target has.
type Choice struct {
	Target  string  `json:"target"`
	Detail  string  `json:"detail,omitempty"` // what stands after --on TARGET/
	Default bool    `json:"default,omitempty"`
	Fits    bool    `json:"fits"`
	Machine string  `json:"machine"`
	Free    int     `json:"free"` // agents with these needs that could begin now; -1: not known
	All     int     `json:"all"`  // and if nothing else ran; -1: not known
	Time    float64 `json:"time_limit_seconds,omitempty"`
	Price   *Price  `json:"price,omitempty"` // nil: it costs nothing, or its price is not known
	Spot    bool    `json:"spot,omitempty"`  // it would run on spot capacity
	Reason  string  `json:"reason,omitempty"`
	Fix     string  `json:"fix,omitempty"`
}

// Price is what an agent costs for each hour that its machine is kept for it.
type Price struct {
	OnDemand float64 `json:"on_demand,omitempty"`
	Spot     float64 `json:"spot,omitempty"` // 0: there is no spot capacity, or its price is not known
	Currency string  `json:"currency"`
	Source   string  `json:"source"`
	Day      string  `json:"day"` // on which the source said so
}

// Price is what each agent of a plan costs; nil: nothing, or it is not known.
func (p *Plan) Price() *Price { return priceOfAgent(p.Offer.Price) }

func priceOfAgent(p driver.Price) *Price {
	if !p.Known() {
		return nil
	}
	return &Price{OnDemand: p.OnDemand, Spot: p.Spot, Currency: p.Currency, Source: p.Source, Day: p.Day}
}

// Offers are what targets have for what is needed: of one, or with "" of all.
// One that cannot be asked is a choice that does not fit, and why.
func (c *Client) Offers(ctx context.Context, target string, n driver.Needs) ([]Choice, error) {
	names := []string{target}
	if target == "" {
		names = c.targetNames()
	} else if _, named := c.engine.Targets[target]; !named {
		if _, err := c.engine.Driver(target); err != nil {
			return nil, err
		}
	}
	offers, errs := make([]driver.Offer, len(names)), make([]error, len(names))
	driver.AskAll(ctx, len(names), func(ctx context.Context, i int) { offers[i], errs[i] = c.Offer(ctx, names[i], n) })
	var list []Choice
	for i, name := range names {
		switch o, err := offers[i], errs[i]; {
		case err != nil && target != "":
			return nil, err
		case err != nil:
			list = append(list, Choice{Target: name, Free: -1, All: -1, Reason: err.Error(), Fix: fault.Hint(err)})
		default:
			if detail := c.offeredDetail(name); detail != "" { // it has made its choice
				o.Choices = slices.DeleteFunc(o.Choices, func(c driver.Choice) bool { return c.Detail != detail })
			}
			list = append(list, choices(name, o)...)
		}
	}
	return list, nil
}

// offeredDetail is the kind of machine that a target's name stands for; "" if it is left open.
func (c *Client) offeredDetail(name string) string {
	if t, ok := c.engine.Targets[name]; ok {
		name = t.On
	}
	_, detail, _ := strings.Cut(name, "/")
	return detail
}

func choices(name string, o driver.Offer) (list []Choice) {
	one := Choice{Target: name, Fits: o.Fits, Default: true, Machine: o.Machine, Free: -1, All: -1, Price: priceOfAgent(o.Price), Spot: o.Spot, Reason: o.Reason, Fix: o.Hint}
	if len(o.Choices) == 0 {
		return []Choice{one}
	}
	for _, c := range o.Choices {
		at := one
		at.Detail, at.Default, at.Machine, at.Free, at.All, at.Time, at.Reason, at.Fix = c.Detail, c.Default, c.Machine, c.Free, c.All, c.Time.Seconds(), c.Reason, ""
		at.Fits = c.All > 0 && c.Reason == ""
		if c.Price.Known() {
			at.Price = priceOfAgent(c.Price)
		}
		list = append(list, at)
	}
	return list
}

// Step is a part of TestTarget that has ended.
type Step struct {
	What string        `json:"what"`
	Took time.Duration `json:"took_ns"`
	Err  error         `json:"-"`
	Text string        `json:"text,omitempty"` // what was found, or why it did not go
}

// TestTarget tries a target out: it asks for its offer, runs one agent there that does
// nothing, waits for its end, and takes all of it away again, also after a failure. Its job is one of the project, of
// which the target may have a set-up.
// told hears of each step when it has ended. The error is the first step's that failed.
func (c *Client) TestTarget(ctx context.Context, target, project string, told func(Step)) (err error) {
	clock := c.world.Store.Clock()
	step := func(what string, do func() (string, error)) {
		if err != nil {
			return
		}
		begin := clock.Boot()
		text := ""
		text, err = do()
		if err != nil {
			text = err.Error()
		}
		told(Step{What: what, Took: clock.Boot() - begin, Err: err, Text: text})
	}
	folder, err := os.MkdirTemp("", "drover-test-")
	if err != nil {
		return fault.Wrap(err, fault.Full, "", "test target %s", target)
	}
	defer os.RemoveAll(folder)
	spec := job.Spec{Project: project, Task: "t" + c.world.NewID(), Named: true, Verb: job.Shell, Program: "true", Source: folder, On: target, NoEnv: true}
	var plan *Plan
	var j *Job
	step("offer", func() (string, error) {
		plan, err = c.Plan(ctx, spec, PlanOptions{})
		if err != nil {
			return "", err
		}
		return plan.Offer.Machine, nil
	})
	step("submit", func() (string, error) {
		j, err = plan.Submit(ctx)
		return c.world.Store.String(), err
	})
	if j != nil {
		defer func() {
			left := context.WithoutCancel(ctx)
			if ctx.Err() != nil || err != nil {
				_, _ = j.Stop(left, "the test of target "+target+" ended early")
			}
			tidy := func() (string, error) { return "", c.removeTestJob(left, j) }
			if failed := err; failed != nil {
				err = nil
				step("clean up", tidy)
				err = failed
				return
			}
			step("clean up", tidy)
		}()
	}
	step("agent", func() (string, error) { return "it is up", c.waitUntilUp(ctx, j) })
	step("job", func() (string, error) {
		s, err := j.Wait(ctx)
		if err == nil && s.State != job.Succeeded {
			err = fault.New(fault.Lost, "Its output: `drover logs "+s.ID+"`.", "test target %s: the job ended %s: %s", target, s.State, s.Reason)
		}
		return "the command true exited with status 0", err
	})
	return err
}

// waitUntilUp has an agent asked for, and waits for its first word.
func (c *Client) waitUntilUp(ctx context.Context, j *Job) error {
	if err := j.Start(ctx); err != nil {
		return err
	}
	for {
		rep, err := j.readReport(ctx)
		if err != nil || len(rep.Heartbeats) > 0 || rep.Run.Settled != nil {
			return err
		}
		if err := c.world.Store.Clock().Sleep(ctx, c.pollInterval()); err != nil {
			return err
		}
	}
}

// removeTestJob takes a job and all that was kept for it away.
func (c *Client) removeTestJob(ctx context.Context, j *Job) error {
	if err := c.engine.Clean(ctx, j.path); err != nil {
		return err
	}
	g, err := c.Leftovers(ctx, GCOptions{Project: j.path.Project, Jobs: []*Job{j}})
	if err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	_, err = g.Collect(ctx)
	return err
}
