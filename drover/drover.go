// Package drover is the SDK: it runs the code you already have, here or
// elsewhere, and brings the results back.
//
//	c, err := drover.Open(ctx, drover.Options{Bucket: bucket, Drivers: drivers})
//	j, err := c.Run(ctx, job.Spec{Project: "demo", Program: "train.py"})
//	s, err := j.Wait(ctx)
//	got, err := j.Get(ctx, "out", drover.GetOptions{})
//
// Open a Client over a store and the targets' drivers, Run a job.Spec, then
// Watch, Logs, Wait, Stop and Get. All truth is in the store: a program may end
// at any moment and another one go on with the same job.
//
// It links no cloud's SDK: buckets and drivers are handed to it. The examples
// run, and are the manual.
package drover

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine"
	"github.com/drover-run/drover/internal/engine/gc"
	"github.com/drover-run/drover/internal/engine/programs"
	"github.com/drover-run/drover/internal/engine/session"
	"github.com/drover-run/drover/internal/image"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/internal/proc/private"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/stdin"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Options say where facts are kept and where jobs run.
type Options struct {
	Bucket  store.Bucket             // needed
	Drivers map[string]driver.Opened // needed: by the name in job.Spec.On
	// Targets are names of the caller's own for places to run, with limits.
	Targets map[string]job.Target
	// Project is the one of which a target may have a set-up, for Offer, Targets and Doctor, which have no job. May be "".
	Project string

	Binary string // the drover program that targets start as agents; default: this program
	// Programs are folders in which there may be the drover program for other systems, under the
	// name drover-linux-arm64; the folder of Binary is one of them in any case.
	Programs []string
	Folder   string   // relative paths in specs begin here; default: the working folder
	Environ  []string // what programs on this machine inherit; default: os.Environ()
	Cache    string   // drover's cache on this machine; default: the user's cache folder + /drover, else one in the temporary folder that is this user's alone
	Version  string   // recorded with each job
	// Streams are what this program prints into: a file that one of them leads to, also
	// through a pipe, is no code of a job. Default: os.Stdout and os.Stderr.
	Streams []*os.File
	// State is a folder to remember such files in, for later programs with the same
	// folder. Default: they are not remembered.
	State string
	// Again is the command that was typed, with one flag more, for hints to paste.
	// Default: hints name the flag.
	Again func(flag string) string
	// Stdin is what the program of a run with one node reads as its standard input, the open
	// file itself, where its agent lives beside this program. A run that could not have what
	// it holds is refused. Nil: nothing.
	Stdin *os.File
	// Terminal gives what such a program reads in the place of a terminal that Stdin is,
	// once its agent is asked for: with the terminal itself it would take what is typed for
	// others. Nil, or a nil file: nothing.
	Terminal func() *os.File
	// Near says that the store answers in microseconds, as a folder on this
	// machine does: it is then looked at more often.
	Near bool
	// Sockets are where agents of the job with this id serve their newest output on
	// this machine, as far as that is known without the store. Nil: the store is asked.
	Sockets func(id string) []string
	// Folders are the work folders of agents that have died on this machine, which
	// Leftovers looks at, and RemoveFolder takes one of them away. Nil: there are none.
	Folders      func() []WorkFolder
	RemoveFolder func(dir string) error
	// Images say where container images come from. Without a Build, jobs with a
	// Dockerfile are refused.
	Images Images
	// OpenPlace opens any bucket by its URL, for inputs such as s3://bucket/data, which are
	// listed here and read by the agents, as their machines may. Nil: those are refused.
	OpenPlace func(ctx context.Context, url string) (store.Bucket, error)
	// Passes say what agents open the store with that do not inherit what this
	// process has.
	Passes Passes
	// Policy is a document that grants rights on the store, for set-ups that make an identity for
	// agents: for S3 a policy of IAM. Nil: the store knows none.
	Policy func(store.Rights) (string, error)
}

// WorkFolder is the folder of an agent that died on this machine: what its program had
// written last may be there alone.
type WorkFolder struct {
	Dir   string
	Store string // as its store calls itself
	Job   job.Path
	Bytes int64
}

// Passes say what agents open the store with. The zero value is for a store that
// asks for no credentials.
type Passes struct {
	// Store is how agents name the store, where it is not as this process does.
	Store string
	// Machine is how agents name the store on machines that have credentials of their own;
	// nil: as Store says.
	Machine func() (string, error)
	// Make gives what agents with these rights open it with where they inherit
	// nothing of this process. images says that they see an image, and so none of
	// their machine's profiles. Nil: nothing is needed.
	Make func(ctx context.Context, r store.Rights, images bool) (Pass, error)
}

// Pass is what the agents of a task open the store with.
type Pass struct {
	File  []byte    // a secret, for a driver to hand over; nil: what their machine has
	Until time.Time // zero: it does not end
	Note  string    // for the plan, in half a line; "": nothing to say
}

