package runagent

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// Calls are command lines that one node of an attempt asks another's agent to
// run inside its program's tree: how MPI starts its processes where there is no
// sshd. They are a log for each called rank, below the attempt: a caller of an
// older attempt writes where no agent reads any more (R2).

// Call is one command line for a rank's agent.
type Call struct {
	V     int       `json:"v"`
	Nonce string    `json:"nonce"`
	Agent string    `json:"agent"` // the agent that asks
	At    time.Time `json:"at"`
	Line  string    `json:"line"` // for sh -c
}

// Answer says how a call ended.
type Answer struct {
	V      int       `json:"v"`
	Agent  string    `json:"agent"` // the agent that ran it
	At     time.Time `json:"at"`
	Status int       `json:"status"` // as a shell would say it
}

func callKey(p job.Path, k, rank, n int) string {
	return protocol.AttemptKey(p, k, fmt.Sprintf("calls/%d", rank), n)
}

func answerKey(p job.Path, k, rank, n int) string {
	return protocol.AttemptKey(p, k, fmt.Sprintf("answers/%d", rank), n)
}

// PostCall asks rank's agent to run line, and gives the call's number in that rank's
// log. from is a number that is not above the first free one; 0 will do. It may
// be called from many goroutines and processes.
func PostCall(ctx context.Context, w protocol.World, p job.Path, attempt, rank, from int, agent, line string) (n int, err error) {
	c := Call{V: protocol.Format, Nonce: w.NewNonce(), Agent: agent, At: w.Clock().Now().UTC(), Line: line}
	for n = from; ; n++ {
		_, mine, err := w.Store.CreateOnce(ctx, callKey(p, attempt, rank, n), protocol.Encode(c))
		if err != nil {
			return 0, fmt.Errorf("call node %d: %w", rank, err)
		}
		if mine {
			return n, nil
		}
	}
}

// ReadCall reads call n of a rank; ok is false while there is none.
func ReadCall(ctx context.Context, w protocol.World, p job.Path, attempt, rank, n int) (c Call, ok bool, err error) {
	return protocol.ReadRecord(ctx, w, callKey(p, attempt, rank, n), func(c *Call) *int { return &c.V })
}

// PostAnswer says how call n of a rank ended. The first answer stands.
func PostAnswer(ctx context.Context, w protocol.World, p job.Path, attempt, rank, n int, agent string, status int) error {
	a := Answer{V: protocol.Format, Agent: agent, At: w.Clock().Now().UTC(), Status: status}
	if _, _, err := w.Store.CreateOnce(ctx, answerKey(p, attempt, rank, n), protocol.Encode(a)); err != nil {
		return fmt.Errorf("answer call %d: %w", n, err)
	}
	return nil
}

// ReadAnswer reads the answer to call n of a rank; ok is false while there is none.
func ReadAnswer(ctx context.Context, w protocol.World, p job.Path, attempt, rank, n int) (a Answer, ok bool, err error) {
	return protocol.ReadRecord(ctx, w, answerKey(p, attempt, rank, n), func(a *Answer) *int { return &a.V })
}
