// Package protocol is what docs/protocol.md describes: the object layout (keys), the entries of
// each log, the records beside the logs, how both are written and read and which bounds they
// keep to, and Log, which reads and appends one log.
//
// It refuses to know what follows from an entry: folds and decisions are in the packages beside
// it. Proved by its tests against package encoding/json, fuzz, and the simulations of package
// ledger.
package protocol

import (
	"encoding/hex"
	"fmt"
	"io"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// World is all a ledger touches.
type World struct {
	Store *store.Store
	Rand  io.Reader // for nonces, ids and tokens
	// Gone tells whether the process of an agent on this very machine is gone
	// (D1a); known is false for agents elsewhere.
	Gone func(Host) (gone, known bool)
	// Lanes is how many requests a reader may have under way at once; 0: one. An
	// agent has one: what thousands of them ask for is to be spread over time.
	Lanes int
}

// Host says which process on which machine an agent is. Equal boot ids and
// equal PID namespaces make its PID comparable with ours.
type Host struct {
	Boot      string `json:"boot,omitempty"`
	Namespace string `json:"ns,omitempty"`
	PID       int    `json:"pid,omitempty"`
	Start     uint64 `json:"start,omitempty"`
}

func (w World) Clock() store.Clock { return w.Store.Clock() }

// NewNonce is 16 random hex digits: the mark by which a writer knows its entry.
func (w World) NewNonce() string {
	var b [8]byte
	if _, err := io.ReadFull(w.Rand, b[:]); err != nil {
		panic(fmt.Sprintf("reading randomness: %v", err)) // the machine cannot go on
	}
	return hex.EncodeToString(b[:])
}

// NewID makes a job id.
func (w World) NewID() string {
	var b [job.IDBytes]byte
	if _, err := io.ReadFull(w.Rand, b[:]); err != nil {
		panic(fmt.Sprintf("reading randomness: %v", err))
	}
	return job.ID(b)
}
