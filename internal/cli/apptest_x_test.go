package cli

import (
	"bytes"
	"strings"

	"github.com/drover-run/drover/fault"
)

func exitOf(err error) int {
	if s, ok := err.(status); ok {
		return int(s)
	}
	return fault.Exit(err)
}

// onScreen is what a command line prints on both of its outputs, a screen of its own
// each time.
func onScreen(print func(a *app)) []string {
	var out bytes.Buffer
	print(&app{out: &out, err: &out})
	return append(strings.Split(strings.TrimRight(out.String(), "\n"), "\n"), "")
}
