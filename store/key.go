package store

import (
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/fault"
)

// The longest key, and the longest element of one, in bytes. S3 takes 1,024 for
// a key including a prefix the bucket may put before it; file systems take 255
// for a name.
const (
	MaxKey     = 900
	MaxElement = 255
)

// CheckKey refuses a text that is not a key: a key consists of elements between single
// slashes, each of [A-Za-z0-9._-] and none beginning with ".". Names with a dot in front are
// for the bucket itself: a folder keeps its unfinished files there, NFS its deleted ones, and
// "." and ".." are among them. Names given by users are encoded first.
func CheckKey(key string) error {
	if why := badKey(key); why != "" {
		return fault.New(fault.Invalid, "", "check key: %.80q: %s", key, why)
	}
	return nil
}

// CheckName refuses a text that cannot be an object's name: a name is 1 to 1,024 bytes of
// UTF-8 without a zero byte. A bucket that was opened for names that drover does not make
// (Foreign, in its Options) takes names instead of keys.
func CheckName(name string) error {
	why := ""
	switch {
	case name == "":
		why = "empty"
	case len(name) > 1024:
		why = "longer than 1024 bytes"
	case !utf8.ValidString(name):
		why = "not UTF-8"
	case strings.IndexByte(name, 0) >= 0:
		why = "holds a zero byte"
	}
	if why != "" {
		return fault.New(fault.Invalid, "Rename it.", "check name: %.80q: %s", name, why)
	}
	return nil
}

// CheckPrefix refuses a text with which no key can begin. "" and "a/" are prefixes.
func CheckPrefix(prefix string) error {
	folder, leaf := "", prefix
	if i := strings.LastIndexByte(prefix, '/'); i >= 0 {
		folder, leaf = prefix[:i], prefix[i+1:]
	}
	why := ""
	if folder != "" || leaf != prefix {
		why = badKey(folder)
	}
	if why == "" && leaf != "" {
		why = badElement(leaf)
	}
	if why == "" && len(prefix) > MaxKey {
		why = "longer than 900 bytes"
	}
	if why != "" {
		return fault.New(fault.Invalid, "", "check prefix: %.80q: %s", prefix, why)
	}
	return nil
}

func badKey(key string) string {
	if len(key) > MaxKey {
		return "longer than 900 bytes"
	}
	for element := range strings.SplitSeq(key, "/") {
		if why := badElement(element); why != "" {
			return why
		}
	}
	return ""
}

func badElement(e string) string {
	switch {
	case e == "":
		return "empty, or has an empty element"
	case e[0] == '.':
		return "an element begins with a dot"
	case len(e) > MaxElement:
		return "an element is longer than 255 bytes"
	}
	for i := range len(e) {
		c := e[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return "holds a character outside A-Z a-z 0-9 . _ -"
		}
	}
	return ""
}
