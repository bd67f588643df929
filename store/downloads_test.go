package store_test

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/flaky"
	"github.com/drover-run/drover/store/mem"
)

func TestABucketWithoutDownloadsSaysSo(t *testing.T) {
	for _, b := range []store.Bucket{mem.New(), flaky.New(mem.New(), flaky.Plan{})} {
		_, err := store.New(b, store.Options{}).Downloads(t.Context(), "a")
		if want := "say how to download a from mem:: unsupported operation"; !errors.Is(err, errors.ErrUnsupported) || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAQuotedWordIsOneWord(t *testing.T) {
	for _, word := range []string{"", "it's", `a "b" $c \d`, "a\nb", "-n"} {
		if out, err := exec.Command("sh", "-c", "printf %s "+store.Quote(word)).Output(); err != nil || string(out) != word {
			t.Errorf("%q gives %q, %v", word, out, err)
		}
	}
}
