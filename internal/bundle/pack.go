package bundle

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
)

// Bundle is code that has been sent.
type Bundle struct {
	Blob    store.Digest // the archive, for Unpack
	Content string       // List.Digest of what is in it: the same whatever the compressor
	Bytes   int64        // of the archive
}

// Put packs l, by way of an unlinked temporary file, and sends it. A file that
// changes while it is read makes the whole be read again; ErrChanging, as
// fault.Invalid, when that has not helped.
func Put(ctx context.Context, b tree.Blobs, l List) (Bundle, error) {
	tmp, err := os.CreateTemp("", "drover-bundle-*")
	if err != nil {
		return Bundle{}, fmt.Errorf("pack code: %w", err)
	}
	defer tmp.Close()
	defer os.Remove(tmp.Name())
	var out Bundle
	for try := 1; ; try++ {
		out.Content, err = Pack(ctx, l, tmp)
		if err == nil {
			break
		}
		if !errors.Is(err, tree.ErrChanging) || try == tree.Attempts {
			return Bundle{}, err
		}
		if err := tmp.Truncate(0); err != nil {
			return Bundle{}, fmt.Errorf("pack code: %w", err)
		}
		if _, err := tmp.Seek(0, io.SeekStart); err != nil {
			return Bundle{}, fmt.Errorf("pack code: %w", err)
		}
	}
	out.Blob, out.Bytes, err = b.PutBlob(ctx, tmp)
	if err != nil {
		return Bundle{}, fmt.Errorf("send code: %w", err)
	}
	return out, nil
}

const (
	// small files are read whole, ahead of their turn, and again if they
	// changed meanwhile; larger ones go straight through.
	small = 1 << 20
	// ahead is how many small files may wait for their turn: opening is what
	// takes the time, so they are opened side by side. At most ahead*small
	// bytes of memory.
	ahead = 16
)

// Pack writes l to w as a zstd-compressed tar archive and returns the content's
// digest, which is List.Digest. The same files give the same bytes: sorted,
// modes 0644 or 0755 by the owner's x bit, no times, no owners. A file that
// changes while it is read is read again where it is small; otherwise, and when
// that has not helped, the error is ErrChanging and w holds rubbish.
func Pack(ctx context.Context, l List, w io.Writer) (string, error) {
	// One block at a time: the bytes must not depend on the number of cores.
	zw, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return "", fmt.Errorf("pack code: %w", err)
	}
	defer zw.Close()
	p := &packer{tar: tar.NewWriter(zw), left: l.caps.withDefaults().Bytes}
	err = inOrder(ctx, l.Entries, func(e Entry, c content, err error) error {
		if err == nil {
			err = p.writeEntry(ctx, e, c)
		}
		return readFault(e, err)
	})
	if err != nil {
		return "", err
	}
	if err := errors.Join(p.tar.Close(), zw.Close()); err != nil {
		return "", fmt.Errorf("pack code: %w", err)
	}
	return p.tree.Digest(), nil
}

// readFault adds the remedy to what went wrong with one file.
func readFault(e Entry, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, tree.ErrChanging) || errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(&WrittenError{e.Name}, fault.Invalid, "Wait until nothing writes it, or leave it out with a line in .droverignore.", "pack code: %q", e.Name)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(err, fault.Denied, "Make it readable, or leave it out with a line in .droverignore.", "pack code: %q", e.Name)
	}
	return fmt.Errorf("pack code: %q: %w", e.Name, err)
}

// content is one file, read or only looked at.
type content struct {
	data  []byte // nil: large, not read yet
	large bool
	mode  uint32
	sha   store.Digest
}

