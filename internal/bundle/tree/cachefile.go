package tree

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"maps"
	"slices"

	"github.com/drover-run/drover/store"
)

// The file: cacheMagic, then where, list and the files, each string behind its
// length, then the SHA-256 of all that. A number is a varint.
const cacheMagic = "drover cache of files 1\n"

var errCache = errors.New("it is not a cache")

func (c *Cache) encodeFile() []byte {
	b := []byte(cacheMagic)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	text(c.where)
	text(string(c.list))
	for _, name := range slices.Sorted(maps.Keys(c.files)) {
		f := c.files[name]
		if f.at-f.stamp.ctime < int64(racy) {
			continue
		}
		text(name)
		text(string(f.digest))
		sent := int64(0)
		if f.sent {
			sent = 1
		}
		s := f.stamp
		for _, n := range [...]int64{int64(s.dev), int64(s.ino), s.size, s.mtime, s.ctime, int64(s.links), f.at, sent} {
			b = binary.AppendVarint(b, n)
		}
	}
	sum := sha256.Sum256(b)
	return append(b, sum[:]...)
}

// decodeFile reads what encode wrote; anything else is errCache. The sum comes
// first, so what follows it was written by us, and is checked all the same.
func (c *Cache) decodeFile(b []byte) error {
	n := len(b) - sha256.Size
	if n < len(cacheMagic) || !bytes.HasPrefix(b, []byte(cacheMagic)) {
		return errCache
	}
	if sum := sha256.Sum256(b[:n]); !bytes.Equal(sum[:], b[n:]) {
		return errCache
	}
	b = b[len(cacheMagic):n]
	bad := false
	text := func() string {
		size, used := binary.Uvarint(b)
		if bad = bad || used <= 0 || size > uint64(len(b)-used); bad {
			return ""
		}
		s := string(b[used : used+int(size)])
		b = b[used+int(size):]
		return s
	}
	number := func() int64 {
		v, used := binary.Varint(b)
		if bad = bad || used <= 0; bad {
			return 0
		}
		b = b[used:]
		return v
	}
	c.where, c.list = text(), store.Digest(text())
	if _, err := store.ParseDigest(string(c.list)); c.list != "" && err != nil {
		bad = true
	}
	c.files = map[string]cached{}
	for len(b) > 0 && !bad {
		name, digest := text(), text()
		f := cached{digest: store.Digest(digest)}
		f.stamp.dev, f.stamp.ino, f.stamp.size = uint64(number()), uint64(number()), number()
		f.stamp.mtime, f.stamp.ctime, f.stamp.links = number(), number(), uint64(number())
		f.at, f.sent = number(), number() == 1
		if _, err := store.ParseDigest(digest); err != nil {
			bad = true
		}
		c.files[name] = f
	}
	if bad {
		return errCache
	}
	return nil
}
