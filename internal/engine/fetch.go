package engine

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/transfer"
)

// fetchSample is how many items are looked at for a place where they could be: enough
// to see that none of them says one, and nothing to wait for.
const fetchSample = 100

// checkFetch refuses items of which none names a file: rather here than once for each
// of them. What one of them names is found out when it is fetched. How the buckets are
// opened that these name is noted for the agents.
func (e *Engine) checkFetch(ctx context.Context, p *Plan) error {
	if !p.Spec.Fetch {
		return nil
	}
	l, first, found := p.Items.list, "", false
	err := e.sample(ctx, p, l, func(it items.Item, value string) {
		if it.N == 1 {
			first = it.Text
		}
		found = found || input.IsAddress(value) || it.Fields == nil && isThere(value, e.Caller.Folder)
	})
	switch {
	case err != nil:
		return err
	case found:
		return nil
	case l.Format() != items.Lines:
		return fault.New(fault.Invalid, "Leave out --fetch, or give addresses in a field: https://, http://, s3://, gs:// or file://.", "check items: no field holds an address to fetch")
	}
	return fault.New(fault.Invalid, "Leave out --fetch, or give items such as https://host/a.png, s3://bucket/a.png or /data/a.png.",
		"check items: %.200q is neither an address nor a file here", first)
}

// values are what an item may name a file by.
func values(it items.Item) []string {
	if it.Fields == nil {
		return []string{it.Text}
	}
	return it.Fields
}

// isThere says whether a line names a file of this machine.
func isThere(text, folder string) bool {
	if !filepath.IsAbs(text) {
		text = filepath.Join(folder, text)
	}
	_, err := os.Stat(text)
	return err == nil
}

// notePlaces remembers the servers of the buckets that new items name: the first of the
// whole list may be old ones.
func (e *Engine) notePlaces(ctx context.Context, p *Plan, l *items.List) error {
	if !p.Spec.Fetch {
		return nil
	}
	return e.sample(ctx, p, l, func(items.Item, string) {})
}

// sample shows what the first items of l may name files by, and notes the places of it.
func (e *Engine) sample(ctx context.Context, p *Plan, l *items.List, show func(it items.Item, value string)) error {
	for it, err := range l.Reader().Range(ctx, 1, min(l.Count(), fetchSample)) {
		if err != nil {
			return err
		}
		for _, value := range values(it) {
			show(it, value)
			e.notePlace(ctx, p, value)
		}
	}
	return nil
}

// maxPlaces bounds what stands in a job's record.
const maxPlaces = 16

// notePlace remembers the server of a bucket that an item names: agents elsewhere may
// know no other than the maker's. A bucket that cannot be opened here is an agent's to
// tell of, and fails its items alone.
func (e *Engine) notePlace(ctx context.Context, p *Plan, text string) {
	if !input.IsBucket(text) || len(p.Items.places) >= maxPlaces {
		return
	}
	url, _, err := transfer.Split(text)
	if err != nil {
		return
	}
	url, _, _ = strings.Cut(url, "?")
	if input.PlaceOf(p.Items.places, url) != url {
		return
	}
	if _, full, err := e.place(ctx, url); err == nil {
		p.Items.places = addPlace(p.Items.places, full)
	}
}

// addPlace adds a URL that says more than the bucket's name.
func addPlace(places []string, url string) []string {
	if strings.Contains(url, "?") {
		places = append(places, url)
	}
	return places
}
