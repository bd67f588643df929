package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Get copies what is at a place to target. Of a place that is a folder, because its
// key ends in a slash or objects are below it, those come into target, a folder that
// is made; a single object becomes the file target, or one of its own name where
// target is a folder or ends in a slash.
func Get(ctx context.Context, from Place, target string, o Options) (report.Copied, error) {
	defer o.reportOutages(ctx, from.Store)()
	d := &down{run: run{o: o, doing: fmt.Sprintf("get %s to %s", from, target)}, from: from, lanes: make(chan struct{}, atOnce)}
	next, stop := listed(ctx, from.Store, from.folderPrefix())
	defer func() { stop() }()
	first, some, err := next()
	if err != nil {
		return report.Copied{}, d.finalError(err)
	}
	if some {
		d.prefix = from.folderPrefix()
		return d.fetchInto(ctx, target, func(ctx context.Context, give func(bringing) error) error { return d.planFolder(first, next, give) })
	}
	if from.folderPrefix() == from.Key {
		return report.Copied{}, d.finalError(nothing())
	}
	stop()
	next, stop = listed(ctx, from.Store, from.Key)
	first, some, err = next()
	if err == nil && (!some || first.Key != from.Key) {
		err = nothing()
	}
	if err != nil {
		return report.Copied{}, d.finalError(err)
	}
	dir, name := filepath.Split(target)
	if info, err := os.Stat(target); name == "" || err == nil && info.IsDir() {
		dir, name = target, path.Base(from.Key)
	}
	return d.fetchInto(ctx, filepath.Clean(dir), func(_ context.Context, give func(bringing) error) error { return d.judgeObject(first, name, give) })
}

// fetchInto brings what plan gives out into the folder target.
func (d *down) fetchInto(ctx context.Context, target string, plan func(ctx context.Context, give func(bringing) error) error) (done report.Copied, err error) {
	if d.own, err = openOwn(target); err != nil {
		return done, d.finalError(err)
	}
	d.root = d.own.root
	done, err = carry(ctx, &d.run, plan, d.bringObject)
	d.own.closeFolder(d.over)
	return done, err
}

// down is a Get under way.
type down struct {
	run
	from   Place
	prefix string

	root  *os.Root // the target
	own   *own
	lanes chan struct{} // a place for each piece that is under way
	made  sync.Map      // folders that are there
}

// bringing is an object that may have to be brought.
type bringing struct {
	store.Object
	name string
	tag  string // of the object, where only the file's content says whether it is this one
}

func (d *down) planFolder(o store.Object, next func() (store.Object, bool, error), give func(bringing) error) error {
	for more := true; more; {
		if err := d.judgeObject(o, strings.TrimPrefix(o.Key, d.prefix), give); err != nil {
			return err
		}
		var err error
		if o, more, err = next(); err != nil {
			return err
		}
	}
	return nil
}

// judgeObject decides what becomes of an object, by the file that is there.
func (d *down) judgeObject(o store.Object, name string, give func(bringing) error) error {
	d.found.Add(1)
	d.foundBytes.Add(o.Size)
	if folder, marker := strings.CutSuffix(name, "/"); marker && o.Size == 0 || name == "" && o.Size == 0 {
		// A console's way to show a folder that holds nothing.
		if folder != "" && badName(folder) == "" {
			return d.makeFolder(folder)
		}
		return nil
	}
	if why := badName(name); why != "" {
		d.noteRefusal(o.Key, why)
		return nil
	}
	b := bringing{Object: o, name: name}
	info, err := d.root.Lstat(name)
	if err == nil && info.Mode().IsRegular() && info.Size() == o.Size {
		// What Get brought has the object's time: a file with another one is of
		// another program, or of another version.
		same := info.ModTime().Truncate(time.Second).Equal(o.Time.Truncate(time.Second)) && !o.Time.IsZero()
		if same && !d.o.Checksum {
			d.countSame(o.Size)
			return nil
		}
		if isMD5(o.Tag) {
			b.tag = o.Tag
		}
	}
	return give(b)
}

// badName says why a name can be no file below the target; "" if it can.
func badName(name string) string {
	for element := range strings.SplitSeq(name, "/") {
		switch {
		case element == "" || element == "." || element == "..":
			return "it is not a path below a folder"
		case len(element) > 255:
			return "a part of its name is longer than 255 bytes"
		case strings.IndexByte(element, 0) >= 0:
			return "its name holds a zero byte"
		case strings.HasPrefix(element, ours):
			return "its name is reserved for drover"
		}
	}
	return ""
}

