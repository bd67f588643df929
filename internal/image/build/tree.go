package build

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drover-run/drover/fault"
)

// A node is what lies at one path of an image, as far as another layer must know.
type node struct {
	kind     byte // tar's type
	mode     int64
	uid, gid int
	time     time.Time
	link     string
	records  map[string]string // extended attributes
}

func (n node) isFolder() bool { return n.kind == tar.TypeDir }

// tree is an image's files: "usr/bin/env", without contents. Where COPY goes
// depends on it: whether the destination is a folder, and which links lead there.
// And a layer that names a file must name its folders again, as they are.
type tree map[string]node

// maxNodes is far above any real image (a full PyTorch one has 200,000), and
// below what a hostile one needs to fill the memory.
const maxNodes = 4_000_000

// readTree lists all layers of an image, which fetches them.
func readTree(ctx context.Context, img v1.Image, to io.Writer) (tree, error) {
	layers, err := img.Layers()
	if err != nil {
		return nil, registryFault(ctx, err, "read image", "")
	}
	t := tree{}
	for i, l := range layers {
		fmt.Fprintf(to, "Reading layer %d of %d\n", i+1, len(layers))
		if err := t.applyLayer(ctx, l); err != nil {
			if ctx.Err() != nil {
				return nil, fault.Wrap(context.Cause(ctx), fault.Interrupted, "", "read image")
			}
			return nil, fault.Wrap(err, fault.Lost, "", "read image: layer %d of %d", i+1, len(layers))
		}
	}
	return t, nil
}

// applyLayer puts one layer upon what is below it.
func (t tree) applyLayer(ctx context.Context, l v1.Layer) error {
	rc, err := l.Uncompressed()
	if err != nil {
		return err
	}
	defer rc.Close()
	upper := map[string]bool{} // what this layer brings: a later mark hides only what is below
	for r := tar.NewReader(rc); ; {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		base := path.Base(name)
		switch hides := strings.TrimPrefix(base, ".wh."); {
		case name == "":
			continue
		case base == ".wh..wh..opq":
			t.removePath(path.Dir(name), true, upper)
		case strings.HasPrefix(base, ".wh..wh."):
			// aufs's own notes
		case hides != base:
			t.removePath(path.Join(path.Dir(name), hides), false, nil)
		default:
			if old, ok := t[name]; ok && old.isFolder() && h.Typeflag != tar.TypeDir {
				t.removePath(name, false, nil)
			}
			if len(t) >= maxNodes {
				return errors.New("more files than any image has")
			}
			t[name] = nodeOf(h, t)
			upper[name] = true
		}
	}
}

func nodeOf(h *tar.Header, t tree) node {
	n := node{kind: h.Typeflag, mode: h.Mode & 0o7777, uid: h.Uid, gid: h.Gid, time: h.ModTime, link: h.Linkname}
	switch h.Typeflag {
	case tar.TypeLink:
		if to, ok := t[strings.TrimPrefix(path.Clean("/"+h.Linkname), "/")]; ok {
			return to
		}
		n.kind = tar.TypeReg
	case tar.TypeDir:
		for k, v := range h.PAXRecords {
			if strings.HasPrefix(k, "SCHILY.xattr.") {
				if n.records == nil {
					n.records = map[string]string{}
				}
				n.records[k] = v
			}
		}
	}
	return n
}

// removePath takes a path and all below it away; with inside only what is below it,
// but for what is in keep.
func (t tree) removePath(name string, inside bool, keep map[string]bool) {
	if name == "." {
		name = ""
	}
	for p := range t {
		below := name == "" || strings.HasPrefix(p, name+"/")
		if !keep[p] && (below || !inside && p == name) {
			delete(t, p)
		}
	}
}

// maxLinks is Linux's own limit on links in one path.
const maxLinks = 40

// resolveLinks follows the links on the way to p, within the image, the last element
// too. What is not there stays as it is written.
func (t tree) resolveLinks(p string) (string, error) {
	rest := strings.Split(strings.Trim(path.Clean("/"+p), "/"), "/")
	at, links := "", 0
	for len(rest) > 0 {
		next := path.Join(at, rest[0])
		n, ok := t[next]
		rest = rest[1:]
		if !ok || n.kind != tar.TypeSymlink {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return "", fault.New(fault.Invalid, "", "copy to %s: links in the image lead in a circle", p)
		}
		to := n.link
		if !path.IsAbs(to) {
			to = path.Join("/", at, to)
		}
		rest = append(strings.Split(strings.Trim(path.Clean(to), "/"), "/"), rest...)
		at = ""
	}
	if at == "." {
		at = ""
	}
	return at, nil
}

// a change is what a layer brings to one path, with where a file's bytes are.
type change struct {
	node
	size int64
	open func() (io.ReadCloser, error)
}

// changes are those of one layer.
type changes map[string]change

// putChange records a change in layer and tree.
func (c changes) putChange(t tree, name string, one change) {
	if name == "" {
		return // the root folder stays as it is
	}
	if old, ok := t[name]; ok && old.isFolder() && !one.isFolder() {
		t.removePath(name, false, nil)
		for p := range c {
			if strings.HasPrefix(p, name+"/") {
				delete(c, p)
			}
		}
	}
	t[name] = one.node
	c[name] = one
}

// addFolders makes a path and what is above it, as far as it is missing.
func (c changes) addFolders(t tree, name string, uid, gid int, at time.Time) error {
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '/' || i == 0 {
			continue
		}
		p := name[:i]
		if n, ok := t[p]; ok {
			if !n.isFolder() {
				return fault.New(fault.Invalid, "Choose another destination.", "copy to /%s: /%s in the image is not a folder", name, p)
			}
			continue
		}
		c.putChange(t, p, change{node: node{kind: tar.TypeDir, mode: 0o755, uid: uid, gid: gid, time: at}})
	}
	return nil
}

// writeArchive makes the layer's archive: each change, and the folders above it as they
// are. Without these a daemon would make them anew, with modes of its own.
func (c changes) writeArchive(t tree, w io.Writer) error {
	for name := range maps.Clone(c) {
		for up := path.Dir(name); up != "."; up = path.Dir(up) {
			if n, ok := t[up]; ok && c[up].kind == 0 {
				c[up] = change{node: n}
			}
		}
	}
	a := tar.NewWriter(w)
	for _, name := range slices.Sorted(maps.Keys(c)) {
		one := c[name]
		h := &tar.Header{Typeflag: one.kind, Name: name, Mode: one.mode, Uid: one.uid, Gid: one.gid, ModTime: one.time, Linkname: one.link,
			Size: one.size, PAXRecords: one.records, Format: tar.FormatPAX}
		if one.isFolder() {
			h.Name += "/"
		}
		if err := a.WriteHeader(h); err != nil {
			return fmt.Errorf("write layer: /%s: %w", name, err)
		}
		if one.open == nil {
			continue
		}
		r, err := one.open()
		if err != nil {
			return err
		}
		_, err = io.CopyN(a, r, one.size)
		r.Close()
		if err != nil {
			return fmt.Errorf("write layer: /%s: %w", name, err)
		}
	}
	return a.Close()
}
