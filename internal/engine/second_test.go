package engine

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/verify"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
	"github.com/drover-run/drover/report"
)

// typed are other values of all options that a second command may have otherwise, by the
// names of Spec's fields. A field that is missing fails TestTheJobIsWhatThePlanSays.
var typed = map[string]func(*job.Spec){
	"Env":        func(s *job.Spec) { s.Env = map[string]string{"A": "2"} },
	"Secrets":    func(s *job.Spec) { s.Secrets = map[string]string{"K": "env:HOME"} },
	"Python":     func(s *job.Spec) { s.Python = "python3" },
	"NoEnv":      func(s *job.Spec) { s.NoEnv = true },
	"Packages":   func(s *job.Spec) { s.Packages = true },
	"GPUs":       func(s *job.Spec) { s.GPUs = 1 },
	"Machine":    func(s *job.Spec) { s.Machine = "ml.m5.large" },
	"NoMounts":   func(s *job.Spec) { s.NoMounts = true },
	"Image":      func(s *job.Spec) { s.Image = "b:2" },
	"Dockerfile": func(s *job.Spec) { s.Dockerfile = "FROM __BASE_IMAGE__\nRUN true" },
	"Framework":  func(s *job.Spec) { s.Image, s.Framework = "", "pytorch:2.8.0:py312" },
	"Shm":        func(s *job.Spec) { s.Shm = 1 << 30 },
	"Mounts":     func(s *job.Spec) { s.Mounts = []string{"/tmp:/d"} },
	"On":         func(s *job.Spec) { s.On = "else" },
	"TargetArgs": func(s *job.Spec) { s.TargetArgs = map[string][]string{"slurm": {"--qos=x"}} },
	"Where":      func(s *job.Spec) { s.Where = "cpus >= 2" },
	"StdinOf":    func(s *job.Spec) { s.StdinOf = "pipe:2" },
	"Metrics":    func(s *job.Spec) { s.Metrics = []job.Metric{{Name: "loss", Regex: "l=([0-9]+)"}} },

	"CPUs":        func(s *job.Spec) { s.CPUs = 2 },
	"Memory":      func(s *job.Spec) { s.Memory = 1 << 30 },
	"Disk":        func(s *job.Spec) { s.Disk = 1 << 30 },
	"Processes":   func(s *job.Spec) { s.Processes = 7 },
	"Timeout":     func(s *job.Spec) { s.Timeout = job.Duration(time.Hour) },
	"Grace":       func(s *job.Spec) { s.Grace = job.Duration(time.Minute) },
	"StopSignal":  func(s *job.Spec) { s.StopSignal = "SIGUSR1" },
	"Retries":     func(s *job.Spec) { s.Retries = 4 },
	"ItemTimeout": func(s *job.Spec) { s.ItemTimeout = job.Duration(time.Hour) },
	"RetryOn":     func(s *job.Spec) { s.RetryOn = job.RetryOn{"OOM"} },
	"MemoryStep":  func(s *job.Spec) { s.MemoryStep = 2 },
	"MaxFails":    func(s *job.Spec) { s.MaxFails = "3" },
	"Workers":     func(s *job.Spec) { s.Workers = 2 },
	"Slots":       func(s *job.Spec) { s.Slots = 3 },
	"Spot":        func(s *job.Spec) { s.Spot = job.SpotNever },
	"KeepWarm":    func(s *job.Spec) { s.KeepWarm = job.Duration(time.Minute) },

	"Queue":    func(s *job.Spec) { s.Queue = "night" },
	"Priority": func(s *job.Spec) { s.Priority = 7 },
	"Now":      func(s *job.Spec) { s.Now = true },
	"Tags":     func(s *job.Spec) { s.Tags = map[string]string{"a": "b"} },

	"CleanState": func(s *job.Spec) { s.CleanState = true },
}

// ofMaps are options of maps alone, ofRuns of runs alone.
var (
	ofMaps = map[string]bool{"ItemTimeout": true, "RetryOn": true, "MemoryStep": true, "MaxFails": true, "Workers": true, "Slots": true}
	ofRuns = map[string]bool{"Timeout": true, "CleanState": true, "NoMounts": true, "Metrics": true, "StdinOf": true}
)

// begun is the command that is there already.
func begun(verb job.Verb) job.Spec {
	s := spec(func(s *job.Spec) { s.Env, s.Image = map[string]string{"A": "1"}, "a:1" })
	if verb == job.Map {
		s.Verb, s.From, s.Args = job.Map, "1-4", []string{"{}"}
		s.Retries, s.Memory = 1, 200<<20
	}
	return s
}

// mapInterrupted: an agent was there, and has left.
func mapInterrupted(d *desk, p job.Path) {
	d.check(liveness.WriteHeartbeat(d.t.Context(), d.World, p, protocol.Heartbeat{Agent: "1-0-x", Phase: protocol.Left}))
}

