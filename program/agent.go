package program

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/host"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/private"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/stdin"
	"github.com/drover-run/drover/internal/record/metric"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// runAgent is "drover agent", as a target starts it on a machine: it gives package agent what
// this machine knows about itself, and returns the status that the target's engine acts on.
func (p *program) runAgent(args []string) int {
	// First of all, or a SIGTERM that is on its way would end this process (driver/local).
	terms := make(chan os.Signal, 8)
	signal.Notify(terms, syscall.SIGTERM, syscall.SIGINT)
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	said, badArgs := driver.ParseAgentArgs(args)
	// Also with bad arguments: a process that an engine has started, to supervise an agent, may
	// have none.
	given, err := driver.Adopt(p.targets, driver.AgentProcess{Args: said, Open: func(ctx context.Context, credential string) (*store.Store, error) {
		b, _, err := openStore(ctx, said.Store, "", credential, agentPatience)
		return store.New(b, store.Options{}), err
	}})
	if err != nil {
		log.Error("agent not started", "err", err)
		return fault.ExitDrover
	}
	path, ok := job.ParsePath(said.Job)
	if badArgs == nil && !ok {
		badArgs = fault.New(fault.Invalid, "Drover starts agents itself, for `drover run` and map; `drover worker ls` shows those of live jobs.", "start agent: %q is not a job's path", said.Job)
	}
	if badArgs != nil { // typed by hand
		fmt.Fprintf(os.Stderr, "drover: %v\n  %s\n", badArgs, fault.Hint(badArgs))
		given.Ended(fault.ExitUsage, badArgs.Error())
		return fault.ExitUsage
	}
	code, err := p.runAgentProcess(said, path, given, terms, log)
	if err != nil {
		log.Error("agent ended", "err", err)
		given.Ended(code, err.Error())
		return code
	}
	given.Ended(code, "")
	return code
}

// agentPatience is how long an agent tries to reach a store that it has never reached. The
// submitter has reached it, so a mistyped address is unlikely; and agents that gave up within
// minutes without a network, three times in a row, would end their job. On a machine that is
// paid for, nothing else ends such an agent.
const agentPatience = 15 * time.Minute

func (p *program) runAgentProcess(said driver.AgentArgs, path job.Path, given *driver.Allocation, terms <-chan os.Signal, log *slog.Logger) (int, error) {
	b, at, err := openStore(context.Background(), said.Store, "", given.Credential, agentPatience)
	if err != nil {
		return fault.ExitDrover, err
	}
	w := protocol.World{Store: store.New(b, store.Options{}), Rand: rand.Reader, Gone: gone}
	m, err := p.agentMachine(given, terms, at)
	if err != nil {
		return fault.ExitDrover, err
	}
	go watchReach(context.Background(), w.Store, given.Credential, func(code int, why string) { // for as long as the process lives
		log.Error("agent ended", "err", why)
		given.Ended(code, why)
		os.Exit(code) // the supervisor of a program that runs ends its tree
	})
	m.OpenPlace = func(ctx context.Context, url string) (store.Bucket, error) {
		return openPlace(ctx, url, "", func(note string) { log.Info(note) })
	}
	return agent.Run(context.Background(), node.Config{World: w, Path: path,
		Placement: said.Placement, Index: said.Index, Machine: m, Log: log})
}

// agentMachine is what this machine knows about itself, and what the target gave the agent of it.
func (p *program) agentMachine(given *driver.Allocation, terms <-chan os.Signal, at reach) (node.Machine, error) {
	d := p.dirs
	d.State, d.Cache = cmp.Or(given.State, d.State), cmp.Or(given.Cache, d.Cache)
	name, _ := os.Hostname() // "": the machine has none
	self, err := os.Executable()
	if err != nil {
		return node.Machine{}, fault.Wrap(err, fault.Bug, "", "find this program")
	}
	net, err := host.LookNetwork()
	if err != nil {
		return node.Machine{}, err
	}
	m := node.Machine{Self: protocol.Host(process.Self()), Name: cmp.Or(given.Name, name), CPUs: runtime.NumCPU(),
		Address: net.Address, Interface: net.Interface, Loopback: host.Loopback().Interface, Stack: net.Stack, Port: host.Port,
		Work: workFolder(d), Cache: d.Cache, Near: at != far, Shared: at == served, Environ: os.Environ(), Drover: self,
		Lost: given.Lost, Root: given.Root, Hosts: given.Hosts, Secrets: given.Secrets, Starved: given.OOMKills, Archives: given.Archives, Failure: given.Failure}
	if base := scratchBase(given.Scratch); given.Scratch != "" && private.MakeFolder(base) == nil {
		m.Work = filepath.Join(base, scratchWork)
	}
	whole := p.reservations()
	if whole.CPUs > 0 { // a container may be limited to fewer than the machine has
		m.CPUs = int(whole.CPUs)
	}
	m.CPUs, m.Memory = cmp.Or(given.Cores, m.CPUs), cmp.Or(given.Memory, whole.Memory)
	m.Room = reserve(&m, given.Shared, whole)
	if given.Stdin {
		m.Stdin = stdin.Inspect(os.Stdin)
		go m.Stdin.Watch() // for as long as the process lives: nothing waits for it
	}
	m.Traffic = host.Traffic
	m.Listeners = func(port int) (all []node.Listener, err error) {
		found, err := host.Listeners(port)
		for _, l := range found {
			all = append(all, node.Listener(l))
		}
		return all, err
	}
	m.GPUUse = func(ctx context.Context, pinned string) (all []metric.GPUSample, err error) {
		use, err := host.GPUUse(ctx, m.Environ, pinned)
		for _, u := range use {
			all = append(all, metric.GPUSample(u))
		}
		return all, err
	}
	if err := os.MkdirAll(m.Work, 0o700); err != nil {
		return m, fault.Wrap(err, fault.Denied, "Set XDG_STATE_HOME to a folder of yours.", "make folder %s", m.Work)
	}
	passNotices(&m, given, terms)
	return m, nil
}

// passNotices tells the agent of each SIGTERM and why it came.
func passNotices(m *node.Machine, given *driver.Allocation, terms <-chan os.Signal) {
	notice, struck, sooner := make(chan node.Notice, 1), make(chan struct{}), make(chan struct{})
	m.Notice, m.Sooner = notice, sooner
	if given.Signalled {
		m.Struck = struck
	}
	go func() { // for as long as the process lives: nothing waits for it
		<-terms
		close(struck)
		first := given.Noticed()
		notice <- node.Notice(first)
		for range terms {
			if given.Noticed().Left < first.Left { // a later notice that leaves as much time changes nothing
				close(sooner)
				return
			}
		}
	}()
}

// gone tells whether the process of an agent on this machine has ended; known
// is false for agents elsewhere.
func gone(h protocol.Host) (gone, known bool) { return process.Identity(h).Gone() }
