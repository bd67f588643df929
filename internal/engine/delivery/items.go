package delivery

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/unit"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// leftNotes is how many outputs that were left are named one by one.
const leftNotes = 10

// BringItems brings the outputs of a map's items into dir, an absolute path. short is the job's
// short id, succeeded the results of the items that have succeeded.
func (x Deliverer) BringItems(ctx context.Context, p job.Path, short string, succeeded iter.Seq2[report.ItemResult, error], dir string, o report.GetOptions) (report.Got, error) {
	d, err := openDestination(dir, p.String(), short, o)
	if err != nil {
		return report.Got{}, err
	}
	defer d.closeFolder()
	b := &bringer{store: x.World.Store, path: p, d: d, of: map[uint64]int32{}, got: report.Got{Dir: dir}}
	if err = b.bringAll(ctx, succeeded, o.Watch); err == nil {
		err = b.dropOldBeside(ctx)
	}
	if err == nil && len(d.replaced) > 0 {
		err = d.rewriteRecord(func(bundle.Brought) bool { return true })
	}
	b.got.Items, b.got.Changes = &b.items, d.changes
	return b.got, err
}

func (b *bringer) bringAll(ctx context.Context, succeeded iter.Seq2[report.ItemResult, error], told func(report.GotItems)) error {
	for r, err := range succeeded {
		if err != nil {
			return fmt.Errorf("get outputs: %w", err)
		}
		if len(r.Outputs) > 0 {
			b.items.Items++
		}
		for _, f := range r.Outputs {
			if err := b.bringFile(ctx, r, f); err != nil {
				return fmt.Errorf("get outputs: item %d: %w", r.Item, err)
			}
			if told != nil {
				told(b.items)
			}
		}
	}
	if more := b.items.Left - leftNotes; more > 0 {
		b.got.Notes = append(b.got.Notes, fmt.Sprintf("and %s more outputs of names that others have", unit.Comma(more)))
	}
	return nil
}

// dropOldBeside removes what an earlier command put beside a file of the user's, where
// this one has brought that output elsewhere.
func (b *bringer) dropOldBeside(ctx context.Context) (err error) {
	b.d.eachEarlierFile(func(old bundle.Brought) {
		if err != nil || !old.Item || old.For == "" || b.d.beside[old.Path] {
			return
		}
		if _, brought := b.of[nameHash(old.For)]; brought {
			b.d.replaced[old.Path] = true
			err = b.d.removeFile(ctx, old)
		}
	})
	return err
}

func nameHash(name string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(name))
	return h.Sum64()
}

// bringer fills one folder.
type bringer struct {
	store *store.Store
	path  job.Path
	d     *destination
	// of says which item has a name, by the name's hash: of a million names the
	// names themselves would be too much to keep.
	of    map[uint64]int32
	got   report.Got
	items report.GotItems
}

func (b *bringer) bringFile(ctx context.Context, r report.ItemResult, f report.ItemFile) error {
	name := path.Clean(f.Name)
	if !filepath.IsLocal(name) || name == "." {
		return fault.New(fault.Invalid, "", "output %q is not a name below a folder", f.Name)
	}
	h := nameHash(name)
	if first, taken := b.of[h]; taken {
		if b.items.Left++; b.items.Left <= leftNotes {
			b.got.Notes = append(b.got.Notes, fmt.Sprintf("items %d and %d both made %s: item %d's is here", first, r.Item, name, first))
		}
		return nil
	}
	b.of[h] = int32(r.Item)
	want := bundle.Brought{Path: name, Size: f.Bytes, SHA256: store.Digest(f.SHA256), Item: true}
	at, is, err := b.d.findPlaceFor(ctx, want, nil)
	if err != nil {
		return err
	}
	if is == theSame {
		b.items.There++
		if at != name {
			b.d.noteBeside(name, at)
		}
	} else if err := b.copyFile(ctx, want, at, protocol.OutKey(b.path, r.Item, r.Folder, f.Name), f); err != nil {
		return err
	}
	if is == drovers {
		b.d.replaced[at] = true
	}
	b.items.Files++
	b.items.Bytes += f.Bytes
	return nil
}

// copyFile completes a file in the workshop, verifies it, and gives it its place.
func (b *bringer) copyFile(ctx context.Context, want bundle.Brought, at, key string, f report.ItemFile) (err error) {
	in, err := b.store.Open(ctx, key, 0, -1)
	if err != nil {
		return err
	}
	defer in.Close()
	part := path.Join(bundle.Workshop, "item")
	_ = b.d.root.Remove(part) // of a copy that went wrong
	mode := fs.FileMode(f.Mode) & fs.ModePerm
	if mode == 0 {
		mode = 0o666
	}
	out, err := b.d.root.OpenFile(part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode) // less the umask, as cp makes it
	if err != nil {
		return notHere(err, at)
	}
	defer func() {
		if err != nil {
			out.Close()
			_ = b.d.root.Remove(part)
		}
	}()
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, sum), in)
	if err != nil {
		return fmt.Errorf("copy %s: %w", want.Path, err)
	}
	if n != f.Bytes || hex.EncodeToString(sum.Sum(nil)) != f.SHA256 {
		return fault.New(fault.Lost, "`drover verify "+b.path.Job+"` says what else is damaged.", "copy %s: %s is not what was recorded", want.Path, key)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("copy %s: %w", want.Path, err)
	}
	if err := b.d.recordBrought(want, at); err != nil {
		return err
	}
	return b.d.root.Rename(part, at)
}
