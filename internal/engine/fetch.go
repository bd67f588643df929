package engine

import (
	"context"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/job"
)

// fetchSample is how many items are looked at for a place where they could be: enough
// to see that none of them says one, and nothing to wait for.
const fetchSample = 100

// checkFetch refuses items of which none names a file: rather here than once for each
// of them. What one of them names is found out when it is fetched.
func checkFetch(ctx context.Context, s job.Spec, l *items.List, folder string) error {
	if !s.Fetch {
		return nil
	}
	first := ""
	for it, err := range l.Reader().Range(ctx, 1, min(l.Count(), fetchSample)) {
		if err != nil {
			return err
		}
		if it.N == 1 {
			first = it.Text
		}
		if it.Fields == nil && isPlace(it.Text, folder) {
			return nil
		}
		for _, value := range it.Fields {
			if input.IsAddress(value) {
				return nil
			}
		}
	}
	if l.Format() != items.Lines {
		return fault.New(fault.Invalid, "Leave out --fetch, or give addresses in a field: https://, http:// or file://.", "check items: no field holds an address to fetch")
	}
	return fault.New(fault.Invalid, "Leave out --fetch, or give items such as https://host/a.png, file:///data/a.png or /data/a.png.",
		"check items: %.200q is neither an address nor a file here", first)
}

// isPlace says whether a line names something that can be fetched.
func isPlace(text, folder string) bool {
	if input.IsAddress(text) {
		return true
	}
	if !filepath.IsAbs(text) {
		text = filepath.Join(folder, text)
	}
	_, err := os.Stat(text)
	return err == nil
}
