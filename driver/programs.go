package driver

import (
	"context"

	"github.com/drover-run/drover/store"
)

// Program is this program, built for the machines of a target, as it lies in the store of the
// jobs. Machines that do not see this one fetch it from there.
type Program struct {
	System string // "linux/arm64"
	SHA256 string // of its content, in hex
	Size   int64  // bytes
	// Downloads are ways to read the program by means that many images have, the best ones first.
	// A way without its tool fails.
	Downloads []store.Download
}

// Programs stores the program for a system, such as "linux/arm64", unless it is stored
// already, and says how a machine fetches it. A fault of kind Missing says that there is no
// program for this system here, with the command that makes one.
type Programs func(ctx context.Context, system string) (Program, error)