// makeFolder makes a folder below the target, once.
func (d *down) makeFolder(name string) error {
	if name == "." || name == "" {
		return nil
	}
	if _, there := d.made.Load(name); there {
		return nil
	}
	if err := d.root.MkdirAll(name, 0o777); err != nil {
		return err
	}
	d.made.Store(name, true)
	return nil
}

// bringObject fetches one object, unless its file holds it already.
func (d *down) bringObject(ctx context.Context, b bringing) error {
	if b.tag != "" {
		if same, err := d.fileHoldsObject(ctx, b); err != nil || same {
			return err
		}
	}
	err := d.makeFolder(path.Dir(b.name))
	if err == nil {
		err = d.fetchObject(ctx, b)
	}
	if why := inTheWay(err); why != "" {
		d.noteRefusal(b.Key, why)
		return nil
	}
	return err
}

// inTheWay says why the file system has no place for a name that something else has
// taken: an object is called as a folder of others, a link leads out of the target.
func inTheWay(err error) string {
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case err == nil || !errors.As(err, &at) && !errors.As(err, &link):
		return ""
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EISDIR), errors.Is(err, syscall.EEXIST), errors.Is(err, syscall.ENOTEMPTY):
		return "a file and a folder of one name"
	case strings.Contains(err.Error(), "path escapes from parent"):
		return "a link leads out of the folder"
	case errors.Is(err, syscall.ENAMETOOLONG):
		return "its name is too long here"
	}
	return ""
}

// fileHoldsObject compares a file with its object's tag; if it is that one, it gets its time.
func (d *down) fileHoldsObject(ctx context.Context, b bringing) (bool, error) {
	f, err := d.root.Open(b.name)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	same, err := holds(ctx, f, b.tag)
	if err != nil || !same {
		return false, err
	}
	d.countSame(b.Size)
	return true, d.root.Chtimes(b.name, b.Time, b.Time)
}

// fetchTries is how often an object is begun anew that arrived damaged, or was
// replaced while it came.
const fetchTries = 4

func (d *down) fetchObject(ctx context.Context, b bringing) (err error) {
	if b.Size >= min(large, 2*d.pieceSize(b.Size)) {
		if err = d.fetchLarge(ctx, b); !errors.Is(err, errWhole) {
			return err
		}
	}
	name := d.own.nextName()
	for range fetchTries {
		var n int64
		if n, err = d.writeWhole(ctx, b, name); err == nil {
			err = d.publishFile(name, b)
		}
		if err == nil {
			return nil
		}
		d.bytes.Add(-n)
		_ = d.own.in.Remove(name) // or the next run does
		if !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrCorrupt) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// publishFile gives what is whole in the run's own folder its time and its name.
func (d *down) publishFile(name string, b bringing) error {
	if !b.Time.IsZero() {
		if err := d.own.in.Chtimes(name, b.Time, b.Time); err != nil {
			return err
		}
	}
	if err := d.root.Rename(d.own.name+"/"+name, b.name); err != nil {
		return err
	}
	d.files.Add(1)
	return nil
}

// gone says of an object that was listed and is absent what to do.
func gone(err error, key string) error {
	if errors.Is(err, store.ErrNotExist) {
		return fault.Wrap(err, fault.Missing, "Another program removes objects there: run it again.", "bring %q", key)
	}
	return err
}

// writeWhole brings an object into the run's own folder, in one stream.
func (d *down) writeWhole(ctx context.Context, b bringing, name string) (n int64, err error) {
	body, err := d.from.Store.Open(ctx, b.Key, 0, -1)
	if err != nil {
		return 0, gone(err, b.Key)
	}
	defer body.Close()
	f, err := d.own.in.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	if n, err = d.copyCounted(ctx, f, body); err != nil {
		return n, err
	}
	return n, f.Close()
}

var blocks = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// copyCounted writes body to f and counts it as it goes.
func (d *down) copyCounted(ctx context.Context, f io.Writer, body io.Reader) (n int64, err error) {
	block := blocks.Get().(*[256 << 10]byte)
	defer blocks.Put(block)
	for {
		if err := context.Cause(ctx); err != nil {
			return n, err
		}
		m, err := body.Read(block[:])
		if m > 0 {
			if _, err := f.Write(block[:m]); err != nil {
				return n, err
			}
			n += int64(m)
			d.bytes.Add(int64(m))
		}
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}
