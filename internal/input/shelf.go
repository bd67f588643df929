package input

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
)

// shelf is the folder of one address:
//
//	kept.json           what is there, whole: written last, by rename
//	SHA256/NAME         the file; a new one never takes the place of an old one
//	part, part.json     what came so far, and of which version it is
//
// part belongs to the holder of its lock. A command without it, because another
// one fetches the same, has a part of its own that no command goes on with.
type shelf struct {
	dir, name string
	kept      version // "" SHA256: nothing
	coming    version
	part      *os.File
	own       bool // part is no other command's business, and goes with us
	size      int64
	hash      hash.Hash
	asked     request
	same      bool // the server says that kept is what there is
	bare      bool // part is the file, for a command that fetches it alone, and a power cut ends that too
}

// request is what was asked for, and so which answers make sense.
type request int

const (
	theWhole request = iota
	theNewer         // than what is kept
	theRest          // of what is coming
)

// version is what a server says about a file, and what it was.
type version struct {
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"last_modified,omitempty"`
	Size     int64  `json:"size"` // -1: not said
	Time     int64  `json:"time,omitempty"`
	SHA256   string `json:"sha256,omitempty"`
}

func versionOf(h http.Header, size int64) version {
	return version{ETag: h.Get("ETag"), Modified: h.Get("Last-Modified"), Size: size}
}

// strongETag is what If-Range takes to mean this version, byte for byte; "": nothing.
func (v version) strongETag() string {
	if v.ETag != "" {
		if strings.HasPrefix(v.ETag, "W/") {
			return ""
		}
		return v.ETag
	}
	return v.Modified
}

func openShelf(dir, name string) (s *shelf, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s = &shelf{dir: dir, name: name, hash: sha256.New()}
	if read(filepath.Join(dir, "kept.json"), &s.kept) != nil || !s.isWhole() {
		s.kept = version{}
	}
	if s.part, err = os.OpenFile(filepath.Join(dir, "part"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if !lockFile(s.part) || !s.holdsNamedPart() {
		s.part.Close()
		if s.part, err = os.CreateTemp(dir, ".part-*"); err != nil {
			return nil, err
		}
		s.own = true
		return s, nil
	}
	if read(filepath.Join(dir, "part.json"), &s.coming) != nil || s.coming.strongETag() == "" {
		return s, s.discardPart()
	}
	// What is hashed is what is there: the part is not believed to be as it was.
	s.size, err = io.Copy(s.hash, s.part)
	return s, err
}

// lockFile locks a file unless another command has it. A process that this one has just
// forked has a lock of before for the moment until its own program begins, so it is tried
// for a tenth of a second.
func lockFile(f *os.File) bool {
	for range 20 {
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return true
		}
		time.Sleep(5 * time.Millisecond)
	}
	return false
}

// openBare makes a shelf of which nothing is kept but the file, below dir: for many
// small files each step of the other costs more than the file.
func openBare(dir, name string) (s *shelf, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	s = &shelf{dir: dir, name: name, hash: sha256.New(), own: true, bare: true}
	s.part, err = os.OpenFile(filepath.Join(dir, name), os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o644)
	return s, err
}

// holdsNamedPart says whether the part that we hold is the one of that name: the command that
// held the lock before may have made it the file.
func (s *shelf) holdsNamedPart() bool {
	ours, err := s.part.Stat()
	if err != nil {
		return false
	}
	there, err := os.Lstat(filepath.Join(s.dir, "part"))
	return err == nil && os.SameFile(ours, there)
}

func (s *shelf) closeShelf() {
	if s.own && !s.bare {
		os.Remove(s.part.Name()) // settled, it has another name
	}
	s.part.Close()
}

func (s *shelf) filePath(v version) string { return filepath.Join(s.dir, v.SHA256, s.name) }

// isWhole says whether the kept file is as it was when it was kept.
func (s *shelf) isWhole() bool {
	fi, err := os.Lstat(s.filePath(s.kept))
	return err == nil && s.kept.SHA256 != "" && fi.Mode().IsRegular() && fi.Size() == s.kept.Size && fi.ModTime().UnixNano() == s.kept.Time
}

// setRequestHeaders asks for the rest of what is coming, else for what is newer than what is
// kept, else for all.
func (s *shelf) setRequestHeaders(h http.Header) {
	s.asked = theNewer
	switch {
	case s.size > 0 && s.coming.strongETag() != "":
		s.asked = theRest
		h.Set("Range", fmt.Sprintf("bytes=%d-", s.size))
		h.Set("If-Range", s.coming.strongETag())
	case s.kept.SHA256 != "" && s.kept.ETag != "":
		h.Set("If-None-Match", s.kept.ETag)
	case s.kept.SHA256 != "" && s.kept.Modified != "":
		h.Set("If-Modified-Since", s.kept.Modified)
	default:
		s.asked = theWhole
	}
}

// restartPart begins with the first byte of a version.
func (s *shelf) restartPart(h http.Header, size int64) error {
	if err := s.discardPart(); err != nil {
		return err
	}
	s.coming = versionOf(h, size)
	if s.own || s.coming.strongETag() == "" {
		return nil
	}
	return write(filepath.Join(s.dir, "part.json"), s.coming)
}

// continuesPart says whether an answer is the rest of what is there.
func (s *shelf) continuesPart(h http.Header) bool {
	var from, to, all int64
	if _, err := fmt.Sscanf(h.Get("Content-Range"), "bytes %d-%d/%d", &from, &to, &all); err != nil {
		return false // also where the size is "*": it could not be checked
	}
	now := versionOf(h, all)
	if from != s.size || to != all-1 || now.strongETag() != "" && now.strongETag() != s.coming.strongETag() || s.coming.Size >= 0 && s.coming.Size != all {
		return false
	}
	s.coming.Size = all
	return true
}

// discardPart forgets what has come so far.
func (s *shelf) discardPart() error {
	if s.bare && s.size == 0 { // nothing has come
		s.coming = version{}
		return nil
	}
	s.size, s.coming = 0, version{}
	s.hash.Reset()
	if !s.own {
		if err := os.Remove(filepath.Join(s.dir, "part.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := s.part.Truncate(0); err != nil {
		return err
	}
	_, err := s.part.Seek(0, io.SeekStart)
	return err
}

func (s *shelf) fetchMessage(where string) string {
	switch {
	case s.coming.Size < 0:
		return "fetching " + where
	case s.size > 0:
		return fmt.Sprintf("fetching %s: %s of %s are here", where, humanize.Bytes(uint64(s.size)), humanize.Bytes(uint64(s.coming.Size)))
	}
	return fmt.Sprintf("fetching %s: %s", where, humanize.Bytes(uint64(s.coming.Size)))
}

// appendBody adds what comes, to its end.
func (s *shelf) appendBody(body io.Reader, heard func()) error {
	n, err := io.Copy(io.MultiWriter(s.part, s.hash), counting{body, heard})
	s.size += n
	if err == nil && s.coming.Size >= 0 && s.size != s.coming.Size {
		err = io.ErrUnexpectedEOF
		if s.size > s.coming.Size {
			err = errors.Join(fmt.Errorf("%d bytes came of %d", s.size, s.coming.Size), s.discardPart())
		}
	}
	return err
}

// keepFile makes what has come the file that is kept, and says where it is.
func (s *shelf) keepFile() (string, error) {
	if s.same {
		return s.filePath(s.kept), nil
	}
	if s.bare {
		return s.part.Name(), nil
	}
	old := s.kept
	s.coming.SHA256, s.coming.Size = hex.EncodeToString(s.hash.Sum(nil)), s.size
	if s.coming.SHA256 == old.SHA256 { // the same, said again by one that knows no versions
		s.coming.Time = old.Time
		return s.filePath(old), errors.Join(write(filepath.Join(s.dir, "kept.json"), s.coming), s.discardPart())
	}
	// Synced: a power cut must not leave holes in a file of the right size.
	if err := s.part.Sync(); err != nil {
		return "", err
	}
	if err := s.part.Chmod(0o644); err != nil {
		return "", err
	}
	fi, err := s.part.Stat()
	if err != nil {
		return "", err
	}
	s.coming.Time = fi.ModTime().UnixNano()
	final := s.filePath(s.coming)
	if err := os.MkdirAll(filepath.Dir(final), 0o700); err != nil {
		return "", err
	}
	if err := os.Rename(s.part.Name(), final); err != nil {
		return "", err
	}
	if err := write(filepath.Join(s.dir, "kept.json"), s.coming); err != nil {
		return "", err
	}
	if !s.own {
		os.Remove(filepath.Join(s.dir, "part.json")) // without its part it says nothing
	}
	s.removeOldFiles(old)
	return final, nil
}

// removeOldFiles removes all files but the one kept and the one before, which another
// command may still be reading.
func (s *shelf) removeOldFiles(old version) {
	entries, _ := os.ReadDir(s.dir)
	for _, e := range entries {
		if name := e.Name(); e.IsDir() && name != s.coming.SHA256 && name != old.SHA256 {
			os.RemoveAll(filepath.Join(s.dir, name))
		}
	}
}

func isFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

func read(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// write writes a small file whole or not at all.
func write(file string, what any) error {
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}