// bound is the spec that binds what a job runs from now on.
func (d *desk) bound(p job.Path) job.Spec {
	j := d.load(p)
	if j.Spec.Verb != job.Map {
		return j.Spec
	}
	m, err := chunks.ReadMap(d.t.Context(), d.World, j)
	d.check(err)
	return m.Bound()
}

func optionOf(s job.Spec, name string) any { return reflect.ValueOf(s).FieldByName(name).Interface() }

// For every option: what a plan says of it is what the job has that runs, and that is what
// was typed, or the command is refused and says which option it is.
func TestTheJobIsWhatThePlanSays(t *testing.T) {
	for _, f := range option.Fields() {
		switch f.Class {
		case option.ClassCommand:
			continue
		case option.ClassOnce:
			if f.Name != "CleanState" {
				continue
			}
		}
		change, ok := typed[f.Name]
		if !ok {
			t.Errorf("no other value of option %s is given here: what a second command does with it is not tested", f.Name)
			continue
		}
		for _, verb := range []job.Verb{job.Run, job.Map} {
			if verb == job.Run && ofMaps[f.Name] || verb == job.Map && ofRuns[f.Name] {
				continue
			}
			for name, state := range map[string]func(*desk, job.Path){"live": pending, "interrupted": map[job.Verb]func(*desk, job.Path){job.Run: interrupted, job.Map: mapInterrupted}[verb],
				"failed": map[job.Verb]func(*desk, job.Path){job.Run: failed, job.Map: cancelled}[verb], "complete": succeeded} {
				if verb == job.Map && name == "complete" {
					continue // its items would need agents: map_runs_with_the_settings_that_were_typed.txt
				}
				for _, byName := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/%s/named=%v", f.Name, verb, name, byName), func(t *testing.T) {
						t.Parallel()
						second(t, f, verb, name, byName, state, change)
					})
				}
			}
		}
	}
}

// withGPUs is a place that has as many GPUs as are asked for.
type withGPUs struct{ *mem.Driver }

func (d withGPUs) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	n.GPUs = 0
	return d.Driver.Offer(ctx, n)
}

func second(t *testing.T, f option.Field, verb job.Verb, name string, byName bool, state func(*desk, job.Path), change func(*job.Spec)) {
	d := newDesk(t)
	d.Drivers[mem.Name] = mem.Contained(d.mem)
	d.Drivers = map[string]driver.Opened{"mem": mem.Contained(withGPUs{d.mem}), "else": mem.Contained(withGPUs{d.mem})}
	d.Images.Build = func(_ context.Context, p *image.Plan) (string, error) { return p.Reference, nil }
	s := begun(verb)
	if byName {
		named(&s)
	}
	first := d.submit(s)
	state(d, first)
	change(&s)
	p, err := d.Plan(t.Context(), s, false)
	if err != nil {
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "drover") || !strings.Contains(err.Error(), words(f.Name)) {
			t.Fatalf("refused: %v (%s)", err, fault.Hint(err))
		}
		fixedMap := verb == job.Map && name == "interrupted" && (differ{options: []option.Difference{{Name: f.Name}}}).targetHasChanged()
		if live := name == "live" && (byName || verb == job.Map && f.Class != option.ClassSetting); !live && !fixedMap {
			t.Fatalf("refused: %v", err)
		}
		return
	}
	normal := p.Spec
	path, err := d.Submit(t.Context(), &p)
	d.check(err)
	is := d.bound(path)
	if got, want := optionOf(is, f.Name), optionOf(p.Spec, f.Name); !reflect.DeepEqual(got, want) {
		t.Errorf("the plan (%s) says %v, and the job has %v", p.Action, want, got)
	}
	skips := name == "complete" && byName && f.Class == option.ClassLabel
	if skips != (p.Action == report.ActionSkip) {
		t.Errorf("it would %s: %s", p.Action, p.Note)
	}
	if want := (&normal); !skips {
		typed := s
		if full, err := typed.Normal(); err == nil && !reflect.DeepEqual(optionOf(*want, f.Name), optionOf(full, f.Name)) {
			t.Errorf("typed was %v, and the plan says %v", optionOf(full, f.Name), optionOf(*want, f.Name))
		}
	}
	if name == "live" && (path == first || path.Task == first.Task || !strings.Contains(p.Note, "another job beside it")) {
		t.Errorf("it is job %s beside %s: %s", path, first, p.Note)
	}
	if verb == job.Map && name != "live" && path != first && !(differ{options: []option.Difference{{Name: f.Name}}}).targetHasChanged() {
		t.Errorf("results of %s are lost: it would %s: %s", first, p.Action, p.Note)
	}
	if name != "live" && !skips && !strings.Contains(p.Note, words(f.Name)) && !(name == "complete" && !byName) {
		t.Errorf("nothing is said of what changed: %q", p.Note)
	}
	// The same again is no other command.
	again, err := d.Plan(t.Context(), s, false)
	d.check(err)
	if name == "live" && again.Action != report.ActionAttach || again.Spec.Task != path.Task {
		t.Errorf("typed once more it would %s of task %s: %s", again.Action, again.Spec.Task, again.Note)
	}
	for _, one := range []job.Path{first, path} {
		if r, err := verify.Verify(t.Context(), d.World.Store, one, nil); err != nil || len(r.Findings) > 0 {
			t.Errorf("verify of %s: %v %v", one, r.Findings, err)
		}
	}
}

