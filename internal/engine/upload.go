package engine

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/sending"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Files that items name, by absolute paths, and that a target's agents do not see are
// stored when the job is submitted, each by its content and small ones in packs
// (manifest.Pack), and brought to the agent before its item begins. What a relative path names lies in the folder that comes
// along, as on this machine. The list of them is stored beside the items'.

const (
	// uploadHands files are read and sent at once.
	uploadHands = 16
	// packHands packs of them are sent at once, and take so many times a pack in memory.
	packHands = 3
	// mostKnown paths are remembered: rows may all name the same model.
	mostKnown = 64 << 10
)

// sight says which files of this machine a target's agents see.
type sight struct {
	devices map[uint64]bool
}

// sightOf asks for the file systems of the folders that a target shows. A folder that
// is still to be made is where the one above it is.
func sightOf(o driver.Properties) (s sight) {
	s.devices = map[uint64]bool{}
	for _, folder := range o.Shown {
		for at := folder; ; at = filepath.Dir(at) {
			info, err := os.Stat(at)
			if err == nil {
				s.devices[device(info)] = true
			}
			if err == nil || at == filepath.Dir(at) || !errors.Is(err, fs.ErrNotExist) {
				break
			}
		}
	}
	return s
}

func device(info os.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev)
	}
	return 0
}

// uploader finds and stores the files that a list's items name.
type uploader struct {
	store  *store.Store
	sight  sight
	fields []int // that may name files; manifest.Whole of plain lines
	fetch  bool
	tell   *sending.Progress
	known  map[string]manifest.File       // by path; stored already, or about to be
	had    map[store.Digest]manifest.File // by content, of small files
}

func (e planner) newUploader(p *Plan) (*uploader, error) {
	u := &uploader{store: e.World.Store, sight: sightOf(p.Properties), fetch: p.Spec.Fetch, known: map[string]manifest.File{}, had: map[store.Digest]manifest.File{}}
	names := p.Items.list.Fields()
	t, err := template.Parse(append([]string{p.Spec.Program}, p.Spec.Args...), template.TemplateOptions{Fields: names, Shell: p.Spec.ByShell, Out: p.Spec.Out})
	if err != nil {
		return nil, err
	}
	switch used := t.Fields(); {
	case len(names) == 0:
		u.fields = []int{manifest.Whole}
	case len(used) > 0 && !p.Spec.Stdin && !p.Spec.Stream:
		u.fields = slices.Sorted(slices.Values(used))
	default: // the program may look at any
		for i := range names {
			u.fields = append(u.fields, i)
		}
	}
	return u, nil
}

// findItemFiles gives the names in an item that are to be stored, by path, and what they are
// now. folder says that one is a folder, which is not.
func (u *uploader) findItemFiles(it manifest.Item) (found []wanted, folder bool) {
	for _, f := range u.fields {
		text := it.Text
		if f != manifest.Whole {
			if f >= len(it.Fields) {
				continue
			}
			text = it.Fields[f]
		}
		if u.fetch {
			text = input.PathOf(text)
		}
		if !filepath.IsAbs(text) || len(text) > maxPath || strings.IndexByte(text, 0) >= 0 {
			continue
		}
		info, err := os.Stat(text)
		switch {
		case err != nil || u.sight.devices[device(info)]:
		case info.IsDir():
			folder = true
		case info.Mode().IsRegular():
			found = append(found, wanted{path: text, info: info, File: manifest.File{Field: f, Size: info.Size(), Exec: info.Mode()&0o111 != 0}})
		}
	}
	return found, folder
}

// maxPath is Linux's, in bytes.
const maxPath = 4096

// wanted is a file that is to be stored.
type wanted struct {
	manifest.File
	path string
	info os.FileInfo
}

