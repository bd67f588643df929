package bundle

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
)

// widest is the most memory, in bytes, that an archive may ask of its
// reader; Pack asks for 8 MiB.
const widest = 32 << 20

// Unpack lays a bundle out in dir, which is made if it is not there and should
// hold nothing: a file that is there already is an error. Only regular files
// and folders inside dir are made, with modes 0644 or 0755 as the umask allows.
// r is read to its end, so that a digest checked there is checked. After an
// error dir holds a part and is to be thrown away; an archive that asks for
// anything else, or for more than caps, is fault.Invalid.
func Unpack(ctx context.Context, r io.Reader, dir string, caps Caps) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("unpack code: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("unpack code: %w", err)
	}
	defer root.Close()
	if err := readArchive(ctx, r, &layer{root}, caps); err != nil {
		return fmt.Errorf("unpack code: %w", err)
	}
	return nil
}

// Contents reads what Unpack would lay out, by the same rules, and gives the names,
// sizes, modes and digests alone.
func Contents(ctx context.Context, r io.Reader, caps Caps) (tree.Tree, error) {
	var found summary
	if err := readArchive(ctx, r, &found, caps); err != nil {
		return tree.Tree{}, fmt.Errorf("read code: %w", err)
	}
	return found.tree, nil
}

// readArchive checks an archive, and gives what it holds to s.
func readArchive(ctx context.Context, r io.Reader, s sink, caps Caps) error {
	in := &counter{r: &ctxReader{ctx, r}}
	zr, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(widest))
	if err != nil {
		return err
	}
	defer zr.Close()
	u := &unpacker{sink: s, caps: caps.withDefaults(), made: map[string]made{}}
	u.out = &meter{r: zr, in: in, caps: u.caps}
	return u.unpackAll()
}

// sink takes what an archive holds, once that is checked.
type sink interface {
	makeFolder(name string) error
	writeFile(name string, h *tar.Header, body io.Reader) error
}

// layer lays an archive out in a folder.
type layer struct{ root *os.Root }

func (l *layer) makeFolder(name string) error { return l.root.MkdirAll(name, 0o755) }

// summary keeps the digests of an archive's files.
type summary struct{ tree tree.Tree }

func (*summary) makeFolder(string) error { return nil }

func (c *summary) writeFile(name string, h *tar.Header, body io.Reader) error {
	sum := sha256.New()
	n, err := io.Copy(sum, body)
	if err != nil {
		return fmt.Errorf("%q: %w", name, err)
	}
	c.tree.Files = append(c.tree.Files, tree.File{Path: name, Size: n, Mode: tree.ShipMode(uint32(h.Mode & 0o777)), SHA256: store.Digest(hex.EncodeToString(sum.Sum(nil)))})
	return nil
}

type unpacker struct {
	sink  sink
	caps  Caps
	out   *meter
	made  map[string]made
	names int
	bytes int64
}

// made is what stands under a name so far.
type made uint8

const (
	nothing made = iota
	implied      // a folder, only because something is in it
	folder       // a folder that the archive names
	file
)

func (u *unpacker) unpackAll() error {
	archive := tar.NewReader(u.out)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if err := u.unpackEntry(h, archive); err != nil {
			return err
		}
	}
	// What follows the archive's end is padding, or a second opinion.
	var rest [4096]byte
	for {
		n, err := u.out.Read(rest[:])
		if strings.Trim(string(rest[:n]), "\x00") != "" {
			return tree.RefuseArchive("something follows the end of the archive")
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (u *unpacker) unpackEntry(h *tar.Header, body io.Reader) error {
	name := h.Name
	if h.Typeflag == tar.TypeDir {
		name = strings.TrimSuffix(name, "/")
	}
	if err := tree.CheckName(name); err != nil {
		return tree.RefuseArchive("%q: %v", h.Name, err)
	}
	as := file
	if h.Typeflag == tar.TypeDir {
		as = folder
	}
	before := u.made[name]
	switch {
	case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir:
		return tree.RefuseArchive("%q: neither a file nor a folder (type %q)", name, h.Typeflag)
	case before > implied || before == implied && as == file:
		return tree.RefuseArchive("%q: twice in the archive", name)
	case u.names >= u.caps.Files:
		return tree.RefuseArchive("more than %d files", u.caps.Files)
	case strings.Count(name, "/") > u.caps.Depth:
		return tree.RefuseArchive("%q: more than %d folders deep", name, u.caps.Depth)
	case h.Size < 0 || h.Size > u.caps.Bytes-u.bytes:
		return tree.RefuseArchive("%q: more than %s in all", name, tree.SizeText(u.caps.Bytes))
	}
	u.names++
	u.made[name] = as
	fresh := path.Dir(name) != "." && u.made[path.Dir(name)] == nothing
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if u.made[dir] == file {
			return tree.RefuseArchive("%q: both a folder and not one", dir)
		}
		u.made[dir] = max(u.made[dir], implied)
	}
	if as == folder {
		return u.sink.makeFolder(name)
	}
	if fresh {
		if err := u.sink.makeFolder(path.Dir(name)); err != nil {
			return err
		}
	}
	u.bytes += h.Size
	return u.sink.writeFile(name, h, body)
}

func (l *layer) writeFile(name string, h *tar.Header, body io.Reader) error {
	perm := os.FileMode(tree.ShipMode(uint32(h.Mode & 0o777)))
	// O_EXCL follows no link and replaces nothing; the mode is set here, for
	// a later chmod could be led elsewhere.
	f, err := l.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	if _, err := io.Copy(f, body); err != nil {
		f.Close()
		return fmt.Errorf("%q: %w", name, err)
	}
	return f.Close()
}

// counter counts what is read of the compressed side.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// meter watches the uncompressed side, headers and padding included: an archive
// can be all headers.
type meter struct {
	r    io.Reader
	in   *counter
	caps Caps
	n    int64
}

// headers is what an honest archive may spend on one name: a block for it,
// a block and a record for a long or foreign name, and padding.
const headers = 8 << 10

func (m *meter) Read(p []byte) (int, error) {
	n, err := m.r.Read(p)
	m.n += int64(n)
	if m.n > m.caps.Bytes+int64(m.caps.Files)*headers+1<<20 {
		return 0, tree.RefuseArchive("more than %s in all", tree.SizeText(m.caps.Bytes))
	}
	if m.n > ratioFree && m.n/m.caps.Ratio > m.in.n {
		return 0, tree.RefuseArchive("more than %d times its compressed size", m.caps.Ratio)
	}
	return n, err
}
