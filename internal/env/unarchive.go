package env

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
)

// unpack lays an archive out in dir, which is not there yet, and gives the mark
// that it came with. All names go through os.Root: a link may point anywhere,
// as bin/python does, and nothing is written through it.
func unpack(ctx context.Context, p Plan, dir string, r io.Reader) (mark, error) {
	zr, err := zstd.NewReader(&ctxReader{ctx, r}, zstd.WithDecoderMaxWindow(widest))
	if err != nil {
		return mark{}, err
	}
	defer zr.Close()
	in := tar.NewReader(zr)
	c, err := readContents(in, p, dir)
	if err != nil {
		return mark{}, torn(ctx, err)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return mark{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return mark{}, err
	}
	defer root.Close()
	u := unpacker{root: root, made: map[string]bool{".": true}, names: c.Names, bytes: c.Bytes}
	for {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = u.one(h, in)
		}
		if err != nil {
			return mark{}, torn(ctx, err)
		}
	}
	if u.names != 0 || u.bytes != 0 {
		return mark{}, torn(ctx, io.ErrUnexpectedEOF)
	}
	// To the end, where the checksum of the whole stands.
	if n, err := io.Copy(io.Discard, io.LimitReader(zr, maxContents)); err != nil || n == maxContents {
		return mark{}, torn(ctx, errors.Join(err, io.ErrUnexpectedEOF))
	}
	return c.Mark, nil
}

// torn gives an archive that ends or breaks in the middle its kind; what is
// known better stays.
func torn(ctx context.Context, err error) error {
	var f *fault.Fault
	var at *fs.PathError
	var link *os.LinkError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &f):
		return err
	case errors.As(err, &at), errors.As(err, &link):
		return err // the disk's, or os.Root's
	case errors.Is(err, io.EOF):
		err = io.ErrUnexpectedEOF
	}
	return fault.Wrap(err, fault.Lost, "", "read archive")
}

func refuse(format string, args ...any) error {
	return fault.New(fault.Invalid, "", "refuse archive: "+format, args...)
}

func readContents(in *tar.Reader, p Plan, dir string) (contents, error) {
	var c contents
	h, err := in.Next()
	if err != nil {
		return c, err
	}
	if h.Name != contentsName || h.Typeflag != tar.TypeReg || h.Size > maxContents {
		return c, refuse("it does not begin with %s", contentsName)
	}
	data, err := io.ReadAll(in)
	if err != nil {
		return c, err
	}
	switch err := json.Unmarshal(data, &c); {
	case err != nil:
		return c, refuse("%s: %v", contentsName, err)
	case c.Format != archiveFormat:
		return c, refuse("format %d, which this drover does not know", c.Format)
	case c.Mark.Digest != p.Digest:
		return c, refuse("it is the environment %.12q, not %.12s", c.Mark.Digest, p.Digest)
	case c.Dir != dir:
		return c, refuse("it works in %q alone, not in %q", c.Dir, dir)
	}
	return c, nil
}

type unpacker struct {
	root  *os.Root
	made  map[string]bool // names so far, true for a folder
	names int             // still to come
	bytes int64           // still to come
}

func (u *unpacker) one(h *tar.Header, body io.Reader) error {
	name := strings.TrimSuffix(h.Name, "/")
	if name == "" || name != path.Clean(name) || !filepath.IsLocal(filepath.FromSlash(name)) || name == "." || strings.ContainsRune(name, 0) {
		return refuse("%q: not a name in its folder", h.Name)
	}
	if name == marker || strings.HasPrefix(name, marker+"/") {
		return refuse("%q: a name that drover keeps for itself", h.Name)
	}
	if u.names--; u.names < 0 {
		return refuse("%q: more than it counts", h.Name)
	}
	if _, twice := u.made[name]; twice {
		return refuse("%q: twice in the archive", h.Name)
	}
	if !u.made[path.Dir(name)] {
		return refuse("%q: it is in no folder of the archive", h.Name)
	}
	u.made[name] = h.Typeflag == tar.TypeDir
	perm := fs.FileMode(h.Mode) & 0o755 // no others write
	switch h.Typeflag {
	case tar.TypeDir:
		return u.root.Mkdir(name, perm|0o700)
	case tar.TypeSymlink:
		return u.root.Symlink(h.Linkname, name)
	case tar.TypeReg:
		if u.bytes -= h.Size; u.bytes < 0 || h.Size < 0 {
			return refuse("%q: more than it counts", h.Name)
		}
		return u.file(name, perm, h, body)
	}
	return refuse("%q: neither a file nor a folder nor a link (type %q)", h.Name, h.Typeflag)
}

// file keeps the time: Python compares it with what its bytecode was made from.
func (u *unpacker) file(name string, perm fs.FileMode, h *tar.Header, body io.Reader) error {
	// O_EXCL follows no link and replaces nothing.
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, body)
	if err = errors.Join(err, f.Chmod(perm), f.Close()); err != nil {
		return err
	}
	return u.root.Chtimes(name, h.ModTime, h.ModTime)
}

// ctxReader stops a long read when ctx is done.
type ctxReader struct {
	ctx context.Context
	r   io.Reader
}

func (r *ctxReader) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.r.Read(p)
}
