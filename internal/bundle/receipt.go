package bundle

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/internal/bundle/tree"
	"github.com/drover-run/drover/store"
)

// Receipt is the file that drover leaves in a folder that it brought outputs to. It has
// a JSON object a line: the first names the job, each other one a file that was brought.
// A line is written before its file appears, so that a command that is killed leaves no
// file that the receipt does not name.
const Receipt = ".drover.json"

// Workshop is the folder, inside the one that is filled, where files are completed; it
// must be on the same file system. Save never looks into it, it is no code, and one left
// by a command that died is cleared away by the next.
const Workshop = tree.Workshop

// Brought is a file, or a link, that was brought into a folder, as it was then.
type Brought struct {
	Path   string       // below the folder, slash-separated
	For    string       // the name that it should have, where another file has that; else ""
	Size   int64        // of a file
	SHA256 store.Digest // of a file
	Link   string       // the target of a link
	Item   bool         // an output of a map's item
	State  bool         // a file of a task's state
}

// Name is what the file should be called.
func (b Brought) Name() string {
	if b.For != "" {
		return b.For
	}
	return b.Path
}

// Print identifies a path with a content: a receipt of a million files is kept in memory
// as their prints.
type Print [16]byte

// Print is b's.
func (b Brought) Print() (p Print) {
	h := sha256.New()
	for _, part := range []string{b.Path, b.Link, string(b.SHA256), strconv.FormatInt(b.Size, 10)} {
		io.WriteString(h, part)
		h.Write([]byte{0}) // no path holds one
	}
	copy(p[:], h.Sum(nil))
	return p
}

// receiptLine is a line of a receipt. The first has Job.
type receiptLine struct {
	V      int          `json:"v,omitempty"`
	Job    string       `json:"job,omitempty"`
	Path   string       `json:"path,omitempty"`
	Raw    string       `json:"path64,omitempty"` // a path that is not UTF-8
	For    string       `json:"for,omitempty"`
	RawFor string       `json:"for64,omitempty"`
	Size   int64        `json:"size,omitempty"`
	SHA256 store.Digest `json:"sha256,omitempty"`
	Link   string       `json:"link,omitempty"`
	Item   bool         `json:"item,omitempty"`
	State  bool         `json:"state,omitempty"`
}

// ReceiptHead is the first line of a receipt.
func ReceiptHead(job string) []byte { return line(receiptLine{V: 2, Job: job}) }

// Line is b's line in a receipt.
func (b Brought) Line() []byte {
	l := receiptLine{Size: b.Size, SHA256: b.SHA256, Link: b.Link, Item: b.Item, State: b.State}
	l.Path, l.Raw = nameText(b.Path)
	l.For, l.RawFor = nameText(b.For)
	return line(l)
}

func line(l receiptLine) []byte {
	text, _ := json.Marshal(l) // strings and numbers alone
	return append(text, '\n')
}

// nameText is a name as text, or, where it is not UTF-8, as base64.
func nameText(name string) (text, raw string) {
	if utf8.ValidString(name) {
		return name, ""
	}
	return "", base64.StdEncoding.EncodeToString([]byte(name))
}

func textName(text, raw string) string {
	if raw == "" {
		return text
	}
	name, _ := base64.StdEncoding.DecodeString(raw) // what cannot be decoded names no file
	return string(name)
}

// maxReceiptLine is far above what a path and its target take.
const maxReceiptLine = 64 << 10

// ReadReceipt gives the files that a receipt names, in the order in which they were
// brought; a path may come more than once. What is damaged names nothing, and so do
// names that lead out of the folder: what a receipt does not name is the user's own.
func ReadReceipt(r io.Reader) iter.Seq[Brought] {
	return func(yield func(Brought) bool) {
		in := bufio.NewScanner(r)
		in.Buffer(nil, maxReceiptLine)
		for in.Scan() {
			var l receiptLine
			if json.Unmarshal(in.Bytes(), &l) != nil || l.Path == "" && l.Raw == "" {
				continue
			}
			b := Brought{Path: textName(l.Path, l.Raw), For: textName(l.For, l.RawFor), Size: l.Size, SHA256: l.SHA256, Link: l.Link, Item: l.Item, State: l.State}
			if !local(b.Path) || b.For != "" && !local(b.For) || b.SHA256 == "" && b.Link == "" {
				continue
			}
			if !yield(b) {
				return
			}
		}
	}
}

func local(name string) bool {
	return name != "." && filepath.IsLocal(name) && filepath.ToSlash(filepath.Clean(name)) == name && strings.IndexByte(name, 0) < 0
}

// ReceiptNames are the files that the receipt in dir names; there is none where dir has
// no receipt.
func ReceiptNames(dir string) (names []string, there bool) {
	f, err := os.Open(filepath.Join(dir, Receipt))
	if err != nil {
		return nil, !errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	for b := range ReadReceipt(f) {
		names = append(names, b.Path)
	}
	return names, true
}
