package agent

import (
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/contract"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runagent"
	"github.com/drover-run/drover/job"
)

// loopback is where nodes reach each other that share one network stack: it
// works without any network, and no process outside can listen.
const loopback = "127.0.0.1"

// completeJoin completes the join record of an attempt: a port that no attempt before
// has had (R2), kept from others until the program starts, and how many
// processes this node will run.
func (r *rendezvous) completeJoin(j *protocol.Join) error {
	r.releasePort()
	j.Procs = r.processesPerNode()
	if r.Machine.Port == nil {
		return nil
	}
	port, release, err := r.Machine.Port()
	if err != nil {
		return err
	}
	j.Port, r.freePort = port, release
	return nil
}

// releasePort gives the port of the attempt back, for the program to listen on.
func (r *rendezvous) releasePort() {
	if r.freePort != nil {
		r.freePort()
		r.freePort = nil
	}
}

// processesPerNode is how many processes a launcher starts here: what was said, else one
// for each GPU, else one, as SageMaker does.
func (r *rendezvous) processesPerNode() int {
	spec := r.Job.Spec
	switch {
	case spec.Launcher == job.Alone || spec.Launcher == job.TF:
		return 1
	case spec.Procs > 0:
		return spec.Procs
	}
	return max(1, r.ready.room.GPUs)
}

// resolvePeers says how the nodes of an attempt reach each other, and by which interface
// this one does. Nodes that differ in their number of processes could not count
// their ranks, so that is an error.
func (r *rendezvous) resolvePeers(o runagent.Order) (peers []contract.Peer, iface string, err error) {
	mine := o.Joins[o.Rank]
	together := mine.Stack != ""
	for rank, j := range o.Joins {
		together = together && j.Stack == mine.Stack
		if j.Procs != mine.Procs {
			return nil, "", fault.New(fault.Invalid, "Say how many with `--procs-per-node`.",
				"start program: one process for each GPU would be %d on node %d and %d on node %d", mine.Procs, o.Rank, j.Procs, rank)
		}
	}
	iface = r.Machine.Interface
	if together {
		iface = r.Machine.Loopback
	}
	if len(o.Joins) == 1 && r.Job.Spec.Launcher == job.Alone {
		iface = "" // no node to reach: the name that SageMaker's machines have will do
	}
	for _, j := range o.Joins {
		p := contract.Peer{Address: j.Address, Port: j.Port}
		if together {
			p.Address = loopback
		}
		peers = append(peers, p)
	}
	return peers, iface, nil
}
