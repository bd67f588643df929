package cli

import (
	_ "embed"
	"io"
)

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
