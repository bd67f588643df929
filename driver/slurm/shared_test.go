package slurm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWhatComesOverANetworkIsShared(t *testing.T) {
	got := remoteMounts("/dev/sda1 / ext4 rw 0 0\nsrv:/home /home nfs4 rw,vers=4.2 0 0\ntmpfs /tmp tmpfs rw 0 0\n10.0.0.1@tcp:/fs /scratch\\040of\\134us lustre rw 0 0\ntorn\n")
	if diff := cmp.Diff([]string{"/home", `/scratch of\us`}, got); diff != "" {
		t.Error(diff)
	}
}
