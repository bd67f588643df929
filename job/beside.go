package job

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Beside is the name of a task that belongs to another one, such as its pilot:
// "resize" and "pilot" make "resize-pilot". A name that would be too long is cut,
// and six hex digits over all of it keep it apart from others that are cut alike.
func Beside(task, what string) string {
	name := task + "-" + what
	if len(name) <= MaxName {
		return name
	}
	sum := sha256.Sum256([]byte(task))
	tail := "-" + hex.EncodeToString(sum[:])[:6] + "-" + what
	return strings.TrimRight(task[:MaxName-len(tail)], "-") + tail
}
