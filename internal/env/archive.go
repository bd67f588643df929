package env

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
)

// contents is the first entry of an archive: what it is, and how much there is
// of it. A torn archive has less, a hostile one more.
type contents struct {
	Format int    `json:"format"`
	Dir    string `json:"dir"` // where it was built, and the only place where it works
	Mark   mark   `json:"mark"`
	Names  int    `json:"names"` // files, folders and links
	Bytes  int64  `json:"bytes"` // of the files
}

const (
	contentsName  = "drover-env.json"
	archiveFormat = 1
	maxContents   = 1 << 20 // of contents, in bytes
	// widest is the most memory, in bytes, that an archive may ask of whoever
	// decompresses it; Export asks for 8 MiB.
	widest = 32 << 20
)

// Archive names the plan's environment for whoever keeps it elsewhere: the
// digest and the place, because an environment works in its own place alone.
// "" when the plan has none that could be kept.
func (p Plan) Archive() string {
	if p.asked == nil {
		return ""
	}
	return hashOf("drover env archive 1", p.Digest, p.folder())
}

// Export writes the plan's finished environment to w, as a tar archive under
// zstd: files with their modes and times, links as they are. It holds the
// environment meanwhile. One that is not built is fault.Missing. After an error
// w has a part of an archive, which Import refuses.
func Export(ctx context.Context, p Plan, w io.Writer) error {
	if p.asked == nil {
		return fault.New(fault.Invalid, "", "export environment: the plan builds none")
	}
	release, err := p.Hold(ctx)
	if err != nil {
		return err
	}
	defer release()
	dir := p.folder()
	if !complete(dir) {
		return fault.New(fault.Missing, "", "export environment: %s: it is not built", filepath.Base(dir))
	}
	m, err := readMark(dir)
	if err != nil {
		return fmt.Errorf("export environment: %w", err)
	}
	if err := export(ctx, w, contents{Format: archiveFormat, Dir: dir, Mark: m}); err != nil {
		return fmt.Errorf("export environment: %w", err)
	}
	return nil
}

func export(ctx context.Context, w io.Writer, c contents) error {
	zw, err := zstd.NewWriter(w)
	if err != nil {
		return err
	}
	defer zw.Close()
	names, err := c.count()
	if err != nil {
		return err
	}
	head, err := json.Marshal(c)
	if err != nil {
		return err
	}
	out := tar.NewWriter(zw)
	if err := out.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: contentsName, Size: int64(len(head)), Mode: 0o644}); err != nil {
		return err
	}
	if _, err := out.Write(head); err != nil {
		return err
	}
	for _, n := range names {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := n.write(c.Dir, out); err != nil {
			return err
		}
	}
	return errors.Join(out.Close(), zw.Close())
}

// name is one thing of an environment, as it was counted.
type name struct {
	path string // in the environment, with slashes
	info fs.FileInfo
}

// count lists the environment. Python writes bytecode into one that is in use:
// what comes later is left out.
func (c *contents) count() (names []name, err error) {
	err = filepath.WalkDir(c.Dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == c.Dir {
			return err
		}
		rel, err := filepath.Rel(c.Dir, path)
		if err != nil || rel == marker || rel == marker+".new" {
			return err
		}
		info, err := d.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.Mode().IsRegular():
			c.Bytes += info.Size()
		case !info.IsDir() && info.Mode().Type() != fs.ModeSymlink:
			return fmt.Errorf("%s: neither a file nor a folder nor a link", path)
		}
		c.Names++
		names = append(names, name{filepath.ToSlash(rel), info})
		return nil
	})
	return names, err
}

func (n name) write(dir string, out *tar.Writer) error {
	path := filepath.Join(dir, filepath.FromSlash(n.path))
	h := &tar.Header{Name: n.path, Mode: int64(n.info.Mode().Perm()), ModTime: n.info.ModTime().Truncate(time.Second)}
	switch {
	case n.info.IsDir():
		h.Typeflag, h.Name = tar.TypeDir, n.path+"/"
		return out.WriteHeader(h)
	case n.info.Mode().Type() == fs.ModeSymlink:
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		h.Typeflag, h.Linkname = tar.TypeSymlink, target
		return out.WriteHeader(h)
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h.Typeflag, h.Size = tar.TypeReg, n.info.Size()
	if err := out.WriteHeader(h); err != nil {
		return err
	}
	// Too short or too long now: tar's own fault says so.
	if _, err := io.Copy(out, f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// Import restores an environment that Export wrote for the same plan, at the
// same path; it returns at once, without reading r, when the environment is
// there. It keeps Build's promises: one at a time, and nothing is used that is
// not whole: what came is counted, and its Python is started. After an error
// nothing is left, and Build builds as if there had been no archive. One that
// is torn is fault.Lost; one for another plan or path, or that asks for more
// than files, folders and links inside, is fault.Invalid.
func Import(ctx context.Context, p Plan, r io.Reader) error {
	if p.asked == nil {
		return fault.New(fault.Invalid, "", "import environment: the plan builds none")
	}
	dir := p.folder()
	if complete(dir) {
		return nil
	}
	if err := privateFolder(envs(p.caller.Cache)); err != nil {
		return onDisk(err, "import environment")
	}
	l, err := lock(ctx, dir+lockEnd, p.asked.name()+" of "+p.caller.Dir, func(string) {})
	if err != nil {
		return err
	}
	defer l.Close()
	if complete(dir) {
		return nil
	}
	if err := wipe(dir); err != nil {
		return onDisk(err, "import environment")
	}
	m, err := unpack(ctx, p, dir, r)
	if err == nil {
		err = p.starts(ctx, dir)
	}
	if err != nil {
		wipe(dir)
		return onDisk(err, "import environment")
	}
	data, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return onDisk(writeMark(dir, data), "import environment")
}

// starts runs the environment's Python: the interpreter that it stands on may
// not be here, or not run here.
func (p *Plan) starts(ctx context.Context, dir string) error {
	python := filepath.Join(dir, "bin", "python")
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	b := builder{plan: p}
	out, err := quiet(ctx, "/", b.environ(), python, "-I", "-c", "import sys; print(sys.prefix)")
	if err != nil {
		return fault.Wrap(err, fault.Lost, "", "start %s", python)
	}
	if got := strings.TrimSpace(out); resolved(got) != resolved(dir) {
		return fault.New(fault.Invalid, "", "start %s: it belongs to %q", python, got)
	}
	return nil
}
