package verify

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// attempts is the fold of a run's log.
type attempts struct {
	v       *verifier
	k       int // the current one
	stop    *protocol.Stop
	failing bool
	settled *protocol.Settled
	at      int    // number of settled
	by      string // its writer
}

// verifyRun verifies a job that is no map: its log, how the ranks of the attempt that counts
// ended, and what they left.
func (v *verifier) verifyRun(ctx context.Context) error {
	last, err := v.lastSequence(ctx, "job", v.dir+"/log")
	if err != nil {
		return err
	}
	a := &attempts{v: v, at: -1}
	whole, err := readEntries(ctx, v, "job", v.dir+"/log", last, func(n int, e protocol.JobEntry, foreign bool) error {
		a.foldEntry(n, e, foreign)
		return nil
	})
	if err != nil || !whole {
		return err
	}
	v.r.Attempts = a.k
	v.checkTask(func(place int) bool { return a.settled != nil })
	if a.settled == nil {
		return nil
	}
	v.r.State, v.r.Rounds = a.settled.State, 1
	want := job.Failed
	if a.stop != nil && !a.failing {
		want = job.Cancelled
	}
	if s := a.settled.State; a.stop != nil && s != want {
		v.addFinding(RuleSettled, report.VerifyNote{Log: "job", Entry: a.at, By: a.by, Why: fmt.Sprintf("it says %s, and by the log it is %s", s, want)})
	}
	for rank := range v.j.Spec.Nodes {
		if err := v.verifyRank(ctx, a, rank); err != nil {
			return err
		}
	}
	return nil
}

// foldEntry folds an entry. What L3 says does not count is told.
func (a *attempts) foldEntry(n int, e protocol.JobEntry, foreign bool) {
	ofMap := count(e.Amended != nil, e.Extended != nil, e.Paused != nil, e.Resumed != nil, e.Gone != nil, e.Reopened != nil) > 0
	note := report.VerifyNote{Log: "job", Entry: n, By: e.By}
	if foreign || ofMap || count(e.Placed != nil, e.Attempt != nil, e.Cancelled != nil, e.Failing != nil, e.Settled != nil, e.Drained != nil) != 1 {
		note.Why = "it is empty, or holds a fact that does not belong in the log of a run"
		a.v.addFinding(RuleEntry, note)
		return
	}
	ended := a.stop != nil || a.settled != nil
	switch {
	case e.Placed != nil && a.settled != nil:
		note.Why = "it requests agents after the job had ended"
	case e.Drained != nil && e.Drained.Agent == "":
		note.Why = "it drains an agent without naming one"
	case e.Attempt != nil && ended:
		note.Why = fmt.Sprintf("it begins attempt %d of a job that was stopped or had ended", e.Attempt.K)
	case e.Attempt != nil && e.Attempt.K <= a.k:
		note.Why = fmt.Sprintf("it begins attempt %d, and attempt %d had not ended", e.Attempt.K, a.k)
	case e.Attempt != nil && e.Attempt.K != a.k+1:
		note.Why = fmt.Sprintf("it begins attempt %d after attempt %d", e.Attempt.K, a.k)
		a.v.addFinding(RuleAttempt, note)
		return
	case e.Attempt != nil:
		a.k = e.Attempt.K
	case (e.Cancelled != nil || e.Failing != nil) && ended:
		note.Why = "it stops the job, which was stopped or had ended"
	case e.Cancelled != nil:
		a.stop = e.Cancelled
	case e.Failing != nil:
		a.stop, a.failing = e.Failing, true
	case e.Settled != nil && a.settled != nil:
		note.Why = "it ends the job, which had ended"
	case e.Settled != nil && a.stop == nil && e.Settled.Attempt != a.k:
		note.Why = fmt.Sprintf("it ends the job by attempt %d, and attempt %d had not ended", e.Settled.Attempt, a.k)
	case e.Settled != nil && a.stop == nil && e.Settled.State != job.Succeeded && e.Settled.State != job.Failed:
		note.Why = fmt.Sprintf("it says %s, and no entry stopped the job", e.Settled.State)
		a.v.addFinding(RuleSettled, note)
		return
	case e.Settled != nil:
		a.settled, a.at, a.by = e.Settled, n, e.By
	}
	if note.Why != "" {
		a.v.addNote(note)
	}
}