// Images say where container images come from.
type Images struct {
	Region string // the region with the registry of SageMaker's images; "": us-east-1
	Mirror string // registry prefix that stands for it; "": none
	// Registry is the prefix to push images to that are built for targets that pull images and
	// name no registry themselves; "": there is none.
	Registry string
	// Pin looks up what an image that is to be built begins from, which is part of
	// its name. Nil: the plan's name may not be the one that Build gives.
	Pin func(ctx context.Context, o ImageOrder) error
	// Build makes an image where the targets of this machine find it, unless it is
	// there, and gives the name by which they do. Nil: nothing is built.
	Build func(ctx context.Context, o ImageOrder) (reference string, err error)
	// LookUp asks a registry for an image. That it has none is a fault of kind Missing. Nil:
	// no registry is asked.
	LookUp func(ctx context.Context, reference string) error
	// Entrypoint asks a registry for an image's ENTRYPOINT. Nil: no registry is asked.
	Entrypoint func(ctx context.Context, reference string) ([]string, error)
}

// ImageOrder is an image that is to be built for a job, by the builder that the drover program
// comes with: it knows the Dockerfile and the files that go along.
type ImageOrder interface {
	// Order returns the image's name, with its tag, and the digest of all that goes into it.
	Order() (reference, digest string)
}

// engineOptions are the options as the engine has them.
func (o Options) engineOptions() (p engine.Passes, i session.Images, folders func() []gc.WorkFolder) {
	p.Store, p.Machine = o.Passes.Store, o.Passes.Machine
	if make := o.Passes.Make; make != nil {
		p.Make = func(ctx context.Context, r store.Rights, images bool) (engine.Pass, error) {
			pass, err := make(ctx, r, images)
			return engine.Pass(pass), err
		}
	}
	i.Region, i.Mirror, i.Registry, i.LookUp, i.Entrypoint = o.Images.Region, o.Images.Mirror, o.Images.Registry, o.Images.LookUp, o.Images.Entrypoint
	if pin := o.Images.Pin; pin != nil {
		i.Pin = func(ctx context.Context, p *image.Plan) error { return pin(ctx, p) }
	}
	if build := o.Images.Build; build != nil {
		i.Build = func(ctx context.Context, p *image.Plan) (string, error) { return build(ctx, p) }
	}
	if find := o.Folders; find != nil {
		folders = func() (all []gc.WorkFolder) {
			for _, f := range find() {
				all = append(all, gc.WorkFolder(f))
			}
			return all
		}
	}
	return p, i, folders
}

// lanes is how many requests a reader of a job has under way at once: it reads the state
// of a thousand agents in two seconds instead of thirty, and asks far less than a store takes.
const lanes = 16

// Client acts on one store. Its methods may be called from many goroutines.
type Client struct {
	engine  *engine.Engine
	remover *gc.Remover
	world   protocol.World
	near    bool
	local   func(id string) []string
	policy  func(store.Rights) (string, error)
	project string

	probing sync.Mutex
	sound   bool // the store has passed its trial
}

// Open makes a client. It sends nothing; the store is probed before the first
// job is submitted; one that is not Near at most once a day.
func Open(_ context.Context, o Options) (*Client, error) {
	if o.Bucket == nil || len(o.Drivers) == 0 {
		return nil, fault.New(fault.Invalid, "Give drover.Options a Bucket and Drivers.", "open client: no store or no targets")
	}
	if err := o.setDefaults(); err != nil {
		return nil, err
	}
	s := store.New(o.Bucket, store.Options{})
	w := protocol.World{Store: s, Rand: rand.Reader, Gone: gone, Lanes: lanes}
	passes, images, folders := o.engineOptions()
	host, _ := os.Hostname()
	home, _ := os.UserHomeDir()
	e := engine.New(session.Session{World: w, Drivers: o.Drivers, Targets: o.Targets, Images: images, Near: o.Near, OpenPlace: o.OpenPlace,
		Programs: &programs.Finder{Self: o.Binary, Folders: o.Programs},
		Boot:     driver.Boot{Binary: o.Binary, Store: cmp.Or(o.Passes.Store, o.Bucket.String())},
		Caller: session.Caller{User: userName(), Host: host, Folder: o.Folder, Home: home, Environ: o.Environ,
			Cache: o.Cache, Version: o.Version, By: "cli-" + w.NewID(), Streams: o.Streams, State: o.State, Again: o.Again,
			Input: stdin.Inspect(o.Stdin), Terminal: o.Terminal}}, passes)
	remover := &gc.Remover{World: w, Drivers: o.Drivers, By: e.Caller.By, Cache: o.Cache, Folders: folders, Remove: o.RemoveFolder}
	if root := o.Bucket.String(); o.Near && filepath.IsAbs(root) {
		e.Boot.Folders = []string{root}
	}
	if o.Sockets == nil {
		o.Sockets = func(string) []string { return nil }
	}
	return &Client{engine: e, remover: remover, world: w, near: o.Near, local: o.Sockets, policy: o.Policy, project: o.Project}, nil
}

