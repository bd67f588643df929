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
	"github.com/drover-run/drover/store"
)

// Get copies what is at a place to target. Of a place that is a folder, because its
// key ends in a slash or objects are below it, those come into target, a folder that
// is made; a single object becomes the file target, or one of its own name where
// target is a folder or ends in a slash.
func Get(ctx context.Context, from Place, target string, o Options) (Done, error) {
	d := &down{run: run{o: o, doing: fmt.Sprintf("get %s to %s", from, target)}, from: from}
	next, stop := listed(ctx, from.Store, from.folder())
	defer func() { stop() }()
	first, some, err := next()
	if err != nil {
		return Done{}, d.verdict(err)
	}
	if some {
		d.prefix = from.folder()
		if err := d.open(target); err != nil {
			return Done{}, d.verdict(err)
		}
		defer d.close()
		return carry(ctx, &d.run, func(ctx context.Context, give func(bringing) error) error { return d.plan(first, next, give) }, d.bring)
	}
	if from.folder() == from.Key {
		return Done{}, d.verdict(nothing())
	}
	stop()
	next, stop = listed(ctx, from.Store, from.Key)
	first, some, err = next()
	if err == nil && (!some || first.Key != from.Key) {
		err = nothing()
	}
	if err != nil {
		return Done{}, d.verdict(err)
	}
	dir, name := filepath.Split(target)
	if info, err := os.Stat(target); name == "" || err == nil && info.IsDir() {
		dir, name = target, path.Base(from.Key)
	}
	if err := d.open(filepath.Clean(dir)); err != nil {
		return Done{}, d.verdict(err)
	}
	defer d.close()
	return carry(ctx, &d.run, func(_ context.Context, give func(bringing) error) error { return d.judge(first, name, give) }, d.bring)
}

// down is a Get under way.
type down struct {
	run
	from   Place
	prefix string

	root   *os.Root // the target
	own    *os.Root // the run's folder in it, where files are until they are whole
	ownDir string   // its name
	lock   *os.File // is held as long as the run lives
	serial sync.Mutex
	count  int
	made   sync.Map // folders that are there
}

// bringing is an object that may have to be brought.
type bringing struct {
	store.Object
	name string
	tag  string // of the object, where only the file's content says whether it is this one
}