// verifyRank verifies how one rank of the attempt that settled names has ended.
func (v *verifier) verifyRank(ctx context.Context, a *attempts, rank int) error {
	s := a.settled
	note := report.VerifyNote{Log: fmt.Sprintf("attempt %d rank %d", s.Attempt, rank), Entry: -1}
	var join protocol.Join
	var exit protocol.Exit
	joined, err := v.readRecord(ctx, fmt.Sprintf("%s/attempts/%d/join/%d", v.dir, s.Attempt, rank), &join, note)
	if err != nil {
		return err
	}
	ended, err := v.readRecord(ctx, fmt.Sprintf("%s/attempts/%d/exit/%d", v.dir, s.Attempt, rank), &exit, note)
	if err != nil {
		return err
	}
	switch {
	case s.State == job.Succeeded && !ended:
		note.Why = "it has not ended, and the job has succeeded"
		v.addFinding(RuleExit, note)
	case s.State == job.Succeeded && (exit.Verdict != protocol.Done || exit.Code != 0):
		note.Why = fmt.Sprintf("it ended %s with exit status %d, and the job has succeeded", exit.Verdict, exit.Code)
		v.addFinding(RuleExit, note)
	case ended && (!joined || join.Agent != exit.Agent):
		note.Why = fmt.Sprintf("agent %s ended it without having joined", exit.Agent)
		v.addFinding(RuleExit, note)
	}
	if !v.outputs {
		return nil
	}
	for _, name := range sortedKeys(exit.Outputs) {
		if err := v.checkTree(ctx, name, exit.Outputs[name], note); err != nil {
			return err
		}
	}
	return nil
}

// readRecord reads a write-once record; ok is false where there is none that can be read.
func (v *verifier) readRecord(ctx context.Context, key string, into any, note report.VerifyNote) (ok bool, err error) {
	b, err := v.s.Get(ctx, key)
	if errors.Is(err, store.ErrNotExist) {
		return false, nil
	}
	if err != nil && !errors.Is(err, store.ErrMalformed) {
		return false, fmt.Errorf("verify job: %w", err)
	}
	v.r.Entries++
	if err == nil {
		err = json.Unmarshal(b, into)
	}
	if err != nil {
		note.Why = fmt.Sprintf("%s cannot be read: %v", key, err)
		v.addFinding(RuleEntry, note)
		return false, nil
	}
	return true, nil
}

// checkTree reads a folder that a rank left: a list of files, and each of them, as blobs.
func (v *verifier) checkTree(ctx context.Context, name string, d store.Digest, note report.VerifyNote) error {
	doubt := func(why string, args ...any) {
		note.Why = name + ": " + fmt.Sprintf(why, args...)
		v.addFinding(RuleOutput, note)
	}
	var list []byte
	if why, _, err := v.checkBlob(ctx, d, &list); err != nil || why != "" {
		if why != "" {
			doubt("the list of its files %s", why)
		}
		return err
	}
	var tree struct {
		Files []struct {
			Path   string       `json:"path"`
			Size   int64        `json:"size"`
			SHA256 store.Digest `json:"sha256"`
		} `json:"files"`
	}
	if err := json.Unmarshal(list, &tree); err != nil {
		doubt("the list of its files cannot be read: %v", err)
		return nil
	}
	for _, f := range tree.Files {
		why, size, err := v.checkBlob(ctx, f.SHA256, nil)
		switch {
		case err != nil:
			return err
		case why != "":
			doubt("file %q %s", f.Path, why)
		case size != f.Size:
			doubt("file %q has %d bytes, and %d were recorded", f.Path, size, f.Size)
		}
	}
	return nil
}

// maxList bounds a list of files, as those that store them do: one of two million files,
// which is the most, has 300 bytes for each.
const maxList = 2 << 30

// readFileList reads a list of files whole, which may be larger than other objects that are.
func (v *verifier) readFileList(ctx context.Context, key string) ([]byte, error) {
	r, err := v.s.Open(ctx, key, 0, -1)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, maxList))
}

// checkBlob reads a blob, into keep where that is not nil, and says what is wrong with it.
func (v *verifier) checkBlob(ctx context.Context, d store.Digest, keep *[]byte) (why string, size int64, err error) {
	if _, err := store.ParseDigest(string(d)); err != nil {
		return "has no digest", 0, nil
	}
	key := "blobs/" + string(d)
	var sum string
	size, sum, err = v.digestObject(ctx, key)
	if err == nil && sum == string(d) && keep != nil {
		*keep, err = v.readFileList(ctx, key)
	}
	switch {
	case errors.Is(err, store.ErrNotExist):
		return "is not there", 0, nil
	case err != nil:
		return "", 0, fmt.Errorf("read output: %w", err)
	case sum != string(d):
		return "has content that differs from what was recorded", size, nil
	}
	return "", size, nil
}
