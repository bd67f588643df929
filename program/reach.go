package program

import (
	"context"
	"fmt"
	"time"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

const (
	// renewPatience is how long after its end a short-lived credential may be replaced by an
	// attached command. After that an agent is of no use: it can record nothing.
	renewPatience = time.Hour
	// reachLook is how often watchReach looks.
	reachLook = 10 * time.Second
)

// watchReach calls end once the agent of this process is of no use: it has never reached its
// store, or its short-lived credential ended long ago. On a machine that is paid for, nothing
// else would end it. An agent that loses its store later works on, and stores what it has when
// the store is back. credential is the file of the credential; "": it has none.
func watchReach(ctx context.Context, s *store.Store, credential string, end func(code int, why string)) {
	begun := s.Clock().Boot()
	for s.Clock().Sleep(ctx, reachLook) == nil {
		v := reachView{reached: s.Reached(), waited: s.Clock().Boot() - begun}
		_, v.last = s.Away()
		if until, ok := cloud.FileEnd(credential); ok {
			v.ended = s.Clock().Now().Sub(until)
		}
		if code, why := v.verdict(); why != "" {
			end(code, why)
			return
		}
	}
}

// reachView is what an agent knows of its way to the store.
type reachView struct {
	reached bool          // once, at least
	waited  time.Duration // since the agent began
	last    error         // the newest bad answer of the store; nil: none
	ended   time.Duration // since its credential has ended; 0 and less: it has none, or a good one
}

// verdict is the exit status of an agent that is of no use, and why it is; "": it is of use.
func (v reachView) verdict() (code int, why string) {
	switch {
	case !v.reached && v.waited >= agentPatience:
		why = fmt.Sprintf("the store was not reached in %d minutes", int(agentPatience.Minutes()))
		if v.last != nil {
			why += ": " + v.last.Error()
		}
	case v.ended >= renewPatience:
		why = "the credential for the store ended an hour ago, and no attached command has renewed it"
	default:
		return 0, ""
	}
	if v.reached {
		return fault.ExitLater, why
	}
	return fault.ExitDrover, why
}
