package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/env/programs"
	"github.com/drover-run/drover/job"
)

// A map differs in the middle: there is no rendezvous and no view, and package maprunner
// takes the place of the stages from launch on.

// workItems does the agent's part of a map. The stages before run beside it, and
// drop ends them early.
func (a *agent) workItems(ctx context.Context, drop context.CancelCauseFunc) (int, error) {
	token := strings.ReplaceAll(a.ID, ":", "-")
	if err := a.remains.leaveMark(token); err != nil {
		return fault.ExitDrover, err
	}
	var hands sync.WaitGroup
	defer hands.Wait()
	defer drop(errors.New("the agent ends"))
	kit := make(chan maprunner.Prepared, 1)
	hands.Go(func() { kit <- a.prepareItems(ctx, <-a.prepared) }) // ends with prepare; the channel has room
	return maprunner.Run(ctx, maprunner.Config{World: a.World, Job: a.Job, ID: a.ID, Self: a.Machine.Self, Slots: a.Slots, Near: a.Machine.Near,
		Root: a.Own, Token: token, Out: a.Out, Redact: a.Redact, Note: a.Out.Note, ChangeHeartbeat: a.Heartbeats.ChangeHeartbeat, Log: a.Log,
		Notice: a.Machine.Notice, Struck: a.Machine.Struck, Sooner: a.Machine.Sooner, Prepared: kit, Patience: a.Machine.Patience, MaxStored: a.MaxStoredBytes(), OpenPlace: a.Machine.OpenPlace, JobRemoved: func() { a.Vanish(node.ErrRemoved) }, NoteLeftovers: a.space.Leftovers, WriteNotice: a.warnItems,
		CancelPreparation: func() { drop(errors.New("no item runs any more")) }})
}

// warnItems is warn for the programs of items.
func (a *agent) warnItems(why string, left time.Duration) {
	switch {
	case why == "":
		a.space.LeaveNotice("")
	case left == 0:
		a.space.LeaveNotice(why + "\n")
	default:
		a.space.WriteNotice(why, left)
	}
}

// countSlots says how many items run here at once: as was asked for, else as many
// as the cores and GPUs allow for what each of them asks for.
func (a *agent) countSlots(ctx context.Context) error {
	spec := a.Job.Spec
	if a.Slots = spec.Slots; a.Slots > 0 {
		return nil
	}
	a.Slots = max(1, a.Machine.CPUs)
	if spec.CPUs > 0 {
		a.Slots = max(1, int(float64(a.Machine.CPUs)/spec.CPUs))
	}
	if m := int64(spec.Memory); m > 0 && a.Machine.Memory > 0 {
		a.Slots = max(1, min(a.Slots, int(a.Machine.Memory/m)))
	}
	if spec.GPUs > 0 && a.Machine.Room != nil {
		here, err := a.Machine.Room(ctx, node.Wish{}, func(string) {})
		if err != nil {
			return fmt.Errorf("count GPUs: %w", err)
		}
		if here.Release != nil {
			here.Release()
		}
		a.Slots = max(1, min(a.Slots, here.GPUs/spec.GPUs))
	}
	return nil
}

// itemKit is what items are run with, once the stages before have ended with err.
func (a *agent) prepareItems(ctx context.Context, err error) maprunner.Prepared {
	if err != nil {
		return maprunner.Prepared{Failed: err}
	}
	if a.space.PlaceExists() {
		a.space.NoteLinks("items of a map have no view of the machine")
		if err := a.space.LinkUnshipped(); err != nil {
			return maprunner.Prepared{Failed: err}
		}
	}
	spec := a.Job.Spec
	code := a.space.HostPaths().Code
	k := maprunner.Prepared{Dir: filepath.Join(code, filepath.FromSlash(a.Job.Code.Sub)), Environ: a.items.itemEnviron(), Cores: a.ready.room.Cores, GPUs: a.items.gpusBySlot(), Memory: cmp.Or(a.items.memoryPerItem(), a.Machine.Memory)}
	if k.Environ, err = a.withModule(k.Environ, code); err != nil {
		return maprunner.Prepared{Failed: err}
	}
	r := programs.Request{Dir: code, Sub: a.Job.Code.Sub, Script: a.Job.Code.Script, Args: spec.Args, Environ: k.Environ, Interpreter: a.ready.env.Interpreter}
	switch {
	case spec.ByShell:
		r.Script, r.Line, r.Args = "", spec.Program, nil
	case r.Script == "":
		r.Name = spec.Program
	}
	found, err := programs.Find(ctx, r)
	if err != nil {
		return maprunner.Prepared{Failed: err}
	}
	k.Path, k.Name, k.Args = found.Path, found.Name, found.Args
	a.space.WriteDoor(0, k.Dir, k.Environ)
	return k
}

