package tree

import (
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/drover-run/drover/fault"
)

// The limits of a tree. They are the same where a tree is made (Save), stored
// (PutTree), read (LoadTree), laid out (Restore) and packed (TarGz), so that
// what was stored can always be brought home.
const (
	// MaxPath is the longest path below the folder, in bytes. Programs open files
	// by paths of at most 4,096 bytes (Linux's PATH_MAX), and 1,024 of them are
	// left for the folder that the tree is brought into, which is not known yet.
	MaxPath = 3072
	// MaxName is the longest name of one file or folder, in bytes: NAME_MAX of
	// every common file system.
	MaxName = 255
	// MaxDepth is how many folders may lie above a file. Saving and removing hold
	// a descriptor for each; together with openAtOnce it must stay under the 1,024
	// that many systems allow.
	MaxDepth = 512
	// MaxEntries is how many files, links and empty folders one tree may have.
	// Agent and command line hold the list in memory, where each entry takes up to
	// 500 bytes (TestTheMemoryOfASaveIsBounded): 1 GB in all.
	MaxEntries = 2_000_000
	// maxList is the longest stored form of a tree, in bytes. It bounds what a
	// damaged or hostile store can make a reader hold; MaxEntries entries with
	// paths of 300 bytes stay under it.
	maxList = 1 << 30
)

// ErrLimit is wrapped by the faults of Save and PutTree that say which path, or
// which number, is beyond a limit of a tree or of SaveOptions. Nothing is named
// in the store then.
var ErrLimit = errors.New("it is not stored")

// beyond makes the fault of a limit.
func beyond(hint, format string, args ...any) error {
	return fault.Wrap(ErrLimit, fault.Invalid, hint, format, args...)
}

// checkLength says why a path is too long for every tree, or nil.
func checkLength(name string) error {
	if len(name) > MaxPath {
		return fmt.Errorf("a path of %d bytes, above %d", len(name), MaxPath)
	}
	if depth := strings.Count(name, "/"); depth > MaxDepth {
		return fmt.Errorf("%d folders deep, above %d", depth, MaxDepth)
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > MaxName {
			return fmt.Errorf("a name of %d bytes, above %d", len(part), MaxName)
		}
	}
	return nil
}

// CheckPath says that a path below a folder is too long to be brought home, with a
// fault that is ErrLimit and names it, or nil.
func CheckPath(name string) error {
	if err := checkLength(name); err != nil {
		return beyond("Use shorter names and fewer folders, or put the folder into an archive: tar -cf FOLDER.tar FOLDER.", "%s: %v", shortened(name), err)
	}
	return nil
}

// checkCount says that a tree has more entries than may be, or nil.
func checkCount(n, most int) error {
	if n <= most {
		return nil
	}
	return beyond("Put them into archives before the program ends: tar -cf FOLDER.tar FOLDER.", "more than %d files", most)
}

// checkBytes says that the files together are larger than most, or nil; 0 is no limit.
// Sizes are what a file claims to hold: its holes are stored and brought home as zeros.
func (s *sight) checkBytes(most int64) error {
	var total int64
	var largest seenFile
	for _, f := range s.files {
		if f.stamp.size > math.MaxInt64-total {
			total = math.MaxInt64
		} else {
			total += f.stamp.size
		}
		if f.stamp.size > largest.stamp.size {
			largest = f
		}
	}
	if most <= 0 || total <= most {
		return nil
	}
	return beyond("", "%s, above %s; the largest file is %s (%s)", SizeText(total), SizeText(most), shortened(largest.path), SizeText(largest.stamp.size))
}

// shortened quotes a path; of one that would fill a screen it is both ends.
func shortened(name string) string {
	const head, tail = 40, 30
	if len(name) <= head+tail {
		return fmt.Sprintf("%q", name)
	}
	return fmt.Sprintf("%q", name[:head]+"..."+name[len(name)-tail:])
}
