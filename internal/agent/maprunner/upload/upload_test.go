package upload

import (
	"testing"

	"github.com/drover-run/drover/job"
)

func TestOutputsThatAreTooLargeSayWhatAllowsMore(t *testing.T) {
	u := &Uploader{MaxStored: 1 << 20}
	for disk, want := range map[job.Bytes]string{
		0:       "its outputs are 2 MB, above 1 MB: the size of this file system; --disk allows more",
		1 << 20: "its outputs are 2 MB, above 1 MB: --disk",
	} {
		u.Disk = disk
		if got := u.ExceedsLimit(Outputs{Bytes: 2 << 20}); got != want {
			t.Errorf("with --disk %d: %q, want %q", disk, got, want)
		}
	}
}