// inOrder reads entries side by side and gives them to f one by one, in order.
func inOrder(ctx context.Context, entries []Entry, f func(Entry, content, error) error) error {
	ctx, cancel := context.WithCancel(ctx)
	type result struct {
		content
		err error
	}
	slots := make(chan chan result, ahead)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	wg.Go(func() {
		defer close(slots)
		for _, e := range entries {
			slot := make(chan result, 1)
			select {
			case slots <- slot:
			case <-ctx.Done():
				return
			}
			wg.Go(func() {
				c, err := load(e)
				slot <- result{c, err}
			})
		}
	})
	for _, e := range entries {
		slot, open := <-slots
		if !open {
			break
		}
		r := <-slot
		if err := f(e, r.content, r.err); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// load reads a small file whole, as often as it takes to see it stand still.
func load(e Entry) (content, error) {
	for range tree.Attempts {
		c, err := loadOnce(e)
		if !errors.Is(err, tree.ErrChanging) {
			return c, err
		}
	}
	return content{}, tree.ErrChanging
}

func loadOnce(e Entry) (content, error) {
	f, fi, err := openPlain(e.path)
	if err != nil {
		return content{}, err
	}
	defer f.Close()
	c := content{mode: mode(fi), large: fi.Size() > small}
	if c.large {
		return c, nil
	}
	data := bytes.NewBuffer(make([]byte, 0, fi.Size()+bytes.MinRead))
	if _, err := data.ReadFrom(io.LimitReader(f, fi.Size()+1)); err != nil {
		return content{}, err
	}
	if err := stood(f, fi, int64(data.Len())); err != nil {
		return content{}, err
	}
	sum := sha256.Sum256(data.Bytes())
	c.data, c.sha = data.Bytes(), store.Digest(hex.EncodeToString(sum[:]))
	return c, nil
}

// stood checks that f is as before and that n bytes were all of it.
func stood(f *os.File, before os.FileInfo, n int64) error {
	after, err := f.Stat()
	if err != nil {
		return err
	}
	if n != before.Size() || !tree.StampOf(before).SameContent(tree.StampOf(after)) {
		return tree.ErrChanging
	}
	return nil
}

func mode(fi os.FileInfo) uint32 { return tree.ShipMode(uint32(fi.Mode().Perm())) }

// packer writes the archive and keeps what its digest needs.
type packer struct {
	tar  *tar.Writer
	tree tree.Tree
	left int64 // bytes until Caps.Bytes: a file may have grown since the scan
}

func (p *packer) writeEntry(ctx context.Context, e Entry, c content) error {
	if c.large {
		return p.streamFile(ctx, e)
	}
	if err := p.writeHeader(e, int64(len(c.data)), c.mode); err != nil {
		return err
	}
	if _, err := p.tar.Write(c.data); err != nil {
		return err
	}
	p.tree.Files = append(p.tree.Files, tree.File{Path: e.Name, Size: int64(len(c.data)), Mode: c.mode, SHA256: c.sha})
	return nil
}

// streamFile sends a large file through, once.
func (p *packer) streamFile(ctx context.Context, e Entry) error {
	f, fi, err := openPlain(e.path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := p.writeHeader(e, fi.Size(), mode(fi)); err != nil {
		return err
	}
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(p.tar, sum), &ctxReader{ctx, io.LimitReader(f, fi.Size())})
	if err != nil {
		return err
	}
	if err := stood(f, fi, n); err != nil {
		return err
	}
	p.tree.Files = append(p.tree.Files, tree.File{Path: e.Name, Size: n, Mode: mode(fi), SHA256: store.Digest(hex.EncodeToString(sum.Sum(nil)))})
	return nil
}

func (p *packer) writeHeader(e Entry, size int64, mode uint32) error {
	if p.left -= size; p.left < 0 {
		return fault.Wrap(ErrTooBig, fault.Invalid, "Leave it out with a line in .droverignore.", "read %s, grown since it was scanned", tree.SizeText(size))
	}
	return p.tar.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: e.Name, Size: size, Mode: int64(mode), ModTime: time.Unix(0, 0)})
}

// WrittenError is an ErrChanging that names the file, as in the bundle.
type WrittenError struct{ Name string }

func (e *WrittenError) Error() string { return tree.ErrChanging.Error() }

// Unwrap is ErrChanging.
func (e *WrittenError) Unwrap() error { return tree.ErrChanging }

// LeaveOut takes a file out of the list, and says so in Left, if Source.Judge was
// uncertain that it is code.
func (l *List) LeaveOut(name, why string) bool {
	i := slices.IndexFunc(l.Entries, func(e Entry) bool { return e.Name == name })
	if i < 0 || !l.Entries[i].uncertain {
		return false
	}
	l.Bytes -= l.Entries[i].Size
	l.Entries = slices.Delete(slices.Clone(l.Entries), i, i+1)
	l.Left = append(slices.Clone(l.Left), Left{name, why})
	return true
}

// Certain tells whether the list has a file that is code for certain.
func (l List) Certain(name string) bool {
	return slices.ContainsFunc(l.Entries, func(e Entry) bool { return e.Name == name && !e.uncertain })
}

// Digest is the content's digest without packing it: Tree.Digest of the files
// with modes 0644 and 0755.
func (l List) Digest(ctx context.Context) (string, error) {
	t, err := l.Tree(ctx)
	if err != nil {
		return "", err
	}
	return t.Digest(), nil
}

// Tree is what the archive of the list is going to hold.
func (l List) Tree(ctx context.Context) (tree.Tree, error) {
	files := make([]tree.File, len(l.Entries))
	err := tree.ForEach(ctx, len(files), func(ctx context.Context, i int) error {
		f, err := hash(ctx, l.Entries[i])
		files[i] = f
		return readFault(l.Entries[i], err)
	})
	return tree.Tree{Files: files}, err
}

func hash(ctx context.Context, e Entry) (tree.File, error) {
	var err error
	for range tree.Attempts {
		var file tree.File
		if file, err = hashOnce(ctx, e); !errors.Is(err, tree.ErrChanging) {
			return file, err
		}
	}
	return tree.File{}, err
}

func hashOnce(ctx context.Context, e Entry) (tree.File, error) {
	f, fi, err := openPlain(e.path)
	if err != nil {
		return tree.File{}, err
	}
	defer f.Close()
	sum := sha256.New()
	n, err := io.Copy(sum, &ctxReader{ctx, f})
	if err != nil {
		return tree.File{}, err
	}
	return tree.File{Path: e.Name, Size: n, Mode: mode(fi), SHA256: store.Digest(hex.EncodeToString(sum.Sum(nil)))}, stood(f, fi, n)
}

// ctxReader stops a long copy when ctx is done.
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
