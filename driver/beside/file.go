package beside

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
)

// LeaveWord writes the grace of a Stop into a file that is never seen in part. A
// shorter one that was given before stands.
func LeaveWord(path string, grace time.Duration) error {
	if before, ok := ReadWord(path); ok && before <= grace {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".stop-")
	if err != nil {
		return err
	}
	_, err = f.WriteString(grace.String())
	f.Close()
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	return err
}

// ReadWord is the grace in such a file; ok is false without one.
func ReadWord(path string) (grace time.Duration, ok bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	grace, err = time.ParseDuration(string(text))
	return max(grace, 0), err == nil
}

// Touch makes a file, if it is not there.
func Touch(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// WriteDurably writes v as a line of JSON that a power cut does not take. how is
// os.O_EXCL or os.O_TRUNC.
func WriteDurably(path string, how int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|how, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Write(append(text, '\n')); err != nil {
		return err
	}
	return f.Sync()
}

// Replace writes a secret, for nobody else to read, that is never seen in part.
func Replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".new-") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Flock takes a lock or fails with EWOULDBLOCK; it never waits for one.
func Flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// IsFile says whether path still names the open file f.
func IsFile(f *os.File, path string) (bool, error) {
	a, err := f.Stat()
	if err != nil {
		return false, err
	}
	b, err := os.Stat(path)
	if err != nil {
		return false, err
	}
	return os.SameFile(a, b), nil
}

// Runnable refuses a program that is not there, while nothing has been made.
func Runnable(program string) error {
	info, err := os.Stat(program)
	switch {
	case !filepath.IsAbs(program):
		return fault.New(fault.Invalid, "", "start agents: program %q is not an absolute path", program)
	case err != nil:
		return fault.Wrap(err, fault.Invalid, "", "start agents")
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		return fault.New(fault.Invalid, "Run chmod +x "+program+".", "start agents: %s is not a program", program)
	}
	return nil
}

// maxTail is how much of a log Status shows, in bytes: about a screen.
const maxTail = 4096

// Tail is the last whole lines of a log; empty when there are none to be read.
func Tail(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	from := max(0, info.Size()-maxTail)
	text, _ := io.ReadAll(io.NewSectionReader(f, from, maxTail)) // what could be read will do
	if _, rest, ok := bytes.Cut(text, []byte("\n")); ok && from > 0 {
		text = rest
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