// itemEnviron is what each item's environment begins with: the caller's, and what
// of the contract has a meaning for one item of many.
func (i *itemSetup) itemEnviron() []string {
	spec := i.Job.Spec
	f := i.space.FolderFacts(i.Root)
	f.Job, f.ID, f.Project, f.Task = contract.JobName(spec.Project, spec.Task, i.Job.Short), i.Job.ID, spec.Project, spec.Task
	f.Program, f.Env = orElse(i.Job.Code.Script, spec.Program), spec.Env
	f.Hosts, f.Machine, f.Region = contract.Hosts(1), spec.MachineType(), i.Machine.Region
	f.CPUs, f.GPUs, f.Inputs = max(1, i.Machine.CPUs/i.Slots), i.ready.room.GPUs, i.ready.inputs
	if spec.CPUs > 0 {
		f.CPUs = int(math.Ceil(spec.CPUs))
	}
	if spec.GPUs > 0 {
		f.GPUs = spec.GPUs
	}
	environ := append(i.CallerEnviron(), i.ready.env.Environ...)
	for _, kv := range f.Environ() {
		name, _, _ := strings.Cut(kv, "=")
		if _, own := spec.Env[name]; own || ofItems(name) {
			environ = append(environ, kv)
		}
	}
	return i.WithSecrets(environ)
}

// ofItems says whether a variable of the contract is for items: the others tell
// of ranks, and of folders that are a run's.
func ofItems(name string) bool {
	return slices.Contains([]string{"DROVER_JOB", "DROVER_PROJECT", "DROVER_TASK", contract.CodeVariable, contract.NoticeVariable, "AWS_REGION", "PYTHONUNBUFFERED",
		"SM_CHANNELS", "SM_INPUT_DIR", "SM_NUM_CPUS", "SM_NUM_GPUS", "TRAINING_JOB_NAME"}, name) ||
		strings.HasPrefix(name, "DROVER_INPUT_") || strings.HasPrefix(name, "SM_CHANNEL_")
}

// gpusBySlot shares the GPUs that were set apart among the slots.
func (i *itemSetup) gpusBySlot() (by []string) {
	each, pinned := i.Job.Spec.GPUs, i.ready.room.Pinned
	if each == 0 || pinned == "" {
		return nil
	}
	ids := strings.Split(pinned, ",")
	for slot := range i.Slots {
		from := min(slot*each, len(ids))
		by = append(by, strings.Join(ids[from:min(from+each, len(ids))], ","))
	}
	return by
}

// wishForSlots is what the slots want of the machine together.
func (i *itemSetup) wishForSlots(w node.Wish) node.Wish {
	w.Nodes = 1
	w.CPUs, w.Memory, w.GPUs = w.CPUs*float64(i.Slots), i.memoryPerItem(), w.GPUs*i.Slots
	return w
}

// memoryPerItem is what is set apart for all slots: what they have together, or what
// one item may come to that had too little again and again.
func (i *itemSetup) memoryPerItem() int64 {
	spec := i.Job.Spec
	largest := spec.Memory.Stepped(spec.MemoryStep, spec.Retries, job.Bytes(i.Machine.Memory))
	return max(int64(spec.Memory)*int64(i.Slots), int64(largest))
}
