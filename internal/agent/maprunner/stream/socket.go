package stream

import (
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/private"
)

// A socket lies in Config.Dir as long as its name is short enough for the system. Else
// it lies in a folder of its own in TMPDIR, and what stands in Dir is a link to it: so
// that an agent that comes after a process that was killed finds what it left, from Dir alone.

const (
	socketEnd = ".sock"
	longest   = 100 // bytes of a socket's name: 104 where that is least
	farFolder = "drover-"
	farSocket = "s"
)

// openSocket makes the slot's socket.
func (s *slot) openSocket() error {
	s.path = filepath.Join(s.r.c.Dir, strconv.Itoa(s.n)+socketEnd)
	if len(s.path) > longest {
		s.link = s.path
		folder := filepath.Join(os.TempDir(), farFolder+strings.ToLower(rand.Text()[:12]))
		s.path = filepath.Join(folder, farSocket)
		err := os.Symlink(s.path, s.link) // before there is anything to be found
		if err == nil {
			err = os.Mkdir(folder, 0o700)
		}
		if err != nil {
			s.removeFar()
			return fault.Wrap(err, fault.Full, "Free some space in TMPDIR.", "make socket for items")
		}
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path, Net: "unix"})
	if err != nil {
		s.removeFar()
		return fault.Wrap(err, fault.Invalid, "Set TMPDIR to a folder with a short name.", "make socket for items")
	}
	s.socket = l
	return nil
}

// acceptOwn returns the next connection of a process of this user, and closes those of
// others: items are for the program alone.
func (s *slot) acceptOwn() (*net.UnixConn, error) {
	for {
		conn, err := s.socket.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if uid, err := private.PeerUser(conn); err == nil && uid == os.Geteuid() {
			return conn, nil
		}
		conn.Close()
	}
}

func (s *slot) closeSocket() {
	s.socket.Close()
	s.removeFar()
}

func (s *slot) removeFar() {
	if s.link != "" {
		removeFar(s.link)
	}
}

// Sweep removes what a Runner with that Dir has left outside it, when its process was
// killed. It must be gone.
func Sweep(dir string) {
	all, err := os.ReadDir(dir)
	if err != nil {
		return // then there are none, or its removal says why
	}
	for _, link := range all {
		if strings.HasSuffix(link.Name(), socketEnd) {
			removeFar(filepath.Join(dir, link.Name()))
		}
	}
}

// removeFar removes a link and the socket that it leads to. Programs may have put links
// here too: whatever is not one of ours stays.
func removeFar(link string) {
	path, err := os.Readlink(link)
	folder, name := filepath.Split(path)
	if err != nil || name != farSocket || !filepath.IsAbs(path) || !strings.HasPrefix(filepath.Base(folder), farFolder) {
		return
	}
	if info, err := os.Lstat(path); err == nil && info.Mode()&os.ModeSocket != 0 {
		_ = os.Remove(path)
	}
	_ = os.Remove(filepath.Clean(folder)) // fails when there is anything else in it
	_ = os.Remove(link)
}
