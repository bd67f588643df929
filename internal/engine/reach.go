package engine

import (
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// What a target's agents can reach of what this machine has is among its properties.

// storeKinds are the kinds of store that driver.Properties name, with what to type for one.
var storeKinds = []struct{ kind, flag string }{
	{"s3", "--store s3://bucket/prefix"}, {"gs", "--store gs://bucket/prefix"}, {folderStore, "--store /shared/folder"},
}

const folderStore = "folder"

// storeKind is the kind of the store that agents open.
func (e planner) storeKind() string {
	if kind, _, ok := strings.Cut(e.Boot.Store, "://"); ok && kind != "file" {
		return kind
	}
	return folderStore
}

// refuseStore refuses a store that the agents of a target cannot open.
func (e planner) refuseStore(d driver.Opened, on string) error {
	kind := e.storeKind()
	if d.Opens(kind) {
		return nil
	}
	var flags []string
	for _, k := range storeKinds {
		if d.Opens(k.kind) {
			flags = append(flags, k.flag)
		}
	}
	return fault.New(fault.Invalid, "Name one that they can: "+strings.Join(flags, ", or ")+".",
		"place job on %s: its agents cannot open the store %s", on, store.Shown(e.Boot.Store))
}
