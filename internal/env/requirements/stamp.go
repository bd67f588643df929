package requirements

import (
	_ "embed"
	"fmt"
	"os"
)

// Stamp changes when a file or the list of names in a folder does. The probe
// writes the same ones.
func Stamp(path string) string {
	s, err := os.Stat(path)
	switch {
	case err != nil:
		return "-"
	case s.IsDir():
		return fmt.Sprintf("d%d", s.ModTime().UnixNano())
	}
	return fmt.Sprintf("f%d:%d", s.ModTime().UnixNano(), s.Size())
}
