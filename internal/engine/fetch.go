package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/job/secret"
)

// fetchSample is how many items are looked at for a place where they could be: enough
// to see that none of them says one, and nothing to wait for.
const fetchSample = 100

// checkFetch refuses items of which none names a file: rather here than once for each
// of them. What one of them names is found out when it is fetched. How the buckets are
// opened that these name is noted for the agents.
func (e planner) checkFetch(ctx context.Context, p *Plan) error {
	if !p.Spec.Fetch {
		return nil
	}
	l, first, found := p.Items.list, "", false
	err := e.showSomeItems(ctx, p, l, func(it manifest.Item, value string) {
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
	case l.Format() != manifest.Lines:
		return fault.New(fault.Invalid, "Leave out `--fetch`, or give addresses in a field: https://, http://, s3://, gs:// or file://.", "check items: no field holds an address to fetch")
	}
	return fault.New(fault.Invalid, "Leave out `--fetch`, or give items such as https://host/a.png, s3://bucket/a.png or /data/a.png.",
		"check items: %.200q is neither an address nor a file on this machine", first)
}

// checkPasswords refuses items with a user's name or password in an address that is to
// be fetched: agents ask for none of these, and every item is stored as it is. Items that
// are only handed to the program are the user's own, and get a note. All items are read
// if any of them holds an @.
func (e planner) checkPasswords(ctx context.Context, p *Plan) error {
	l := p.Items.list
	if !l.MayHoldAt() {
		return nil
	}
	first, many := 0, 0
	for it, err := range l.Reader().Range(ctx, 1, l.Count()) {
		if err != nil {
			return err
		}
		if p.Spec.Fetch && slices.ContainsFunc(values(it), input.HasUserinfo) {
			return fault.New(fault.Invalid, "Leave it out of the address; without `--fetch` the program can get the file itself, with a password from `--secret NAME`.",
				"check items: item %d is an address with a user's name or password in it, and items are stored as they are", it.N)
		}
		if slices.ContainsFunc(values(it), secret.PasswordInAddress) {
			if many++; many == 1 {
				first = it.N
			}
		}
	}
	if many > 0 {
		p.Items.Notes = append(p.Items.Notes, fmt.Sprintf("%s, item %d first, with a password in an address: items are stored as they are, and --secret NAME keeps a password out of them", plural(many, "item"), first))
	}
	return nil
}

// values are what an item may name a file by.
func values(it manifest.Item) []string {
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
func (e planner) notePlaces(ctx context.Context, p *Plan, l *manifest.List) error {
	if !p.Spec.Fetch {
		return nil
	}
	return e.showSomeItems(ctx, p, l, func(manifest.Item, string) {})
}

// showSomeItems shows what the first items of l may name files by, and notes the places of it.
func (e planner) showSomeItems(ctx context.Context, p *Plan, l *manifest.List, show func(it manifest.Item, value string)) error {
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
func (e planner) notePlace(ctx context.Context, p *Plan, text string) {
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
	if _, full, err := e.OpenBucketURL(ctx, url); err == nil {
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

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
