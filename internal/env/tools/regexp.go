package tools

import (
	"regexp"
	"sync"
)

// Compiled is a regular expression that is compiled when it is first asked for:
// together they would take longer than all else that a command does at its start.
func Compiled(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
