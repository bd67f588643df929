package items

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/glob"
	"github.com/drover-run/drover/internal/items/manifest"
)

// Collect reads a source to its end into a List, kept in a folder of its own
// below dir, which is made if need be; a range is never written out. What a
// folder or glob finds are items of their own, one a file, by absolute path in
// byte order; hidden ones are left out, and links to folders are not followed.
//
// A source that is not there is fault.Missing; one that holds no items, or what
// no item can be, is fault.Invalid and says which line. Objects of a bucket are items
// as files of a folder are, by their URLs without what stands behind a ?. gzip and zstd are
// unpacked. It returns when ctx is done, also from a pipe without a
// writer; the goroutine that reads it then stays until one writes.
func Collect(ctx context.Context, s Source, dir string) (*manifest.List, error) {
	switch s.Format {
	case "", manifest.Lines, manifest.CSV, manifest.JSONL:
	default:
		return nil, s.refuseSource("Use lines, csv or jsonl.", "there is no format %q", s.Format)
	}
	if r, is, err := parseSpan(s); err != nil {
		return nil, err
	} else if is {
		return rangeList(s, r)
	}
	switch {
	case s.From == "":
		return nil, s.refuseSource("Give it a file, a folder, a glob, - or a range: --from items.txt.", "it has no name")
	case strings.ContainsRune(s.From, 0):
		return nil, s.refuseSource("Check the path.", "it holds a NUL byte")
	case s.From == "-" && s.Stdin == nil:
		return nil, s.refuseSource("Name a file: --from items.txt.", "there is none")
	case s.From == "-":
		return fromReader(ctx, s, s.Stdin, dir)
	case isBucket(s.From):
		return fromBucket(ctx, s, dir)
	}
	return fromPath(ctx, s, dir)
}

// fromPath reads what stands at a path. A file of that very name comes before a
// glob, as a shell has it.
func fromPath(ctx context.Context, s Source, dir string) (*manifest.List, error) {
	path, err := s.pathBelow(s.From)
	if err != nil {
		return nil, fmt.Errorf("read items from %q: %w", s.From, err)
	}
	fi, err := os.Stat(path)
	switch {
	case absent(err) && glob.IsPattern(s.From):
		return fromGlob(ctx, s, dir)
	case absent(err):
		return nil, s.missingError(path)
	case err != nil:
		return nil, fault.Wrap(err, fault.Invalid, "Check the path and its permissions.", "read items from %q", s.From)
	case fi.IsDir():
		return fromFolder(ctx, s, path, dir)
	}
	if !fi.Mode().IsRegular() {
		return fromReader(ctx, s, &lazyFile{path: path}, dir)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fault.Wrap(err, fault.Denied, "Check its permissions.", "read items from %q", s.From)
	}
	defer f.Close()
	return fromReader(ctx, s, f, dir)
}

// fromReader reads lines, from r directly if it is a file that cannot block.
func fromReader(ctx context.Context, s Source, r io.Reader, dir string) (*manifest.List, error) {
	if f, is := r.(*os.File); is && regular(f) {
		r = while(ctx, f)
	} else {
		p := newPump(ctx, r)
		defer p.stopReads()
		r = p
	}
	c := &collector{Source: s, format: formatOf(s)}
	return manifest.Build(dir, c.format, func(p *manifest.Packer) error {
		c.packer = p
		return c.collectItems(ctx, r)
	})
}

func regular(f *os.File) bool {
	fi, err := f.Stat()
	return err == nil && fi.Mode().IsRegular()
}

// formatOf goes by a file's ending, behind which it may be packed.
func formatOf(s Source) string {
	if s.Format != "" {
		return s.Format
	}
	name := strings.ToLower(s.From)
	for _, packed := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, packed)
	}
	switch filepath.Ext(name) {
	case ".csv":
		return manifest.CSV
	case ".jsonl", ".ndjson", ".json":
		return manifest.JSONL
	}
	return manifest.Lines
}

func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.ENAMETOOLONG)
}

// missingError refuses what does not exist, with what was likely meant.
func (s Source) missingError(path string) error {
	hint := "Check the path, or pipe the items in with `--from -`."
	if f, err := os.Open(filepath.Dir(path)); err == nil {
		names, _ := f.Readdirnames(1000)
		f.Close()
		if near := fault.Nearest(filepath.Base(path), names); near != "" {
			hint = "Did you mean " + filepath.Join(filepath.Dir(s.From), near) + "?"
		}
	}
	if strings.HasPrefix(s.From, "~") {
		hint = "The shell leaves ~ alone behind =: write \"$HOME\" in its place."
	}
	return fault.New(fault.Missing, hint, "read items from %q: it is not there", s.From)
}

// lazyFile is opened by the first read: of a named pipe that may block.
type lazyFile struct {
	path string
	*os.File
}

func (f *lazyFile) Read(b []byte) (n int, err error) {
	if f.File == nil {
		if f.File, err = os.Open(f.path); err != nil {
			return 0, err
		}
	}
	return f.File.Read(b)
}
