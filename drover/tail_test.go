package drover

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// TestTheLastLinesOfAMapThatGoesOn: with and without follow, each line once, and only the
// end is read.
func TestTheLastLinesOfAMapThatGoesOn(t *testing.T) {
	t.Parallel()
	d, b := newCountedDesk(t)
	ctx := t.Context()
	j := d.submitMap("tail", "lines", "a\nb\nc\n", nil)
	w, err := record.NewWriter(record.Options{Store: d.world.Store, Prefix: protocol.LogsPrefix(j.path), Attempt: 1, Rank: 0, ID: "w", Clock: store.System})
	d.check(err)
	say := func(item uint64, text string) {
		t.Helper()
		_, err := w.Copy(record.Stdout, item, strings.NewReader(text))
		d.check(err)
		d.check(w.Flush(ctx))
	}
	for n := range 50 {
		say(1, fmt.Sprintf("line %d\n", n))
	}
	say(2, "half ")
	say(3, "three\n")
	read := func(o LogOptions) (lines []string) {
		t.Helper()
		for l, err := range j.Lines(ctx, o) {
			d.check(err)
			lines = append(lines, fmt.Sprintf("%d %s", l.Item, l.Text))
		}
		return lines
	}
	b.since()
	got := read(LogOptions{Tail: 3})
	if diff := cmp.Diff([]string{"1 line 49", "3 three", "2 half "}, got); diff != "" {
		t.Errorf("just now (-want +got):\n%s", diff)
	}
	if reads := b.gets.Swap(0); reads > 15 {
		t.Errorf("it took %d reads of 52 objects", reads)
	}

	var followed []string
	enough := make(chan struct{})
	for l, err := range j.Lines(ctx, LogOptions{Tail: 3, Follow: true, Enough: enough}) {
		d.check(err)
		if followed = append(followed, fmt.Sprintf("%d %s", l.Item, l.Text)); len(followed) == 3 {
			say(2, "and half\n")
			say(1, "the end\n")
			d.check(w.Close(ctx))
			close(enough)
		}
	}
	if diff := cmp.Diff([]string{"1 line 48", "1 line 49", "3 three", "2 half and half", "1 the end"}, followed); diff != "" {
		t.Errorf("followed (-want +got):\n%s", diff)
	}
}

// A look at a job that goes on shows what a store far away has, also of agents that serve their sockets on
// other machines.
func TestALookShowsWhatIsStoredOfAnAgentElsewhere(t *testing.T) {
	t.Parallel()
	d, ctx := newDesk(t), t.Context()
	c, err := Open(ctx, Options{Bucket: storemem.New(), Drivers: map[string]driver.Opened{mem.Name: mem.Open(d.mem)}, Folder: t.TempDir(), Cache: t.TempDir()})
	d.check(err)
	d.Client = c
	j := d.submit("demo", "run", 1)
	d.members(j)
	agent := liveness.NewAgentID(d.world, 1, 0)
	beat, err := json.Marshal(protocol.Heartbeat{V: protocol.Format, Agent: agent, Counter: 1, At: time.Now(), Phase: "running", Attempt: 1, Live: "/run/on/another/machine"})
	d.check(err)
	d.check(d.world.Store.Put(ctx, protocol.AgentKey(j.path, agent), beat))
	before, err := record.NewWriter(record.Options{Store: d.world.Store, Prefix: protocol.LogsPrefix(j.path), ID: "w", Clock: store.System}) // the same agent's, before it joined
	d.check(err)
	for range 3 {
		before.Note("preparing")
	}
	d.check(before.Close(ctx))
	w, err := record.NewWriter(record.Options{Store: d.world.Store, Prefix: protocol.LogsPrefix(j.path), Attempt: 1, ID: "w", Clock: store.System})
	d.check(err)
	_, err = w.Copy(record.Stdout, 0, strings.NewReader("hello\n"))
	d.check(err)
	d.check(w.Flush(ctx))
	var text string
	for out, err := range j.Logs(ctx, LogOptions{}) {
		d.check(err)
		text += string(out.Data)
	}
	if text != "hello\n" {
		t.Errorf("it shows %q", text)
	}
	for _, o := range []LogOptions{{}, {Tail: 1}} {
		text = ""
		for l, err := range j.Lines(ctx, o) {
			d.check(err)
			text += l.Text
		}
		if text != "hello" {
			t.Errorf("%+v shows %q", o, text)
		}
	}
}