// open makes the target and the run's own folder in it, and sweeps those of runs that
// are no more.
func (d *down) open(target string) (err error) {
	if err := os.MkdirAll(target, 0o777); err != nil {
		return fault.Wrap(err, fault.Invalid, "Name a folder that can be written.", "make the folder")
	}
	if d.root, err = os.OpenRoot(target); err != nil {
		return err
	}
	sweep(d.root)
	dir, err := os.MkdirTemp(target, ours+"*")
	if err != nil {
		d.root.Close()
		return fault.Wrap(bare(err), fault.Invalid, "Name a folder that can be written.", "write to %s", target)
	}
	d.ownDir = filepath.Base(dir)
	if d.own, err = d.root.OpenRoot(d.ownDir); err == nil {
		d.lock, err = d.own.Create("lock")
	}
	if err == nil {
		err = syscall.Flock(int(d.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	}
	if err != nil {
		d.close()
	}
	return err
}

func (d *down) close() {
	if d.own != nil {
		d.own.Close()
	}
	_ = d.root.RemoveAll(d.ownDir) // what is left the next run sweeps
	if d.lock != nil {
		d.lock.Close()
	}
	d.root.Close()
}

// young is the age below which a lock that is free may be about to be taken.
const young = time.Minute

// sweep removes the folders of runs that ended without doing so. One without a lock
// was made a moment ago, or by a run that died in that moment: then it is empty.
func sweep(root *os.Root) {
	dir, err := root.Open(".")
	if err != nil {
		return
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(1000)
		for _, e := range entries {
			if !e.IsDir() || !strings.HasPrefix(e.Name(), ours) {
				continue
			}
			lock, err := root.Open(e.Name() + "/lock")
			if err != nil {
				continue
			}
			info, err := lock.Stat()
			if err == nil && time.Since(info.ModTime()) > young && syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
				_ = root.RemoveAll(e.Name())
			}
			lock.Close()
		}
		if err != nil {
			return
		}
	}
}

func (d *down) plan(o store.Object, next func() (store.Object, bool, error), give func(bringing) error) error {
	for more := true; more; {
		if err := d.judge(o, strings.TrimPrefix(o.Key, d.prefix), give); err != nil {
			return err
		}
		var err error
		if o, more, err = next(); err != nil {
			return err
		}
	}
	return nil
}

// judge decides what becomes of an object, by the file that is there.
func (d *down) judge(o store.Object, name string, give func(bringing) error) error {
	d.found.Add(1)
	d.foundBytes.Add(o.Size)
	if folder, marker := strings.CutSuffix(name, "/"); marker && o.Size == 0 || name == "" && o.Size == 0 {
		// A console's way to show a folder that holds nothing.
		if folder != "" && badName(folder) == "" {
			return d.folder(folder)
		}
		return nil
	}
	if why := badName(name); why != "" {
		d.refuse(o.Key, why)
		return nil
	}
	b := bringing{Object: o, name: name}
	info, err := d.root.Lstat(name)
	if err == nil && info.Mode().IsRegular() && info.Size() == o.Size {
		// What Get brought has the object's time: a file of another one is of
		// somebody else, or of another version.
		same := info.ModTime().Truncate(time.Second).Equal(o.Time.Truncate(time.Second)) && !o.Time.IsZero()
		if same && !d.o.Checksum {
			d.kept(o.Size)
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
			return "it is no path below a folder"
		case len(element) > 255:
			return "a part of its name is longer than 255 bytes"
		case strings.IndexByte(element, 0) >= 0:
			return "its name holds a zero byte"
		case strings.HasPrefix(element, ours):
			return "its name is one of drover's own"
		}
	}
	return ""
}

// folder makes a folder below the target, once.
func (d *down) folder(name string) error {
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

// bring fetches one object, unless its file holds it already.
func (d *down) bring(ctx context.Context, b bringing) error {
	if b.tag != "" {
		if same, err := d.holds(ctx, b); err != nil || same {
			return err
		}
	}
	err := d.folder(path.Dir(b.name))
	if err == nil {
		err = d.fetch(ctx, b)
	}
	if why := inTheWay(err); why != "" {
		d.refuse(b.Key, why)
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

// holds compares a file with its object's tag; if it is that one, it gets its time.
func (d *down) holds(ctx context.Context, b bringing) (bool, error) {
	f, err := d.root.Open(b.name)
	if err != nil {
		return false, nil
	}
	defer f.Close()
	same, err := holds(ctx, f, b.tag)
	if err != nil || !same {
		return false, err
	}
	d.kept(b.Size)
	return true, d.root.Chtimes(b.name, b.Time, b.Time)
}

// fetchTries is how often an object is begun anew that arrived damaged, or was
// replaced while it came.
const fetchTries = 4

func (d *down) fetch(ctx context.Context, b bringing) error {
	d.serial.Lock()
	d.count++
	name := fmt.Sprint(d.count)
	d.serial.Unlock()
	var err error
	for range fetchTries {
		var n int64
		n, err = d.write(ctx, b, name)
		if err == nil {
			if err = d.root.Rename(d.ownDir+"/"+name, b.name); err == nil {
				d.files.Add(1)
				return nil
			}
		}
		d.bytes.Add(-n)
		_ = d.own.Remove(name) // or the next run does
		if !errors.Is(err, store.ErrBusy) && !errors.Is(err, store.ErrCorrupt) || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// write brings an object into the run's own folder.
func (d *down) write(ctx context.Context, b bringing, name string) (n int64, err error) {
	body, err := d.from.Store.Open(ctx, b.Key, 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return 0, fault.Wrap(err, fault.Missing, "Somebody takes objects away there: run it again.", "bring %q", b.Key)
	}
	if err != nil {
		return 0, err
	}
	defer body.Close()
	f, err := d.own.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	n, err = d.copy(ctx, f, body, b.Size)
	if err == nil {
		err = f.Close()
	}
	if err == nil && !b.Time.IsZero() {
		err = d.own.Chtimes(name, b.Time, b.Time)
	}
	return n, err
}

var blocks = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// copy writes body to f and counts it as it goes.
func (d *down) copy(ctx context.Context, f *os.File, body io.Reader, size int64) (n int64, err error) {
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