// MindStore calls away once the store has done nothing of what it is asked for least,
// with what came back last, and back when it answers again, with how long it was
// away; until ctx is done. What waits for the store goes on by itself.
func (c *Client) MindStore(ctx context.Context, least time.Duration, away func(length time.Duration, last error), back func(length time.Duration)) {
	c.world.Store.Mind(ctx, least, away, back)
}

func (o *Options) setDefaults() (err error) {
	if o.Binary == "" {
		if o.Binary, err = os.Executable(); err != nil {
			return fmt.Errorf("find this program: %w", err)
		}
	}
	if o.Folder == "" {
		if o.Folder, err = os.Getwd(); err != nil {
			return fault.Wrap(err, fault.Invalid, "Change to a folder that is there.", "find the working folder")
		}
	}
	if o.Streams == nil {
		o.Streams = []*os.File{os.Stdout, os.Stderr}
	}
	if o.Environ == nil {
		o.Environ = os.Environ()
	}
	if o.Cache == "" {
		base, err := os.UserCacheDir()
		if err != nil { // no HOME: another user may have made a folder of this name, to have its environments run
			base = filepath.Join(os.TempDir(), fmt.Sprintf("drover-%d", os.Geteuid()))
			if err := private.MakeFolder(base); err != nil {
				return fault.Wrap(err, fault.Denied, "Set HOME, or give drover.Options a Cache.", "open client: find a cache")
			}
		}
		o.Cache = filepath.Join(base, "drover")
	}
	return nil
}

// userName is the name of the user of this process, for people and for names of tasks.
func userName() string {
	if u := os.Getenv("USER"); u != "" {
		return u
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprint(os.Geteuid())
}

// gone tells whether the process of an agent on this machine has ended; known
// is false for agents elsewhere.
func gone(h protocol.Host) (gone, known bool) { return process.Identity(h).Gone() }

// Run plans and submits. The second-command rule applies: a live job of the same
// command is attached to, an interrupted one is gone on with, a named complete
// one is returned as it is.
func (c *Client) Run(ctx context.Context, spec job.Spec) (*Job, error) {
	p, err := c.Plan(ctx, spec, PlanOptions{})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	return p.Submit(ctx)
}

// Find resolves what people call a job: its task (the newest job), its id or the
// beginning of one, task#3, project/task, or last, which is the newest job of the
// whole store. project is the one that is meant for a task when none is said.
func (c *Client) Find(ctx context.Context, text, project string) (*Job, error) {
	ref, err := job.ParseRef(text)
	if err != nil {
		return nil, err
	}
	missing := fault.New(fault.Missing, "`drover status` lists what there is.", "find job: no job %q in %s", text, c.world.Store)
	if ref.Last {
		p, ok, err := views.FindNewest(ctx, c.world, "")
		if err == nil && !ok {
			err = fault.New(fault.Missing, "Start one: `drover run train.py`.", "find job: there are none yet in %s", c.world.Store)
		}
		return c.newJob(p), err
	}
	if ref.Project != "" {
		project = ref.Project
	}
	var t tasks.Task
	if project != "" {
		if t, err = tasks.ReadTask(ctx, c.world, job.Path{Project: project, Task: ref.Task}); err != nil {
			return nil, err
		}
	}
	// A task of that very name comes first: "cancel c" must not end another
	// project's job because its id begins with c.
	if ref.ID != "" && len(t.Jobs) == 0 {
		p, err := tasks.FindJob(ctx, c.world, ref.ID)
		if err == nil {
			return c.newJob(p), nil
		}
		if errors.Is(err, tasks.ErrAmbiguous) {
			return nil, fault.Wrap(err, fault.Invalid, "Type more of it; `drover status` shows the ids.", "find job: %q", text)
		}
		if !errors.Is(err, store.ErrNotExist) {
			return nil, err
		}
	}
	n := len(t.Jobs)
	if ref.Nth > 0 {
		n = ref.Nth
	}
	if n == 0 || n > len(t.Jobs) {
		return nil, missing
	}
	return c.newJob(job.Path{Project: project, Task: ref.Task, Job: t.Jobs[n-1].Job}), nil
}

// Jobs lists the jobs of a project, oldest first; of all projects when it is "". Short ids
// that cannot be read are an *Unreadable beside the others.
func (c *Client) Jobs(ctx context.Context, project string) ([]*Job, error) {
	catalog := tasks.NewCatalog(c.world, project)
	paths, err := catalog.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	jobs := make([]*Job, len(paths))
	for i, p := range paths {
		jobs[i] = c.newJob(p)
	}
	return jobs, (&Unreadable{Jobs: catalog.Unreadable()}).OrNil()
}

// pollInterval is how often a live job is read.
func (c *Client) pollInterval() time.Duration { return c.engine.PollInterval() }

func (c *Client) newJob(p job.Path) *Job {
	r := jobRef{c: c, path: p}
	return &Job{jobRef: r, jobOutput: jobOutput{r}, jobResults: jobResults{r}}
}
