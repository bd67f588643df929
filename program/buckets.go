//go:build !nobuckets

package program

import (
	"context"
	"strings"

	"github.com/drover-run/drover/cloud/amazon/registry"
	"github.com/drover-run/drover/internal/image/build"
	"github.com/drover-run/drover/store/gcs"
	"github.com/drover-run/drover/store/s3"
)

var (
	_ service = (*s3.Bucket)(nil)
	_ owned   = (*s3.Bucket)(nil)
	_ service = (*gcs.Bucket)(nil)
)

// openService opens the bucket that an s3:// or gs:// url names.
func openService(ctx context.Context, url string, o serviceOptions) (service, error) {
	if strings.HasPrefix(strings.TrimPrefix(url, "file://"), "gs:") {
		return gcs.Open(ctx, url, gcs.Options{Endpoint: o.endpoint, PassFile: o.passFile, Foreign: o.foreign, Unsigned: o.unsigned})
	}
	return s3.Open(ctx, url, s3.Options{Endpoint: o.endpoint, PassFile: o.passFile, Patience: o.patience, Foreign: o.foreign, Unsigned: o.unsigned})
}

// clouds open the registries of images that accounts of vendors have.
func clouds() []build.Cloud { return []build.Cloud{&registry.Registries{}} }

// isAccount says whether p can be the name of a Google account.
func isAccount(p string) bool { return gcs.IsAccount(p) }
