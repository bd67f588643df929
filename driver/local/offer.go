package local

import (
	"cmp"
	"context"
	"os"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
)

// Offer says whether the agents fit into this machine together. It does not count what runs here
// already. There is no price.
func (d *Driver) Offer(ctx context.Context, n driver.Needs) (driver.Offer, error) {
	if ctx.Err() != nil {
		return driver.Offer{}, context.Cause(ctx)
	}
	whole := folder.Measure()
	o := driver.Offer{Machine: whole.String() + folder.DiskNote(d.dir, n), Cores: whole.Cores, Memory: whole.Memory}
	gpus := 0
	if n.GPUs > 0 {
		gpus = folder.GPUs(ctx)
	}
	if o.Reason = cmp.Or(whole.Refusal("this machine", gpus, n), folder.DiskRefusal("this machine", d.dir, n)); o.Reason == "" {
		o.Reason, o.Hint = n.MachineRefusal("this machine", whole.Attributes(ctx, d.dir, n.Where.Names()))
	}
	o.Fits = o.Reason == ""
	return o, nil
}

// hostname identifies this machine where it has no number of its own.
func hostname() string {
	name, _ := os.Hostname() // empty at worst: then all nameless machines are one
	return name
}
