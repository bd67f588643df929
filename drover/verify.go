package drover

import (
	"context"

	"github.com/drover-run/drover/internal/verify"
)

// Verify recomputes everything about the job from the store, with code that shares
// nothing with what wrote it but how an entry is decoded. It changes nothing, and
// an error is the store's: what does not agree is a finding in the report. A live
// job is verified as far as it is.
func (j *Job) Verify(ctx context.Context, o VerifyOptions) (Verified, error) {
	read := verify.Verify
	if o.LogsOnly {
		read = verify.Logs
	}
	return read(ctx, j.c.world.Store, j.path, o.Told)
}
