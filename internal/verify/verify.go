// Package verify recomputes a job from the store: every log from its first number
// to its last, what each entry may say where it stands, where each item has
// ended, every output's bytes. Whatever does not agree is a finding (type Doubt).
//
// It is written from docs/protocol.md and shares nothing with package ledger but what
// entries look like: its own walk, its own folds, its own layout. It only reads,
// starts no goroutine, knows no clock, and keeps of a map three bits for each item and one
// chunk at a time. It refuses to know which agents live, and changes nothing.
//
// Its tests break sound histories, each in one way, and expect that one finding;
// then at random. Histories that the ledger writes must give none.
package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Verify checks all of a job. It may be called of a live one, which is verified as
// far as it is: that it has not ended is no doubt. A job that was never submitted, or
// was removed, is fault.Missing; any other error is the store's. told, which may be
// nil, is called now and then.
func Verify(ctx context.Context, s *store.Store, p job.Path, told func(report.VerifyProgress)) (report.Verified, error) {
	return verify(ctx, s, p, told, true)
}

// Logs checks as Verify does, but for the outputs' bytes, which it does not read.
func Logs(ctx context.Context, s *store.Store, p job.Path, told func(report.VerifyProgress)) (report.Verified, error) {
	return verify(ctx, s, p, told, false)
}

// verifier is one Verify.
type verifier struct {
	s       *store.Store
	p       job.Path
	dir     string // of the job
	told    func(report.VerifyProgress)
	outputs bool // read them

	j    job.Job
	task task
	r    report.Verified
	// blind says that a part of the logs could not be read: sums over all of them
	// would only say so again.
	blind bool
	done  int // items of chunks that were read
}

func verify(ctx context.Context, s *store.Store, p job.Path, told func(report.VerifyProgress), outputs bool) (report.Verified, error) {
	if told == nil {
		told = func(report.VerifyProgress) {}
	}
	v := &verifier{s: s, p: p, dir: p.Project + "/" + p.Task + "/" + p.Job, told: told, outputs: outputs}
	v.r.V, v.r.Job = 1, p.String()
	if err := v.foldTaskLog(ctx); err != nil {
		return v.r, err
	}
	there, err := v.readJobRecord(ctx)
	if err != nil || !there {
		return v.r, err
	}
	if v.j.Spec.Verb == job.Map {
		err = v.verifyMap(ctx)
	} else {
		err = v.verifyRun(ctx)
	}
	v.reportProgress()
	return v.r, err
}

// readJobRecord reads job.json and sees that it is this job's.
func (v *verifier) readJobRecord(ctx context.Context) (there bool, err error) {
	if v.task.removed { // what is left of it goes, in whatever order
		return false, fault.New(fault.Missing, "", "verify job %s: it was removed", v.p.Job)
	}
	b, err := v.s.Get(ctx, v.dir+"/job.json")
	absent := errors.Is(err, store.ErrNotExist)
	switch {
	case absent && len(v.task.places) == 0 && !v.task.broken:
		return false, fault.New(fault.Missing, "Name a job by its id, its task, or last.", "verify job %s: there is no such job in %s", v.p.Job, v.s)
	case absent:
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: "it is not there, and the task's log says that the job was submitted"})
		return false, nil
	case errors.Is(err, store.ErrMalformed):
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("it cannot be read: %v", err)})
		return false, nil
	case err != nil:
		return false, fmt.Errorf("verify job: %w", err)
	}
	if sum := sha256.Sum256(b); v.task.record != "" && hex.EncodeToString(sum[:]) != string(v.task.record) {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: "it was changed after the job was submitted: the task's log names another digest"})
	}
	if err := json.Unmarshal(b, &v.j); err != nil {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("it cannot be read: %v", err)})
		return false, nil
	}
	if v.j.V != format {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("its format is %d, and this drover reads %d", v.j.V, format)})
		return false, nil
	}
	if err := v.j.Check(); err != nil {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("it is out of bounds: %v", err)})
		return false, nil
	}
	isMap := v.j.Spec.Verb == job.Map
	if hasItems := v.j.ChunkSize != 0 || v.j.Manifest.Count != 0; isMap != hasItems || !slices.Contains(verbs, v.j.Spec.Verb) {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("it is of verb %q, and has %s in chunks of %d", v.j.Spec.Verb, numbered(v.j.Manifest.Count, "item", "items"), v.j.ChunkSize)})
		return false, nil
	}
	if v.j.Path() != v.p {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("it is of job %s", v.j.Path())})
	}
	if len(v.task.places) == 0 && !v.task.broken {
		v.addFinding(RuleTask, report.VerifyNote{Log: "task", Entry: -1, Why: "it has no entry that submits the job"})
	}
	return true, v.checkShort(ctx)
}

var verbs = []job.Verb{job.Run, job.Shell, job.Process, job.Map}

// checkShort sees that the short id leads to the job.
func (v *verifier) checkShort(ctx context.Context) error {
	if v.j.Short == "" || store.CheckKey(v.j.Short) != nil {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("%q is not a short id", v.j.Short)})
		return nil
	}
	b, err := v.s.Get(ctx, "ids/"+v.j.Short)
	if err != nil && !errors.Is(err, store.ErrNotExist) && !errors.Is(err, store.ErrMalformed) {
		return fmt.Errorf("verify job: %w", err)
	}
	var to job.Path
	if err != nil || json.Unmarshal(b, &to) != nil || to != v.p {
		v.addFinding(RuleJob, report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf("ids/%s does not lead to it", v.j.Short)})
	}
	return nil
}

// reportProgress says how far it has come.
func (v *verifier) reportProgress() {
	v.told(report.VerifyProgress{Items: v.done, Of: v.r.Items, Chunks: v.r.Chunks, Entries: v.r.Entries, Outputs: v.r.Outputs,
		Bytes: v.r.Bytes, Findings: v.r.Doubted, Notes: v.r.Told})
}
