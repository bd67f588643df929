package process

import (
	"bytes"
	"strings"
)

// Marked says whether an environment (entries end in a zero byte) carries token.
func Marked(env []byte, token string) bool {
	for entry := range bytes.SplitSeq(env, []byte{0}) {
		v, ok := bytes.CutPrefix(entry, []byte(Mark+"="))
		if !ok {
			continue
		}
		for t := range bytes.SplitSeq(v, []byte(":")) {
			if string(t) == token {
				return true
			}
		}
	}
	return false
}

func IsToken(s string) bool {
	const ok = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return len(s) >= 1 && len(s) <= 64 && strings.Trim(s, ok) == ""
}

// Mark is the environment variable that every process of a tree carries. Its
// value is the tree's token, after those of the trees around it and colons.
const Mark = "DROVER_TREE"
