package bring

import (
	"testing"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/app/apptest"
	"github.com/drover-run/drover/internal/cli/clitest"
)

func TestWhatWasCopiedIsInWords(t *testing.T) {
	var lines []string
	for _, c := range []drover.Copied{
		{CopyProgress: drover.CopyProgress{Files: 1, Bytes: 10}, Took: time.Second},
		{CopyProgress: drover.CopyProgress{Files: 3, Bytes: 1 << 20, Same: 2, SameBytes: 4096}, Took: time.Minute, LeftOut: 2},
		{CopyProgress: drover.CopyProgress{Files: 3, Bytes: 1 << 20, SameBytes: 4096}, Took: time.Minute},
	} {
		lines = append(lines, apptest.OnScreen(func(a *app.App) {
			if err := NewBringer(a).reportCopied(c, nil, "photos"); err != nil {
				t.Error(err)
			}
		})...)
	}
	clitest.CheckScreen(t, "copied", lines)
}
