package setup

import (
	_ "embed"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Version is drover version.
type Version struct{ *app.App }

// NewVersion returns a Version of an invocation.
func NewVersion(a *app.App) Version { return Version{a} }

// Command returns the verb's command, with its flags.
func (a Version) Command() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print drover's version", Args: app.Exactly(0)}
	a.AddJSONFlag(c)
	var all bool
	c.Flags().BoolVar(&all, "licences", false, "print the licences and notices of all that is linked into drover")
	c.Flags().BoolVar(&all, "licenses", false, "as --licences")
	_ = c.Flags().MarkHidden("licenses")
	c.RunE = func(*cobra.Command, []string) error {
		if all {
			return a.printNotices()
		}
		if a.Settings.JSON {
			return terminal.NewJSON(a.Out).Encode(map[string]string{"version": a.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
		}
		_, err := fmt.Fprintf(a.Out, "drover %s %s/%s %s\n", a.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
		return err
	}
	return c
}

// thirdParty are the licences of what drover links, with the notices that they ask for:
// they have to go along with the program. The file is made from the module cache by
// go generate, and is plain text so that a reader of the repository finds it too.
//
//go:embed licences.txt
var thirdParty string

func (a Version) printNotices() error {
	_, err := io.WriteString(a.Out, thirdParty)
	return err
}
