package follow

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

func TestAStoreThatIsAwayIsSaidInAWord(t *testing.T) {
	at := time.Date(2026, 11, 22, 14, 3, 5, 0, time.Local)
	for _, row := range []struct {
		last error
		want string
	}{
		{nil, "the store has not answered since 14:03:05; trying again"},
		{fmt.Errorf("get a/b from s3://facts: dial tcp 10.0.0.1:9000: connection refused: %w", store.ErrBusy),
			"the store has not answered since 14:03:05; trying again: get a/b from s3://facts: dial tcp 10.0.0.1:9000: connection refused"},
		{fmt.Errorf("create a: the server says \x1b[31m503: %w", store.ErrUnclear), "the store has not answered since 14:03:05; trying again: create a: the server says "},
	} {
		if got := progress.AwayText(at, row.last); !strings.HasPrefix(got, row.want) || strings.ContainsRune(got, '\x1b') {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

// On a terminal a map's block says it, and no line of its own tears that apart.
func TestAStoreThatIsAwayIsSaidByTheBlock(t *testing.T) {
	var screen bytes.Buffer
	a := &app.App{Err: &screen, Away: &progress.StoreWatch{}}
	p := NewMapFollower(a).newProgress()
	p.Size = func() (int, bool) { return 80, true }
	s := drover.Status{MapStatus: &drover.MapStatus{Time: time.Now(), Items: job.Tally{Items: 10, Succeeded: 5}}}
	p.Show(s, "")
	a.NoteStoreAway(progress.AwayText(time.Now(), errors.New("refused")))
	if strings.Contains(screen.String(), "nothing since") {
		t.Errorf("it is said beside the block:\n%q", screen.String())
	}
	p.Show(s, "")
	if !strings.Contains(screen.String(), "the store has not answered since") {
		t.Errorf("the block does not say it:\n%q", screen.String())
	}
	screen.Reset()
	a.NoteStoreAway("", "the store answers again")
	p.Show(s, "")
	if strings.Contains(screen.String(), "nothing since") {
		t.Errorf("it is back, and the block still says it is not:\n%q", screen.String())
	}
	p.Clear()
	a.NoteStoreAway("", "the store answers again")
	if !strings.Contains(screen.String(), "note: the store answers again\n") {
		t.Errorf("there is no block, and nothing was said:\n%q", screen.String())
	}
}

func TestANoticeThatTakesTooLongIsEnded(t *testing.T) {
	var out bytes.Buffer
	a := &app.App{Err: &out, Notify: "echo begun; sleep 1000 & sleep 1000; echo never"}
	err := NewNotifier(a).runNotice(t.Context(), os.Environ(), 50*time.Millisecond)
	if err == nil || !strings.HasPrefix(err.Error(), "it took longer than 50ms") || strings.Contains(out.String(), "never") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