// words is a part of what a note says of an option.
func words(name string) string {
	s := begun(job.Run)
	o := s
	typed[name](&s)
	all := option.Differences(s, o)
	text, _, _ := strings.Cut(all[len(all)-1].String(), " (")
	return text
}

// for SEED in 1 2 3; do SEED=$SEED drover run train.sh & done: three jobs, however they
// race, and each of them once though it is typed twice.
func TestCommandsWithOtherVariablesAreOtherJobs(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	seeds := []string{"1", "2", "3", "1", "2", "3"}
	paths, plans, errs := make([]job.Path, len(seeds)), make([]Plan, len(seeds)), make([]error, len(seeds))
	var all sync.WaitGroup
	for i, seed := range seeds {
		e := d.with(fmt.Sprintf("cli-%d", i), "SEED="+seed, fmt.Sprintf("WINDOWID=%d", i), "PATH=/bin")
		all.Go(func() {
			if plans[i], errs[i] = e.Plan(t.Context(), spec(), false); errs[i] == nil {
				paths[i], errs[i] = e.Submit(t.Context(), &plans[i])
			}
		})
	}
	all.Wait()
	of := map[string]job.Path{}
	for i, seed := range seeds {
		d.check(errs[i])
		if of[seed] == (job.Path{}) {
			of[seed] = paths[i]
		}
		if paths[i] != of[seed] {
			t.Errorf("seed %s is job %s and job %s", seed, paths[i], of[seed])
		}
	}
	jobs, err := views.ListJobs(t.Context(), d.World, "")
	if d.check(err); len(jobs) != 3 || of["1"] == of["2"] || of["2"] == of["3"] {
		t.Errorf("%d jobs: %v", len(jobs), of)
	}
	text := ""
	for o, err := range d.World.Store.List(t.Context(), "demo/") {
		d.check(err)
		b, err := d.World.Store.Get(t.Context(), o.Key)
		d.check(err)
		text += string(b)
	}
	if !strings.Contains(text, `"SEED":"`) || strings.Contains(text, `"SEED":"2"`) || strings.Contains(text, "WINDOWID") {
		t.Error("the variables are not kept as digests")
	}
	// Interrupted, each goes on as what it was.
	for seed, p := range of {
		interrupted(d, p)
		plan, err := d.with("cli-again", "SEED="+seed, "PATH=/bin").Plan(t.Context(), spec(), false)
		if d.check(err); plan.Action != report.ActionResume || plan.Job != p || strings.Contains(plan.Note, "SEED") {
			t.Errorf("seed %s: it would %s %s: %s", seed, plan.Action, plan.Job, plan.Note)
		}
	}
}

// with is a command line with an environment of its own.
func (d *desk) with(by string, environ ...string) *Engine {
	c := *d.Session
	c.Caller.By, c.Caller.Environ = by, environ
	return New(c, d.Passes)
}

