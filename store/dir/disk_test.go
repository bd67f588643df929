package dir_test

import (
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/store/dir"
)

// disk is a file system in memory that knows what a power cut would leave: file
// content and names of folders are certain only as of their last sync. Numbers of
// removed files are used again at once, as ext4 does.
type disk struct {
	mu     sync.Mutex
	root   *node
	serial uint64
	free   map[bool][]uint64 // inode numbers, of folders and of files
	clock  time.Time

	after     func(op, name string)       // seen after every change and sync
	fail      func(op, name string) error // makes an operation fail instead
	failAfter func(op, name string) error // lets it happen, and then says this
	skipSync  func(name string, folder bool) bool
	network   bool
	oneLink   bool // a mutant's eyes: every file has one name
	oneInode  bool // ... every folder the same number
	reuse     bool // ... a number is free although the file is open
}

type node struct {
	inode  uint64
	folder bool
	time   time.Time
	links  int
	opened int
	data   []byte
	synced bool // data is certain

	names map[string]*node
	// was is what each name may be after a power cut: the certain one first, nil
	// for absent, then every one since. A name that is not in it is certain.
	was map[string][]*node
}

func newDisk() *disk {
	d := &disk{free: map[bool][]uint64{}, clock: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	d.root = d.node(true)
	d.root.links = 1
	return d
}

func (d *disk) node(folder bool) *node {
	n := &node{folder: folder, time: d.clock}
	if free := d.free[folder]; len(free) > 0 {
		n.inode, d.free[folder] = free[len(free)-1], free[:len(free)-1]
	} else {
		d.serial++
		n.inode = d.serial
	}
	if folder {
		n.names, n.was = map[string]*node{}, map[string][]*node{}
	}
	return n
}

// find gives the folder that name is in, and what the name is there, or nil.
func (d *disk) find(op, name string) (parent *node, base string, n *node, err error) {
	parent = d.root
	n = d.root
	elements := strings.Split(strings.Trim(name, "/"), "/")
	if name == "/" {
		return nil, "", d.root, nil
	}
	for i, e := range elements {
		parent, base = n, e
		n = parent.names[e]
		if i == len(elements)-1 {
			break
		}
		if n == nil {
			return nil, "", nil, &os.PathError{Op: op, Path: name, Err: syscall.ENOENT}
		}
		if !n.folder {
			return nil, "", nil, &os.PathError{Op: op, Path: name, Err: syscall.ENOTDIR}
		}
	}
	return parent, base, n, nil
}

func (d *disk) set(parent *node, base string, n *node) {
	old := parent.names[base]
	if parent.was[base] == nil {
		parent.was[base] = []*node{old}
	}
	parent.was[base] = append(parent.was[base], n)
	if n == nil {
		delete(parent.names, base)
	} else {
		parent.names[base] = n
		n.links++
	}
	if old != nil {
		old.links--
		d.release(old)
	}
}

func (d *disk) release(n *node) {
	if n.links == 0 && (n.opened == 0 || d.reuse) {
		d.free[n.folder] = append(d.free[n.folder], n.inode)
	}
}

// do is one operation: it may be made to fail, and is seen when it is done.
func (d *disk) do(op, name string, f func() error) error {
	if d.fail != nil {
		if err := d.fail(op, name); err != nil {
			return &os.PathError{Op: op, Path: name, Err: err}
		}
	}
	d.mu.Lock()
	err := f()
	d.mu.Unlock()
	if err != nil {
		return err
	}
	if d.after != nil && op != "read" {
		d.after(op, name)
	}
	if d.failAfter != nil {
		if err := d.failAfter(op, name); err != nil {
			return &os.PathError{Op: op, Path: name, Err: err}
		}
	}
	return nil
}

func (d *disk) Open(name string, flag int) (file dir.File, err error) {
	op := "read"
	if flag&os.O_CREATE != 0 {
		op = "create"
	}
	err = d.do(op, name, func() error {
		parent, base, n, err := d.find("open", name)
		switch {
		case err != nil:
			return err
		case flag&os.O_CREATE == 0 && n == nil:
			return &os.PathError{Op: "open", Path: name, Err: syscall.ENOENT}
		case flag&os.O_CREATE != 0 && n != nil:
			return &os.PathError{Op: "open", Path: name, Err: syscall.EEXIST}
		case n == nil:
			n = d.node(false)
			d.set(parent, base, n)
		}
		n.opened++
		file = &handle{d: d, name: name, n: n}
		return nil
	})
	return file, err
}

func (d *disk) Mkdir(name string) error {
	return d.do("mkdir", name, func() error {
		parent, base, n, err := d.find("mkdir", name)
		if err != nil {
			return err
		}
		if n != nil {
			return &os.PathError{Op: "mkdir", Path: name, Err: syscall.EEXIST}
		}
		d.set(parent, base, d.node(true))
		return nil
	})
}

func (d *disk) Link(old, name string) error {
	return d.do("link", name, func() error {
		_, _, from, err := d.find("link", old)
		if err == nil && from == nil {
			err = &os.LinkError{Op: "link", Old: old, New: name, Err: syscall.ENOENT}
		}
		if err != nil {
			return err
		}
		parent, base, n, err := d.find("link", name)
		if err != nil {
			return err
		}
		if n != nil {
			return &os.LinkError{Op: "link", Old: old, New: name, Err: syscall.EEXIST}
		}
		d.set(parent, base, from)
		return nil
	})
}

func (d *disk) Rename(old, name string) error {
	return d.do("rename", name, func() error {
		fromParent, fromBase, from, err := d.find("rename", old)
		if err == nil && from == nil {
			err = &os.LinkError{Op: "rename", Old: old, New: name, Err: syscall.ENOENT}
		}
		if err != nil {
			return err
		}
		parent, base, n, err := d.find("rename", name)
		if err != nil {
			return err
		}
		if n != nil && n.folder {
			return &os.LinkError{Op: "rename", Old: old, New: name, Err: syscall.EISDIR}
		}
		d.set(parent, base, from)
		d.set(fromParent, fromBase, nil)
		return nil
	})
}

func (d *disk) Remove(name string, folder bool) error {
	return d.do("remove", name, func() error {
		parent, base, n, err := d.find("remove", name)
		switch {
		case err != nil:
			return err
		case n == nil:
			return &os.PathError{Op: "remove", Path: name, Err: syscall.ENOENT}
		case folder && !n.folder:
			return &os.PathError{Op: "rmdir", Path: name, Err: syscall.ENOTDIR}
		case !folder && n.folder:
			return &os.PathError{Op: "unlink", Path: name, Err: syscall.EISDIR}
		case len(n.names) > 0:
			return &os.PathError{Op: "rmdir", Path: name, Err: syscall.ENOTEMPTY}
		}
		d.set(parent, base, nil)
		return nil
	})
}

func (d *disk) Network(string) (bool, error) { return d.network, nil }

type handle struct {
	d    *disk
	name string
	n    *node
	left []string // names not yet given by ReadDir
}

func (h *handle) Write(p []byte) (int, error) {
	err := h.d.do("write", h.name, func() error {
		h.n.data, h.n.synced = append(h.n.data, p...), false
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

func (h *handle) ReadAt(p []byte, off int64) (int, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	n := 0
	if off < int64(len(h.n.data)) {
		n = copy(p, h.n.data[off:])
	}
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (h *handle) Sync() error {
	if h.d.skipSync != nil && h.d.skipSync(h.name, h.n.folder) {
		return nil
	}
	return h.d.do("sync", h.name, func() error {
		h.n.synced = true
		clear(h.n.was)
		return nil
	})
}

func (h *handle) Stat() (dir.Info, error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	info := dir.Info{Inode: h.n.inode, Links: uint64(h.n.links), Time: h.n.time, Dir: h.n.folder, File: !h.n.folder}
	if h.d.oneLink {
		info.Links = 1
	}
	if h.d.oneInode && h.n.folder {
		info.Inode = 1
	}
	return info, nil
}

func (h *handle) Close() error {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	h.n.opened--
	if h.n.opened == 0 && !h.d.reuse {
		h.d.release(h.n)
	}
	return nil
}

func (h *handle) ReadDir(n int) (entries []fs.DirEntry, err error) {
	h.d.mu.Lock()
	defer h.d.mu.Unlock()
	if h.left == nil {
		h.left = slices.Sorted(maps.Keys(h.n.names))
	}
	for len(h.left) > 0 && len(entries) < n {
		name := h.left[0]
		h.left = h.left[1:]
		if n := h.n.names[name]; n != nil {
			entries = append(entries, fs.FileInfoToDirEntry(listed{name: name, n: *n}))
		}
	}
	if len(entries) == 0 {
		return nil, io.EOF
	}
	return entries, nil
}

type listed struct {
	name string
	n    node
}

func (l listed) Name() string       { return l.name }
func (l listed) Size() int64        { return int64(len(l.n.data)) }
func (l listed) ModTime() time.Time { return l.n.time }
func (l listed) IsDir() bool        { return l.n.folder }
func (l listed) Sys() any           { return nil }
func (l listed) Mode() fs.FileMode {
	if l.n.folder {
		return fs.ModeDir | 0o700
	}
	return 0o600
}

// image is the disk after a power cut now. lost says that nothing uncertain has
// survived, kept that all has; otherwise each name and each byte is drawn.
func (d *disk) image(r *rand.Rand, lost, kept bool) *disk {
	d.mu.Lock()
	defer d.mu.Unlock()
	img := newDisk()
	made := map[*node]*node{}
	var copyOf func(n *node) *node
	copyOf = func(n *node) *node {
		if made[n] != nil {
			return made[n]
		}
		c := img.node(n.folder)
		made[n] = c
		if !n.folder {
			c.data, c.synced = n.left(r, lost, kept), true
			return c
		}
		possible := maps.Clone(n.names)
		for _, name := range slices.Sorted(maps.Keys(n.was)) {
			states := n.was[name]
			switch {
			case lost:
				possible[name] = states[0]
			case !kept:
				possible[name] = states[r.IntN(len(states))]
			}
		}
		for _, name := range slices.Sorted(maps.Keys(possible)) {
			if child := possible[name]; child != nil {
				c.names[name] = copyOf(child)
				c.names[name].links++
			}
		}
		return c
	}
	img.root = copyOf(d.root)
	img.root.links = 1
	return img
}

// left is what is left of a file's content: of one not synced, anything.
func (n *node) left(r *rand.Rand, lost, kept bool) []byte {
	data := slices.Clone(n.data)
	if n.synced || kept {
		return data
	}
	if lost {
		return nil
	}
	cut := r.IntN(len(data) + 1)
	switch r.IntN(3) {
	case 0:
		return data[:cut]
	case 1:
		clear(data[cut:]) // the size is there, the blocks are not
	default:
		for block := range slices.Chunk(data, sector) { // they came in any order
			if r.IntN(2) == 0 {
				clear(block)
			}
		}
	}
	return data
}

// sector is what a disk writes whole: small, so that small objects have many.
const sector = 16

func (d *disk) tree() (names []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	var walk func(at string, n *node)
	walk = func(at string, n *node) {
		names = append(names, at)
		for _, name := range slices.Sorted(maps.Keys(n.names)) {
			walk(path.Join(at, name), n.names[name])
		}
	}
	walk("/", d.root)
	return names
}
