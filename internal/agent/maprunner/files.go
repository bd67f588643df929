package maprunner

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/maprunner/prefetch"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Items may name files that are to be here before they begin. The cache brings those
// of the items that the chunks are about to give; they stay in their chunks meanwhile,
// and may be handed to another agent. Only a free slot takes a try with files that are
// still to come: else two agents could hand the last item to each other for ever.
// Fetching starts nothing, and needs no start deadline.

const (
	// inName is the folder of fetched files, below the agent's.
	inName = "in"
	// fetchesAtOnce items are fetched at once at least: far servers answer late.
	fetchesAtOnce = 4
)

// ahead is how many items' files are here or on their way before a slot is free, at
// most.
func ahead(slots int) int { return max(8, 2*slots) }

// openCache is called once all is prepared: relative paths begin in its folder.
func (c *mapRunner) openCache() {
	if !c.Job.Spec.Fetch && c.Job.Manifest.Files == nil {
		return
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	hands := min(max(fetchesAtOnce, c.Slots), 16)
	transport.MaxIdleConnsPerHost = hands
	b := input.Bringer{Client: input.Guarded(transport), Dir: c.prepared.Dir, Pause: c.pause}
	known := &buckets{opened: map[string]*store.Store{}, open: c.OpenPlace}
	c.files = manifest.NewStored(c.World.Store)
	c.cache = prefetch.New(c.life, prefetch.Config{Dir: filepath.Join(c.Root, inName), Room: int64(job.FetchRoom(c.Job.Spec.Disk)), Parallel: hands,
		Fetch: func(ctx context.Context, name, into string, room func(context.Context, int64) error) (file string, ours bool, err error) {
			err = c.retryWhileFull(ctx, func() (err error) {
				if address, is := strings.CutPrefix(name, addressMark); is {
					place, address, _ := strings.Cut(address, placeEnd)
					b := b
					if c.OpenPlace != nil {
						b.Open = func(ctx context.Context, url string) (*store.Store, error) { return known.openBucket(ctx, url, place) }
					}
					file, ours, err = b.Bring(ctx, address, into, room)
					return err
				}
				file, err = c.restoreStored(ctx, name, into, room)
				ours = true
				return err
			})
			return file, ours, err
		},
		Remove: func(dir string) {
			if err := tree.RemoveAll(dir); err != nil {
				c.Log.Warn("folder stays", "err", err)
			}
		}})
	c.arrived = c.cache.Arrived()
}

// bucketOpener is what opens the bucket of an address, as the giver of the item has it; "": its
// name alone does.
func (s *itemSource) bucketOpener(address string) string {
	if !input.IsBucket(address) {
		return ""
	}
	bucket, _, err := transfer.Split(address)
	if err != nil {
		return "" // the fetch says why
	}
	bucket, _, _ = strings.Cut(bucket, "?")
	if place := input.PlaceOf(s.places, bucket); place != bucket {
		return place
	}
	return ""
}

// maxBuckets is how many are kept open: items may lie in thousands.
const maxBuckets = 64

// buckets opens those in which items lie, each once as long as they are few.
type buckets struct {
	open func(ctx context.Context, url string) (store.Bucket, error)

	mu     sync.Mutex
	opened map[string]*store.Store
}

// openBucket opens the bucket of url by its place, "": by its name.
func (b *buckets) openBucket(ctx context.Context, url, place string) (*store.Store, error) {
	full, query, asks := strings.Cut(url, "?")
	if place != "" {
		full = place
	}
	if asks { // beside what leads to the server
		sep := "?"
		if strings.Contains(full, "?") {
			sep = "&"
		}
		full += sep + query
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.opened[full]; s != nil {
		return s, nil
	}
	opened, err := b.open(ctx, full)
	if err != nil {
		return nil, err
	}
	if len(b.opened) >= maxBuckets {
		clear(b.opened) // a reader of one still has it
	}
	b.opened[full] = store.New(opened, store.Options{})
	return b.opened[full], nil
}

// itemsInStock is how many items the chunks could give once there are slots for them.
func (c *mapRunner) itemsInStock() (n int) {
	for _, w := range c.chunks {
		n += w.owned.Waiting()
	}
	return n
}

// requestFiles tells the cache what is needed next, once it is known what those items say.
func (c *mapRunner) requestFiles() {
	if c.cache == nil {
		return
	}
	var wants []prefetch.Want
	wanted := map[int]bool{}
	want := func(w *chunk, n int) {
		if it := w.itemText(n); it != nil && !wanted[n] {
			wanted[n] = true
			wants = append(wants, prefetch.Want{Item: n, Names: w.source.fileNames(*it)})
		}
	}
	for _, t := range c.waiting {
		want(t.chunk, t.Item)
	}
	left := ahead(c.Slots)
	for _, w := range c.chunks {
		soon := w.owned.Soon(left)
		for _, n := range soon {
			want(w, n)
		}
		left -= len(soon)
		for n := range w.soon {
			if !wanted[n] {
				delete(w.soon, n)
			}
		}
	}
	c.cache.Want(wants)
}

// nextWithFiles is a try with its files here, and its item.
func (c *mapRunner) nextWithFiles() (t *try, it manifest.Item) {
	for i, t := range c.waiting {
		if said := t.chunk.soon[t.Item]; said != nil && c.takeFiles(t) {
			c.waiting = append(c.waiting[:i:i], c.waiting[i+1:]...)
			return t, *said
		}
	}
	for _, w := range c.chunks {
		for {
			soon := w.owned.Soon(1)
			if len(soon) == 0 || !c.cache.Has(soon[0]) && (w.owned.Careful() || len(c.waiting) >= c.freePlaces()) {
				break // an item that is suspect is named when it begins, not while a download may be the end of us
			}
			n, ok := w.owned.Next()
			if !ok {
				break
			}
			t := c.registerTry(w, n)
			if said := w.soon[t.Item]; said != nil && c.takeFiles(t) {
				return t, *said
			}
			c.waiting = append(c.waiting, t)
		}
	}
	return nil, it
}

// takeFiles gives a try its files.
func (c *mapRunner) takeFiles(t *try) bool {
	t.share = c.cache.Take(t.Item)
	return t.share != nil
}

// freePlaces is how many more tries the groups would take.
func (c *mapRunner) freePlaces() (n int) {
	for _, g := range c.groups {
		n += max(0, g.maxTriesSent()-g.running)
	}
	return n
}

// removeFiles removes the files of a try that has ended.
func (c *mapRunner) removeFiles(t *try) {
	if t.share != nil {
		c.cache.Drop(t.share)
		t.share = nil
	}
}

// failUnfetched is what becomes of a try with files that cannot be had: the item has failed.
// What is not there, or cannot be, would not be there for another try either; a server
// that is away may be back.
func (c *mapRunner) failUnfetched(t *try) error {
	err := t.share.Err
	kind, here := fault.KindOf(err), new(os.PathError)
	if kind == fault.Full { // it was waited for
		return err
	}
	delete(c.tries, t.id)
	c.removeFiles(t)
	final := kind == fault.Missing || kind == fault.Invalid || kind == fault.Denied && !errors.As(err, &here)
	t.chunk.owned.Done(protocol.Result{Item: t.Item, Failed: true, Final: final, Code: fault.ExitDrover,
		Why: oneLine(c.Redact.String(middle(err.Error()))), Ended: c.clock.Now().UnixMicro()})
	return nil
}

// middle shortens a sentence in its middle: its end says what is wrong.
func middle(text string) string {
	const half = lineSize/2 - 2
	if len(text) <= 2*half {
		return text
	}
	return text[:half] + "..." + text[len(text)-half:]
}

// itemText is what item n says; nil: it is being read.
func (w *chunk) itemText(n int) *manifest.Item {
	if it := w.soon[n]; it != nil {
		return it
	}
	it, found, wait := w.itemIfRead(n)
	switch {
	case found:
		w.keepItemText(n, &it)
		return &it
	case !wait && !w.asked[n]:
		if w.asked == nil {
			w.asked = map[int]bool{}
		}
		w.asked[n] = true
		w.runner.goroutines.Go(func() { // ends with what is read, or with the map runner
			it, err := w.source.One(w.runner.life, n)
			select {
			case w.runner.pages <- page{chunk: w, one: n, items: []manifest.Item{it}, err: err}:
			case <-w.runner.life.Done():
			}
		})
	}
	return nil
}

// keepItemText keeps what an item says until it begins.
func (w *chunk) keepItemText(n int, it *manifest.Item) {
	if w.soon == nil {
		w.soon = map[int]*manifest.Item{}
	}
	delete(w.asked, n)
	w.soon[n] = it
}

// wholeItem stands for a plain line where fields of others are meant.
const wholeItem = -1

// fetches are the fields that may name files: those that the command uses, or all when
// it uses none.
func fetches(fields []string, used []int) []int {
	switch {
	case len(fields) == 0:
		return []int{wholeItem}
	case len(used) > 0:
		return used
	}
	all := make([]int, len(fields))
	for i := range fields {
		all[i] = i
	}
	return all
}

// namedFields are those of a source's fields that name a file in this item: a line does, and
// what is an address in a row.
func (s *itemSource) namedFields(it manifest.Item) (fields []int) {
	for _, f := range s.fetches {
		if slices.ContainsFunc(it.Files, func(file manifest.File) bool { return file.Field == f }) {
			continue
		}
		if f == wholeItem || f < len(it.Fields) && input.IsAddress(it.Fields[f]) {
			fields = append(fields, f)
		}
	}
	return fields
}

// fileNames are the names of an item's files: those that were stored, and then addresses.
func (s *itemSource) fileNames(it manifest.Item) (names []string) {
	for _, f := range it.Files {
		names = append(names, storedName(f, s.fieldText(it, f.Field)))
	}
	for _, f := range s.namedFields(it) {
		names = append(names, addressMark+s.bucketOpener(s.fieldText(it, f))+placeEnd+s.fieldText(it, f))
	}
	return names
}

// fieldText is the text of a field.
func (s *itemSource) fieldText(it manifest.Item, field int) string {
	switch {
	case field == wholeItem:
		return it.Text
	case field < len(it.Fields):
		return it.Fields[field]
	}
	return ""
}

// provision is a file that an item was given.
type provision struct {
	field int // wholeItem of a line
	file  string
}

// providedFiles are the files that an item was given: those that were stored, and those that
// were fetched.
func (s *itemSource) providedFiles(it manifest.Item, share *prefetch.Share) (stored, fetched []provision) {
	if share == nil {
		return nil, nil
	}
	for i, f := range it.Files {
		stored = append(stored, provision{f.Field, share.Files[i]})
	}
	for i, f := range s.namedFields(it) {
		fetched = append(fetched, provision{f, share.Files[len(it.Files)+i]})
	}
	return stored, fetched
}

// itemWithFiles is an item with files in some fields.
func (s *itemSource) itemWithFiles(it manifest.Item, files []provision) manifest.Item {
	for i, p := range files {
		if p.field == wholeItem {
			it.Text = p.file
			continue
		}
		if i == 0 {
			it.Fields = append([]string(nil), it.Fields...)
		}
		it.Fields[p.field] = p.file
	}
	return it
}

// filesForProgram is how a program that stays is told of files: by name of their field, or the
// one of a line.
func (s *itemSource) filesForProgram(files []provision) any {
	if files[0].field == wholeItem {
		return files[0].file
	}
	by := map[string]string{}
	for _, f := range files {
		by[s.fields[f.field]] = f.file
	}
	return by
}