func TestVariablesThatAProgramInherits(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name        string
		was, is     []string
		change      func(*job.Spec) // of the second command
		differ      string          // what is said of it; "": nothing differs
		interrupted string
	}{
		{"another seed", []string{"SEED=1"}, []string{"SEED=2"}, nil, "variable SEED", "variable SEED as here"},
		{"a new one", nil, []string{"CUDA_VISIBLE_DEVICES=1"}, nil, "variable CUDA_VISIBLE_DEVICES", "variable CUDA_VISIBLE_DEVICES as here"},
		{"one less", []string{"A=1", "B=1"}, []string{"A=1"}, nil, "variable B", "variable B as here"},
		{"a member of an array", []string{"SLURM_ARRAY_TASK_ID=1"}, []string{"SLURM_ARRAY_TASK_ID=2"}, nil, "variable SLURM_ARRAY_TASK_ID", "as here"},
		{"another terminal", []string{"SHLVL=1", "SSH_TTY=/dev/pts/1", "TERM=xterm", "COLUMNS=80", "XDG_SESSION_ID=3"}, []string{"SHLVL=2", "TERM=dumb", "_=/bin/x", "TMUX_PANE=%1"}, nil, "", ""},
		{"another token", []string{"GITLAB_TOKEN=glpat-aaaaaaaaaaaaaaaaaaaa"}, []string{"GITLAB_TOKEN=glpat-bbbbbbbbbbbbbbbbbbbb"}, nil, "", ""},
		{"one that --env has", []string{"A=1"}, []string{"A=2"}, func(s *job.Spec) { s.Env = map[string]string{"A": "0"} }, "variable A", "variable A changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			d := newDesk(t)
			e := d.with("cli-1", row.was...)
			p, err := e.Plan(t.Context(), spec(named), false)
			d.check(err)
			path, err := e.Submit(t.Context(), &p)
			d.check(err)
			s := spec(named)
			if row.change != nil {
				row.change(&s)
			}
			other := d.with("cli-2", row.is...)
			p, err = other.Plan(t.Context(), s, false)
			if row.differ == "" {
				if d.check(err); p.Action != report.ActionAttach {
					t.Errorf("it would %s: %s", p.Action, p.Note)
				}
			} else if err == nil || !strings.Contains(err.Error(), "is live with other settings: "+row.differ) || fault.Hint(err) == "" {
				t.Errorf("live: %v", err)
			}
			// Elsewhere these are another machine's variables.
			far := d.with("cli-3", row.is...)
			far.Caller.Cache = t.TempDir()
			if row.change == nil {
				if p, err = far.Plan(t.Context(), s, false); err != nil || p.Action != report.ActionAttach {
					t.Errorf("from elsewhere it would %s: %v", p.Action, err)
				}
			}
			interrupted(d, path)
			p, err = other.Plan(t.Context(), s, false)
			if d.check(err); !strings.Contains(p.Note, row.interrupted) || row.interrupted == "" && strings.Contains(p.Note, "variable") {
				t.Errorf("interrupted: it would %s: %s", p.Action, p.Note)
			}
			if row.change != nil || row.differ == "" {
				return
			}
			// Its new agents inherit ours, and then it is ours that are compared.
			_, err = other.Attend(t.Context(), path)
			d.check(err)
			if p, err = other.Plan(t.Context(), s, false); err != nil || p.Action != report.ActionSkip {
				t.Errorf("complete, from the shell that went on with it: it would %s: %s, %v", p.Action, p.Note, err)
			}
			if p, err = e.Plan(t.Context(), s, false); err != nil || p.Action != report.ActionStart || !strings.Contains(p.Note, "running again: "+row.differ+" changed since job ") {
				t.Errorf("complete, from the first shell: it would %s: %s, %v", p.Action, p.Note, err)
			}
		})
	}
}

// A project that is named by nothing but the folder it is in is another one in another
// folder, where a task's name alone would give it the state of that.
func TestATaskOfAnotherFolder(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	one, other := t.TempDir(), t.TempDir()
	at := func(dir, host string) *Engine {
		c := *d.Session
		c.Caller.Folder, c.Caller.Host = dir, host
		return New(c, d.Passes)
	}
	for _, dir := range []string{one, other} {
		here := desk{t: d.t}
		here.dir = dir
		here.write(map[string]string{"train.sh": "#!/bin/sh\necho hello\n"})
	}
	of := func(dir string) job.Spec { return spec(named, func(s *job.Spec) { s.ProjectOf = dir }) }
	p, err := at(one, "desk").Plan(t.Context(), of(one), false)
	d.check(err)
	path, err := at(one, "desk").Submit(t.Context(), &p)
	d.check(err)
	succeeded(d, path)
	_, err = at(other, "desk").Plan(t.Context(), of(other), false)
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), "it was begun in "+one+", and this is "+other) || !strings.Contains(fault.Hint(err), "-p demo") {
		t.Errorf("%v (%s)", err, fault.Hint(err))
	}
	for name, plan := range map[string]func() (Plan, error){
		"there":              func() (Plan, error) { return at(one, "desk").Plan(t.Context(), of(one), false) },
		"with -p":            func() (Plan, error) { return at(other, "desk").Plan(t.Context(), of(""), false) },
		"on another machine": func() (Plan, error) { return at(other, "elsewhere").Plan(t.Context(), of(other), false) },
	} {
		if p, err := plan(); err != nil || p.Job != path {
			t.Errorf("%s: it would %s: %v", name, p.Action, err)
		}
	}
	unnamed := of(other)
	unnamed.Task, unnamed.Named = "", false
	if p, err := at(other, "desk").Plan(t.Context(), unnamed, false); err != nil || p.Action != report.ActionStart {
		t.Errorf("a task without a name: it would %s: %v", p.Action, err)
	}
}
