package main

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/driver/docker"
	"github.com/drover-run/drover/driver/local"
	"github.com/drover-run/drover/driver/slurm"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent"
	"github.com/drover-run/drover/internal/host"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// runAgent is "drover agent", as a target starts it on a machine: it wires what
// this machine knows about itself into package agent, and gives the status that
// the target's engine acts on.
func runAgent(args []string) int {
	// First of all, or a SIGTERM that is on its way would end us (driver/local).
	terms := make(chan os.Signal, 8)
	signal.Notify(terms, syscall.SIGTERM, syscall.SIGINT)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	in, ended, err := adopt()
	if err != nil {
		log.Error("agent not started", "err", err)
		return fault.ExitDrover
	}
	code, err := work(args, in, terms, log)
	if err != nil {
		if code == fault.ExitUsage { // typed by hand
			fmt.Fprintf(os.Stderr, "drover: %v\n  %s\n", err, fault.Hint(err))
		} else {
			log.Error("agent ended", "err", err)
		}
		ended(code, err.Error())
		return code
	}
	ended(code, "")
	return code
}

// inside is what the driver that started this agent knows of its place: at most one of
// them is not nil.
type inside struct {
	docker *docker.Inside
	slurm  *slurm.Inside
	// left is how long the agent has once it was asked to stop; 0: its driver has not asked.
	left func() time.Duration
}

// adopt makes this process the agent that a driver started it as.
func adopt() (in inside, ended func(code int, reason string), err error) {
	if in.docker, ended, err = docker.Adopt(); in.docker != nil || err != nil {
		if in.docker != nil {
			in.left = in.docker.Left
		}
		return in, ended, err
	}
	if in.slurm, ended, err = slurm.Adopt(); in.slurm != nil || err != nil {
		return in, ended, err
	}
	ended, in.left, err = local.Adopt()
	return in, ended, err
}

// agentPatience is how long an agent looks for a store that it has never met. Who has
// placed it here has, so that it is mistyped is unlikely; and agents that give up
// within two minutes without a net, three times in a row, would end their job.
const agentPatience = 4 * time.Minute

func work(args []string, in inside, terms <-chan os.Signal, log *slog.Logger) (int, error) {
	f := flag.NewFlagSet("agent", flag.ContinueOnError)
	url := f.String("store", "", "")
	placement := f.Int("placement", 1, "")
	index := f.Int("index", 0, "")
	f.SetOutput(io.Discard) // the error says it
	if err := f.Parse(args); err != nil {
		return fault.ExitUsage, fault.Wrap(err, fault.Invalid, "Drover starts agents itself, for drover run and map; drover worker ls shows those of live jobs.", "start agent")
	}
	project, rest, ok := strings.Cut(f.Arg(0), "/")
	task, id, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 {
		return fault.ExitUsage, fault.New(fault.Invalid, "Drover starts agents itself, for drover run and map; drover worker ls shows those of live jobs.", "start agent: %q is not a job's path", f.Arg(0))
	}
	pass := ""
	if in.docker != nil {
		pass = in.docker.Pass
	}
	if in.slurm != nil {
		pass = in.slurm.Pass
	}
	b, at, err := openStore(context.Background(), *url, "", pass, agentPatience)
	if err != nil {
		return fault.ExitDrover, err
	}
	w := ledger.World{Store: store.New(b, store.Options{}), Rand: rand.Reader, Gone: drover.Gone}
	m, err := machine(in, terms, at)
	if err != nil {
		return fault.ExitDrover, err
	}
	m.OpenPlace = func(ctx context.Context, url string) (store.Bucket, error) {
		return openPlace(ctx, url, "", func(note string) { log.Info(note) })
	}
	return agent.Run(context.Background(), agent.Config{World: w, Path: job.Path{Project: project, Task: task, Job: id},
		Placement: *placement, Index: *index, Machine: m, Log: log})
}

// machine is what this machine knows about itself.
func machine(in inside, terms <-chan os.Signal, at reach) (agent.Machine, error) {
	d := dirs()
	if in.docker != nil {
		d.State, d.Cache = in.docker.State, in.docker.Cache
	}
	name, _ := os.Hostname()
	self, err := os.Executable()
	if err != nil {
		return agent.Machine{}, fault.Wrap(err, fault.Bug, "", "find this program")
	}
	net, err := host.LookNetwork()
	if err != nil {
		return agent.Machine{}, err
	}
	m := agent.Machine{Self: ledger.Host(proc.Self()), Name: name, CPUs: runtime.NumCPU(),
		Address: net.Address, Interface: net.Interface, Loopback: host.Loopback().Interface, Stack: net.Stack, Port: host.Port,
		Work: workFolder(d), Cache: d.Cache, Near: at != far, Shared: at == served, Environ: os.Environ(), Drover: self}
	shared := claims(d)
	m.Memory = shared.Memory
	if shared.CPUs > 0 { // a container may be held to fewer than the machine has
		m.CPUs = int(shared.CPUs)
	}
	if c := in.docker; c != nil {
		m.Root, m.Hosts, m.Secrets, m.Starved = c.Root, c.Hosts, c.Secrets, c.Starved
		if c.Claims != "" { // what the container may use counts for the program, what the machine has for its room
			shared = host.Room{Folder: c.Claims, CPUs: c.Cores, Memory: c.Memory}
		}
	}
	m.Room = room(shared, m.Environ)
	if in.slurm != nil {
		allocated(&m, in.slurm)
	}
	if in.docker == nil && in.slurm == nil { // the local driver's agents inherit the command line's
		m.Stdin = proc.LookStdin(os.Stdin)
		go m.Stdin.Watch() // for as long as the process lives: nobody waits
	}
	m.Traffic = host.Traffic
	m.Listeners = func(port int) (all []agent.Listener, err error) {
		found, err := host.Listeners(port)
		for _, l := range found {
			all = append(all, agent.Listener(l))
		}
		return all, err
	}
	m.GPUUse = func(ctx context.Context, pinned string) (all []record.GPUSample, err error) {
		use, err := host.GPUUse(ctx, m.Environ, pinned)
		for _, u := range use {
			all = append(all, record.GPUSample(u))
		}
		return all, err
	}
	if err := os.MkdirAll(m.Work, 0o700); err != nil {
		return m, fault.Wrap(err, fault.Denied, "Set XDG_STATE_HOME to a folder of yours.", "make folder %s", m.Work)
	}
	notice, struck := make(chan agent.Notice, 1), make(chan struct{})
	m.Notice = notice
	if in.slurm != nil {
		m.Struck = struck
	}
	sooner := make(chan struct{})
	m.Sooner = sooner
	go func() { // for as long as the process lives: nobody waits
		<-terms
		close(struck)
		n := agent.Notice{Asked: true, Why: "asked to stop"}
		if in.slurm != nil {
			n.Asked, n.Why = in.slurm.Notice()
			notice <- n
			return
		}
		n.Left = in.left()
		notice <- n
		for range terms {
			if in.left() < n.Left { // of several, one that asks for no sooner end changes nothing
				close(sooner)
				return
			}
		}
	}()
	return m, nil
}
