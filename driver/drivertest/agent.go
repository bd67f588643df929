package drivertest

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/drover-run/drover/driver"
)

// The agent's side of the contract: what an agent is given, and what it is told.

func handsOver(s *stage) {
	secret := filepath.Join(s.marks, "secret")
	if err := os.WriteFile(secret, []byte("sesame"), 0o600); err != nil {
		s.Fatal(err)
	}
	r := s.newRequest(1, 2, Script{Stay: true, Tell: true, Secret: "file:" + secret})
	r.Run.Secrets = map[string]string{SecretName: "file:" + secret}
	s.startAndWait(r)
	for i := range r.Agents {
		if got := s.readReport(r, i, "knows"); got.Variable != "as the request says" || got.Secret != "sesame" {
			s.Errorf("agent %d has the variable %q and the secret %q", i, got.Variable, got.Secret)
		}
	}
}

func tellsStop(s *stage) {
	r := s.newRequest(1, 1, Script{Stay: true, Tell: true})
	h := s.startAndWait(r)
	s.waitUntilRunning(h) // as stopAsks does
	s.stopPlacement(h, never, false)
	s.waitUntilGone(h)
	if n := s.readReport(r, 0, "notice").Notice; !n.Asked || n.Why == "" || n.Left < 0 || n.Left > never {
		s.Errorf("it is told %+v, want that a person has asked, and at most %s left", n, never)
	}
}

func tellsInterruption(s *stage) {
	r := s.newRequest(1, 1, Script{Stay: true, Tell: true})
	h := s.startAndWait(r)
	if s.place.Warn == nil { // the engine never warns here, and only a person asks
		s.waitUntilRunning(h)
		s.stopPlacement(h, never, false)
		s.waitUntilGone(h)
		if n := s.readReport(r, 0, "notice").Notice; !n.Asked {
			s.Errorf("it is told %+v, and no machine goes", n)
		}
		return
	}
	s.place.Warn(s.T, s.d, h, s.waitUntilRunning(h)[0])
	s.waitUntil("the agent is told", func() bool {
		_, err := os.Stat(reportFile(s.marks, r.Placement, 0, "notice"))
		return err == nil
	})
	if n := s.readReport(r, 0, "notice").Notice; n.Asked || n.Why == "" {
		s.Errorf("it is told %+v, want an interruption and its reason", n)
	}
}

// endsWordless ends an agent without a call of End. A target that sees the exit status may
// show it; any other target counts the agent as lost.
func endsWordless(s *stage) {
	m := s.waitUntilGone(s.startAndWait(s.newRequest(1, 1, Script{Wordless: true, Code: 3})))[0]
	if m.State != driver.Lost && (m.State != driver.Ended || m.Code != 3) || m.Reason == "" {
		s.Errorf("member is %+v, want it lost, or ended with 3, and a reason", m)
	}
}

func startsAfterLostAnswer(s *stage) {
	r := s.newRequest(1, 1, Script{Stay: true})
	if s.place.LoseAnswer != nil {
		s.place.LoseAnswer(s.d)
		if h, err := s.d.Start(context.Background(), r); err == nil {
			s.Fatalf("Start gives %s, and its answer was to be lost", h)
		}
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		defer cancel()
		_, _ = s.d.Start(ctx, r) // ctx may have ended it at any point
	}
	h := s.startAndWait(r)
	if held := s.listOwnHandles(); !slices.Equal(held, []driver.Handle{h}) {
		s.Errorf("List has %v, want %v alone", held, h)
	}
	s.startedOnce(r)
}

func letsIn(s *stage) {
	r := s.newRequest(1, 2, Script{Stay: true})
	h := s.startAndWait(r)
	for _, m := range s.waitUntilRunning(h) {
		if m.Enter == nil {
			continue // there is no way in
		}
		want := h.Enter(r.Run.Binary, m.Index)[1:] // the path of the program may differ there
		if n := len(m.Enter) - len(want); n < 1 || !slices.Equal(m.Enter[n:], want) {
			s.Errorf("the way to agent %d is %q, want it to end in %q", m.Index, m.Enter, want)
		}
	}
}

// readReport reads the report that an agent has written.
func (s *stage) readReport(r driver.Request, index int, kind string) (report Report) {
	s.Helper()
	text, err := os.ReadFile(reportFile(s.marks, r.Placement, index, kind))
	if err == nil {
		err = json.Unmarshal(text, &report)
	}
	if err != nil {
		s.Fatalf("agent %d has left no report: %v", index, err)
	}
	return report
}
