package build

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/image"
)

// copyFiles does what COPY and ADD of files here do in Docker's classic builder.
func (s *stage) copyFiles(in image.Instruction) error {
	e := s.newExpander()
	var words []string
	for _, w := range in.Words() {
		w, err := e.expandToWord(w)
		if err != nil {
			return err
		}
		words = append(words, w)
	}
	to := words[len(words)-1]
	var from []string
	for _, w := range words[:len(words)-1] {
		paths, err := s.plan.Folder.Match(w)
		if err != nil {
			return fault.Wrap(err, fault.Invalid, fault.MarkedHint(err), "read %q", w)
		}
		from = append(from, paths...)
	}
	if len(from) == 0 {
		return fault.New(fault.Invalid, "Is it in the folder, and not named in .dockerignore?", "copy %s: no file here has that name", strings.Join(words[:len(words)-1], " "))
	}
	if len(from) > 1 && !strings.HasSuffix(to, "/") {
		return fault.New(fault.Invalid, "Write "+to+"/ for the destination.", "copy %d files to %q: a destination of several ends with a slash", len(from), to)
	}
	t, err := s.currentTree()
	if err != nil {
		return err
	}
	c := changes{}
	uid, gid := owner(in.Flag("chown"))
	for _, p := range from {
		if err := s.copyFileOrFolder(c, t, p, to, uid, gid); err != nil {
			return err
		}
	}
	return s.addLayer(in, c)
}

// copyFileOrFolder copies one file, or what is in one folder.
func (s *stage) copyFileOrFolder(c changes, t tree, from, to string, uid, gid int) error {
	file, err := follow1(s.plan.Folder, from)
	if err != nil {
		return err
	}
	slash := strings.HasSuffix(to, "/")
	if !path.IsAbs(to) {
		to = path.Join("/", s.cfg.Config.WorkingDir, to)
	}
	at, err := t.resolveLinks(to)
	if err != nil {
		return err
	}
	if file.Mode.IsDir() {
		return s.copyFolder(c, t, file.Path, at, uid, gid)
	}
	if n, ok := t[at]; slash || at == "" || ok && n.isFolder() {
		at = path.Join(at, path.Base(from))
	}
	if up := path.Dir(at); up != "." {
		if err := c.addFolders(t, up, uid, gid, s.newest); err != nil {
			return err
		}
	}
	s.putFile(c, t, at, file, uid, gid)
	return nil
}

func (s *stage) copyFolder(c changes, t tree, from, at string, uid, gid int) error {
	if at != "" {
		_, there := t[at]
		if err := c.addFolders(t, at, 0, 0, s.newest); err != nil {
			return err
		}
		if !there { // the folder itself is chown's too, those above it are not
			made := c[at]
			made.uid, made.gid = uid, gid
			c.putChange(t, at, made)
		}
	}
	for _, file := range s.plan.Folder.Below(from) {
		rel := file.Path
		if from != "." {
			rel = strings.TrimPrefix(rel, from+"/")
		}
		s.putFile(c, t, path.Join(at, rel), file, uid, gid)
	}
	return nil
}

// putFile adds one file as it is, with its new owner.
func (s *stage) putFile(c changes, t tree, at string, file image.File, uid, gid int) {
	h := file.Header()
	one := change{node: node{kind: h.Typeflag, mode: h.Mode, uid: uid, gid: gid, time: file.Time, link: h.Linkname}, size: h.Size}
	if file.Time.After(s.newest) {
		s.newest = file.Time
	}
	if file.Mode.IsRegular() {
		one.open = func() (io.ReadCloser, error) { return s.plan.Folder.Open(file) }
	}
	if !file.Mode.IsDir() { // giving a file to its owner, the kernel takes these away
		one.mode &^= 0o4000
		if one.mode&0o010 != 0 {
			one.mode &^= 0o2000
		}
	}
	if file.Mode&fs.ModeSymlink != 0 {
		one.mode = 0o777
	}
	c.putChange(t, at, one)
}

// owner reads a chown that isOwner has looked at.
func owner(words string) (uid, gid int) {
	if words == "" {
		return 0, 0
	}
	user, group, ok := strings.Cut(words, ":")
	uid, _ = strconv.Atoi(user) // digits: isOwner
	if gid = uid; ok {
		gid, _ = strconv.Atoi(group)
	}
	return uid, gid
}

// follow1 follows the links on the way to a named file, within the folder.
func follow1(f *image.Folder, p string) (image.File, error) {
	rest := strings.Split(p, "/")
	at := "."
	for links := 0; len(rest) > 0; {
		next := path.Join(at, rest[0])
		file, ok := f.Find(next)
		if !ok {
			return image.File{}, fault.New(fault.Invalid, "Is it in the folder, and not named in .dockerignore?", "copy %s: there is no such file", p)
		}
		rest = rest[1:]
		if file.Mode&fs.ModeSymlink == 0 {
			at = next
			continue
		}
		if links++; links > maxLinks {
			return image.File{}, fault.New(fault.Invalid, "", "copy %s: links lead in a circle", p)
		}
		to := file.Link
		if !path.IsAbs(to) {
			to = path.Join("/", at, to)
		}
		rest = append(strings.Split(strings.TrimPrefix(path.Clean(to), "/"), "/"), rest...)
		at = "."
	}
	file, _ := f.Find(at)
	return file, nil
}

// looksLikeTar: ADD unpacks what begins like an archive, compressed or not.
func looksLikeTar(head []byte) bool {
	if len(head) < 512 {
		return false
	}
	_, err := tar.NewReader(bytes.NewReader(head)).Next()
	return err == nil
}
