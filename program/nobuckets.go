//go:build nobuckets

package program

import (
	"context"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image/build"
	"github.com/drover-run/drover/store"
)

// The tag nobuckets leaves out the SDKs of the services, a quarter of what there is
// to compile. make demo builds such a program for a first run in a fresh clone, and
// the whole one beside it. A first run keeps its facts in a folder.

// openService refuses every bucket.
func openService(_ context.Context, url string, _ serviceOptions) (service, error) {
	return nil, fault.New(fault.Invalid, "Build the whole program: make build.", "open store %s: this drover was built without buckets (-tags nobuckets)", store.Shown(url))
}

// isAccount says whether p can be the name of a Google account. No bucket is opened
// as one here, and openService says so.
func isAccount(string) bool { return true }

// clouds are none.
func clouds() []build.Cloud { return nil }
