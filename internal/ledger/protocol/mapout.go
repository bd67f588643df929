package protocol

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// OutKey is where an output of a try lies (section 2): Result.Try and Output.Name
// are what it is made of, and no name is read back from it. A byte that no key
// can hold there is "_" and two hex digits, and so is a "_" that two of them follow.
// An element that is too long then is "_h" and its SHA-256; of a whole name that
// makes the key too long, that stands for all of it.
func OutKey(p job.Path, item int, try, name string) string {
	prefix := OutPrefix(p, item, try) + "/"
	elements := strings.Split(name, "/")
	for i, e := range elements {
		elements[i] = keyElement(e)
	}
	if key := prefix + strings.Join(elements, "/"); len(key) <= store.MaxKey {
		return key
	}
	return prefix + digested(name)
}

func keyElement(e string) string {
	var b []byte
	for i := range len(e) {
		c := e[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' ||
			c == '.' && i > 0 || c == '_' && !(i+2 < len(e) && isHex(e[i+1]) && isHex(e[i+2]))
		if plain {
			b = append(b, c)
		} else {
			b = fmt.Appendf(b, "_%02x", c)
		}
	}
	if len(b) > store.MaxElement {
		return digested(e)
	}
	return string(b)
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' }

func digested(name string) string {
	sum := sha256.Sum256([]byte(name))
	return "_h" + hex.EncodeToString(sum[:])
}
