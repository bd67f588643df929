package jobfile

import (
	"strings"

	"github.com/goccy/go-yaml/token"
)

// The bounds of what is handed to the YAML parser. It recurses into nesting, and
// takes time in the square of nesting and of the number of keys: a megabyte of
// "[" takes it minutes. A job file has at most three levels.
const (
	maxDepth = 16
	maxKeys  = 4096 // above what a job may have: 512 variables, and some fields for each input
)

// beyond is what a job file needs not, by the kind of token that begins it.
var beyond = map[token.Type]string{
	token.AnchorType:     "an anchor",
	token.AliasType:      "an alias",
	token.MergeKeyType:   "a merge",
	token.TagType:        "a tag",
	token.DirectiveType:  "a directive",
	token.MappingKeyType: `a key marked by "?"`,
}

// inspectTokens refuses what is beyond a job file before the parser sees it.
func (p page) inspectTokens(tokens token.Tokens) error {
	var flow, dashes, keys int
	for i, t := range tokens {
		if what, ok := beyond[t.Type]; ok {
			return p.faultAt(t, quoteHint(tokens, i), "%s, which job files do not support", what)
		}
		switch t.Type {
		case token.InvalidType:
			return p.brokenYAML(t, t.Error)
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow--
		case token.MappingValueType:
			keys++
		}
		if t.Type == token.SequenceEntryType {
			dashes++ // "- - - x" nests without a line or a blank more
		} else {
			dashes = 0
		}
		switch {
		case flow > maxDepth || dashes > maxDepth:
			return p.faultAt(t, "A job file has at most three levels.", "nested more than %d deep", maxDepth)
		case keys > maxKeys:
			return p.faultAt(t, "Keep what the job reads in files of its own.", "more than %d fields", maxKeys)
		}
	}
	return nil
}

// quoteHint shows the word that was taken for an anchor, alias or tag in quotes.
func quoteHint(tokens token.Tokens, i int) string {
	word := strings.TrimSpace(tokens[i].Value)
	if next := i + 1; next < len(tokens) && len(word) == 1 && tokens[next].Position.Line == tokens[i].Position.Line {
		word += tokens[next].Value
	}
	return `If it is text, put quotes around it: "` + clip(word) + `".`
}
