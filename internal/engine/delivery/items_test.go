package delivery

import (
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/report"
)

func TestAnOutputIsNotBroughtOutOfTheFolder(t *testing.T) {
	to, err := openDestination(filepath.Join(t.TempDir(), "items"), "a/b/c", "c", report.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer to.closeFolder()
	for _, hostile := range []string{"../a", "/a", "."} {
		b := bringer{d: to, of: map[uint64]int32{}}
		err := b.bringFile(t.Context(), report.ItemResult{Item: 1}, report.ItemFile{Name: hostile})
		if fault.KindOf(err) != fault.Invalid || err.Error() != `output "`+hostile+`" is not a name below a folder` || fault.Hint(err) != "" {
			t.Errorf("%s: %v", hostile, err)
		}
	}
}