// lookAtFiles finds out how much there is to be stored, for the plan.
func (e planner) lookAtFiles(ctx context.Context, p *Plan) error {
	l := p.Items.list
	if p.Spec.Verb != job.Map || l.Reader().Manifest().Step != 0 || p.Properties.ShowsAll() {
		return nil
	}
	u, err := e.newUploader(p)
	if err != nil {
		return err
	}
	p.Items.counted = l
	folders := 0
	for it, err := range l.Reader().Range(ctx, 1, l.Count()) {
		if err != nil {
			return err
		}
		found, folder := u.findItemFiles(it)
		if folder {
			folders++
		}
		for _, w := range found {
			p.Items.Uploads++
			p.Items.UploadBytes += w.Size
		}
	}
	if n := p.Items.Uploads; n > 0 {
		p.Items.Notes = append(p.Items.Notes, fmt.Sprintf("%s, %s, are stored for %s, which does not see them", plural(n, "file"), job.Bytes(p.Items.UploadBytes), p.Spec.On))
	}
	if folders > 0 {
		p.Items.Notes = append(p.Items.Notes, fmt.Sprintf("%s with a folder that %s does not see, and that is not stored: name the files in it", plural(folders, "item"), p.Spec.On))
	}
	return nil
}

// uploadItemFiles stores the files that the items of l name, and gives the list of them, to be
// stored with the items: nil when there are none. What is in the store already is not
// sent again. watch hears how far it is; it may be nil.
func (e submitter) uploadItemFiles(ctx context.Context, p *Plan, l *manifest.List, watch func(report.CopyProgress)) (*manifest.List, error) {
	if p.Items.Uploads == 0 {
		return nil, nil
	}
	u, err := e.newPlanner().newUploader(p)
	if err != nil {
		return nil, err
	}
	u.tell = sending.NewProgress(watch, e.World.Store.Clock())
	if p.Items.counted == l {
		u.tell.AddFound(int64(p.Items.Uploads), p.Items.UploadBytes)
	}
	defer u.tell.ReportEnd()
	list, n, err := manifest.StoredFiles(p.Items.dir.dir, u.eachItemFiles(ctx, l))
	if err != nil {
		return nil, fmt.Errorf("store files of items: %w", err)
	}
	if n == 0 {
		return nil, list.Close()
	}
	return list, nil
}

// storeItems stores a list and its files below a job.
func (e submitter) storeItems(ctx context.Context, p *Plan, l *manifest.List, path job.Path) (job.Manifest, error) {
	files, err := e.uploadItemFiles(ctx, p, l, p.progressOf(report.SendingItems))
	if err != nil {
		return job.Manifest{}, err
	}
	m, err := l.Put(ctx, e.World.Store, protocol.ItemsPrefix(path))
	m.Places = p.Items.places
	if err != nil || files == nil {
		return m, err
	}
	defer files.Close()
	list, err := files.Put(ctx, e.World.Store, protocol.ItemsPrefix(path))
	m.Files = &list
	return m, err
}

// blobsOfItems are what a manifest's items name, each once.
func (e submitter) blobsOfItems(ctx context.Context, m job.Manifest) (all []store.Digest, err error) {
	had := map[[32]byte]bool{} // there may be a million
	for d, err := range manifest.Blobs(ctx, e.World.Store, m) {
		if err != nil {
			return nil, err
		}
		var k [32]byte
		if n, err := hex.Decode(k[:], []byte(d)); err == nil && n == len(k) && !had[k] {
			had[k] = true
			all = append(all, d)
		}
	}
	return all, nil
}

// storeItemsAgain stores the files once more that a gc took while they were being named.
func (e submitter) storeItemsAgain(ctx context.Context, p *Plan, l *manifest.List, m job.Manifest) error {
	if m.Files == nil {
		return nil
	}
	again, err := e.uploadItemFiles(ctx, p, l, nil)
	if err != nil {
		return err
	}
	if again == nil {
		return fault.New(fault.Invalid, "Run it again.", "submit job: its items' files vanished while they were stored")
	}
	defer again.Close()
	if again.Digest() != m.Files.Digest {
		return fault.New(fault.Invalid, "Run it again.", "submit job: its items' files changed while they were stored")
	}
	return nil
}
