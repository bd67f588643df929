package folder

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
)

// LeaveWord writes the grace of a Stop into a file that is never seen in part. Of two Stops, the
// shorter grace stays in the file, whichever came first.
func LeaveWord(path string, grace time.Duration) error {
	for taken := false; ; taken = true {
		before, ok := ReadWord(path)
		name := os.Rename
		switch {
		case ok && before <= grace:
			return nil
		case !ok && !taken:
			name = linkOnce // a shorter grace that is written meanwhile is read first
		}
		err := whole(path, []byte(grace.String()), (*os.File).Close, name) // it need not survive the agents
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
}

// ReadWord reads the grace in such a file; ok is false without one.
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

// Exists says whether a file has a name.
func Exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// Replace writes a file that no other user can read and that is never seen in part, also after
// a power cut.
func Replace(path string, text []byte) error {
	return whole(path, text, syncClose, os.Rename)
}

// WriteJSON is Replace with v as a line of JSON.
func WriteJSON(path string, v any) error {
	return writeJSON(path, v, os.Rename)
}

// CreateJSON is WriteJSON for a new file: fs.ErrExist says that another process was faster.
func CreateJSON(path string, v any) error {
	return writeJSON(path, v, linkOnce)
}

// linkOnce is os.Link over a file server that may lose its answer: the client asks again, and is
// told that the name exists, which its first request made.
func linkOnce(from, to string) error {
	err := os.Link(from, to)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	mine, merr := os.Lstat(from)
	held, herr := os.Lstat(to)
	if merr == nil && herr == nil && os.SameFile(mine, held) {
		return nil
	}
	return err
}

func writeJSON(path string, v any, name func(from, to string) error) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return whole(path, append(text, '\n'), syncClose, name)
}

func syncClose(f *os.File) error { return errors.Join(f.Sync(), f.Close()) }

// whole writes a file beside path, calls end with it and then gives it its name.
func whole(path string, text []byte, end func(*os.File) error, name func(from, to string) error) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".write-") // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, end(f)); err == nil {
		err = name(f.Name(), path)
	}
	_ = os.Remove(f.Name()) // after os.Rename it is not there
	return err
}

// ReadJSON reads what WriteJSON wrote; its error does not quote the content.
func ReadJSON(path string, v any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if json.Unmarshal(text, v) != nil {
		return fault.New(fault.Invalid, "Remove its folder once nothing of it runs.", "read record of agents: %s is damaged", path)
	}
	return nil
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

// Runnable refuses a program that does not exist, before anything has been made.
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

// Tail is the last whole lines of a log; "" when none can be read.
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
	text, _ := io.ReadAll(io.NewSectionReader(f, from, maxTail)) // as much as can be read
	if _, rest, ok := bytes.Cut(text, []byte("\n")); ok && from > 0 {
		text = rest
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}
