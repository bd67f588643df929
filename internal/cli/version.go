package cli

import (
	_ "embed"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"
)

// versionVerb is drover version.
type versionVerb struct{ *app }

func newVersionVerb(a *app) versionVerb { return versionVerb{a} }

func (a versionVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "version", Short: "Print drover's version", Args: exactly(0)}
	a.addJSONFlag(c)
	var all bool
	c.Flags().BoolVar(&all, "licences", false, "print the licences and notices of all that is linked into drover")
	c.Flags().BoolVar(&all, "licenses", false, "as --licences")
	_ = c.Flags().MarkHidden("licenses")
	c.RunE = func(*cobra.Command, []string) error {
		if all {
			return a.printLicences()
		}
		if a.settings.json {
			return newJSON(a.out).Encode(map[string]string{"version": a.Version, "go": runtime.Version(), "os": runtime.GOOS, "arch": runtime.GOARCH})
		}
		_, err := fmt.Fprintf(a.out, "drover %s %s/%s %s\n", a.Version, runtime.GOOS, runtime.GOARCH, runtime.Version())
		return err
	}
	return c
}

// licences are the licences of what drover links, with the notices that they ask for:
// they have to go along with the program. The file is made from the module cache by
// go generate, and is plain text so that a reader of the repository finds it too.
//
//go:embed licences.txt
var licences string

func (a versionVerb) printLicences() error {
	_, err := io.WriteString(a.out, licences)
	return err
}
