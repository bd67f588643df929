package crew

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/agent/crew/stream"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/store"
)

// streams is a runner whose errands are answered by programs that stay: see package
// stream. An errand's Stdin is the item as they are told it.
type streams struct {
	*stream.Runner
	c *crew
}

func (s streams) Send(errands ...proc.Errand) error {
	items := make([]stream.Item, len(errands))
	for i, e := range errands {
		items[i] = stream.Item{ID: e.ID, N: int(itemOf(e.ID)), Line: e.Stdin, Timeout: e.Timeout, Alone: s.c.tries[e.ID].N > 1}
	}
	s.Runner.Send(items...)
	return nil
}

func (s streams) Until(d time.Duration) { s.Runner.Until(store.System.Boot() + d) }

// report passes on what happens, as a scribe does: what programs print is recorded
// apart.
func (s streams) report(g *gang, quit <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	pass := func(r report) {
		select {
		case g.c.reports <- r:
		case <-quit:
		}
	}
	for batch := range s.Events() {
		r := report{gang: g, batch: make([]proc.Spawned, len(batch))}
		for i := range batch {
			e := &batch[i]
			r.batch[i] = proc.Spawned{ID: e.ID, Kind: spawnedKinds[e.Kind], Began: e.Began, Ended: e.Ended}
			if e.Kind == stream.Ended {
				r.said = append(r.said, s.said(e, &r.batch[i]))
			}
		}
		pass(r)
	}
	pass(report{gang: g, gone: true, why: s.Err()})
}

// spawnedWaits says of an errand that had begun that it waits again.
const spawnedWaits proc.SpawnedKind = 100

var spawnedKinds = map[stream.Kind]proc.SpawnedKind{stream.Began: proc.SpawnedBegan, stream.Waits: spawnedWaits, stream.Ended: proc.SpawnedEnded, stream.Unstarted: proc.SpawnedUnstarted}

// said is an answer as a scribe would say it.
func (s streams) said(e *stream.Event, end *proc.Spawned) said {
	value := answer(e.Value)
	end.Output[0] = int64(len(value))
	all := said{head: s.c.Redact.String(value), last: oneLine(s.c.Redact.String(e.Why)), final: e.Final}
	switch {
	case e.Exit != nil:
		end.Exit, all.last = *e.Exit, oneLine(s.c.Redact.String(e.Last))
		if e.Failed && end.Exit.Status() == 0 {
			end.Exit.Code, all.last = 1, "the program ended without answering"
		}
	case e.Failed:
		end.Exit.Code = 1
	}
	return all
}

// answer is a result as text: a string as it is, anything else as JSON.
func answer(value []byte) string {
	var text string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &text) == nil {
		return text
	}
	return string(value)
}

// printer records what programs print, each stream with its secrets taken out.
type printer struct {
	c       *crew
	mu      sync.Mutex
	streams map[[2]int]*voice // by seat and number
}

// voice is one of the two streams of a seat's program.
type voice struct {
	item   int
	writer io.WriteCloser // takes secrets out of what one item says; nil: there are none
	reader bytes.Reader
}

func (p *printer) print(seat, number, item int, b []byte) {
	p.mu.Lock()
	s := p.streams[[2]int{seat, number}]
	if s == nil {
		s = &voice{}
		p.streams[[2]int{seat, number}] = s
	}
	p.mu.Unlock()
	kind := record.Stdout
	if number == 2 {
		kind = record.Stderr
	}
	if p.c.Redact == nil {
		s.reader.Reset(b)
		_, _ = p.c.Out.Copy(kind, uint64(item), &s.reader)
		return
	}
	if s.writer != nil && s.item != item {
		_ = s.writer.Close()
		s.writer = nil
	}
	if s.writer == nil {
		s.item, s.writer = item, p.c.Redact.Writer(framed{p.c.Out, kind, uint64(item)})
	}
	_, _ = s.writer.Write(b)
}

// framed is an item's stream in the job's log.
type framed struct {
	out  *record.Writer
	kind record.Stream
	item uint64
}

func (f framed) Write(b []byte) (int, error) {
	_, _ = f.out.Copy(f.kind, f.item, bytes.NewReader(b))
	return len(b), nil
}

// message is an item as a program is told it.
func message(t *try, it items.Item, s *source, places []string, files []provision) ([]byte, error) {
	type told struct {
		N     int      `json:"n"`
		Value any      `json:"value"`
		Try   int      `json:"try,omitempty"`
		Out   []string `json:"out,omitempty"`
		File  any      `json:"file,omitempty"`
	}
	m := told{N: it.N, Value: it.Text, Out: places}
	if t.N > 1 {
		m.Try = t.N
	}
	if len(files) > 0 {
		m.File = s.told(files)
	}
	switch s.format {
	case "jsonl":
		m.Value = json.RawMessage(it.Text)
	case "csv":
		row := map[string]string{}
		for i, name := range s.fields {
			if i < len(it.Fields) {
				row[name] = it.Fields[i]
			}
		}
		m.Value = row
	}
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(m); err != nil {
		return nil, fmt.Errorf("tell of item %d: %w", it.N, err)
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
