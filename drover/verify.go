package drover

import (
	"context"

	"github.com/drover-run/drover/internal/verify"
)

// Verified is what Verify found; Sound says that there is no doubt.
type Verified = verify.Report

// VerifyProgress is how far a Verify has come.
type VerifyProgress = verify.Progress

// VerifyOptions say how much is read.
type VerifyOptions struct {
	LogsOnly bool                 // do not read outputs' bytes
	Told     func(VerifyProgress) // called now and then; may be nil
}

// Verify recomputes everything about the job from the store, with code that shares
// nothing with what wrote it but how an entry is decoded. It changes nothing, and
// an error is the store's: what does not agree is a doubt in the report. A live
// job is verified as far as it is.
func (j *Job) Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	if o.LogsOnly {
		return verify.Logs(ctx, j.c.world.Store, j.path, o.Told)
	}
	return verify.Verify(ctx, j.c.world.Store, j.path, o.Told)
}
