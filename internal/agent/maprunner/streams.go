package maprunner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/internal/agent/maprunner/stream"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/store"
)

// streamExecutor is a runner with commands that programs that stay answer: see package
// stream. A command's Stdin is the item as they are told it.
type streamExecutor struct {
	*stream.Runner
	c *mapRunner
}

func (s streamExecutor) Send(commands ...proc.Errand) error {
	items := make([]stream.Item, len(commands))
	for i, e := range commands {
		items[i] = stream.Item{ID: e.ID, N: int(itemOf(e.ID)), Line: e.Stdin, Timeout: e.Timeout, Alone: s.c.tries[e.ID].N > 1}
	}
	s.Runner.Send(items...)
	return nil
}

func (s streamExecutor) Until(d time.Duration) { s.Runner.Until(store.System.Boot() + d) }

// passReports passes on what happens, as a recorder does: what programs print is recorded
// apart.
func (s streamExecutor) passReports(g *slotGroup, quit <-chan struct{}, done chan<- struct{}) {
	defer close(done)
	pass := func(r report) {
		select {
		case g.c.reports <- r:
		case <-quit:
		}
	}
	for batch := range s.Events() {
		r := report{group: g, told: batch, excerpts: make([]excerpt, 0, len(batch)/2+1)}
		for i := range batch {
			if e := &batch[i]; e.Kind == stream.Ended {
				r.excerpts = append(r.excerpts, s.answerAsSaid(e))
			}
		}
		pass(r)
	}
	pass(report{group: g, gone: true, why: s.Err()})
}

// answerAsSaid is an answer as a recorder would say it.
func (s streamExecutor) answerAsSaid(e *stream.Event) excerpt {
	value := answer(e.Value)
	all := excerpt{head: s.c.Redact.String(value), size: len(value)}
	if end := e.End; end != nil {
		all.final = end.Final
		if all.last = end.Why; end.Exit != nil {
			all.last = end.Last
		}
		if end.Failed && end.Exit != nil && end.Exit.Status() == 0 {
			all.last = "the program ended without answering"
		}
		all.last = oneLine(s.c.Redact.String(all.last))
	}
	return all
}

// handleStreamEvent takes what a program that stays has to say of a try, as take does of processes.
func (c *mapRunner) handleStreamEvent(g *slotGroup, e *stream.Event, all []excerpt) (rest []excerpt) {
	t := c.tries[e.ID]
	c.noteBegun(t)
	switch e.Kind {
	case stream.Waits:
		t.began = false
		g.queued++
		t.chunk.queued++
	case stream.Unstarted:
		g.removeTry(t)
		c.removeUnsent(t)
	case stream.Ended:
		end := proc.Spawned{ID: e.ID, Kind: proc.SpawnedEnded, Ended: time.Unix(0, e.Ended), Output: [2]int64{int64(all[0].size)}}
		end.Began = end.Ended.Add(-e.Took)
		if e.End != nil {
			end.Stopped = e.End.Stopped
			if e.End.Exit != nil {
				end.Exit = *e.End.Exit
			}
			if e.End.Failed && end.Exit.Status() == 0 {
				end.Exit.Code = 1
			}
		}
		g.removeTry(t)
		c.handleTryEnd(t, &end, &all[0])
		return all[1:]
	}
	return all
}

// answer is a result as text: a string as it is, anything else as JSON.
func answer(value string) string {
	if value == "" || value[0] != '"' {
		return value
	}
	if n := len(value) - 1; n > 0 && strings.IndexByte(value, '\\') < 0 {
		return value[1:n]
	}
	var text string
	if json.Unmarshal([]byte(value), &text) != nil {
		return value
	}
	return text
}

// printer records what programs print, each stream with its secrets taken out.
type printer struct {
	c       *mapRunner
	mu      sync.Mutex
	streams map[[2]int]*programStream // by slot and number
}

// programStream is one of the two streams of a slot's program.
type programStream struct {
	item   int
	writer io.WriteCloser // takes secrets out of what one item says; nil: there are none
	reader bytes.Reader
}

func (p *printer) printFrame(slot, number, item int, b []byte) {
	p.mu.Lock()
	s := p.streams[[2]int{slot, number}]
	if s == nil {
		s = &programStream{}
		p.streams[[2]int{slot, number}] = s
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
func message(t *try, it manifest.Item, s *itemSource, places []string, files []provision) ([]byte, error) {
	b := append(make([]byte, 0, 32+len(it.Text)), `{"n":`...)
	b = append(strconv.AppendInt(b, int64(it.N), 10), `,"value":`...)
	var err error
	switch s.format {
	case "jsonl":
		b = append(b, it.Text...)
	case "csv":
		row := map[string]string{}
		for i, name := range s.fields {
			if i < len(it.Fields) {
				row[name] = it.Fields[i]
			}
		}
		b, err = appendJSON(b, row)
	default:
		b, err = appendString(b, it.Text)
	}
	if t.N > 1 {
		b = strconv.AppendInt(append(b, `,"try":`...), int64(t.N), 10)
	}
	if err == nil && len(places) > 0 {
		b, err = appendJSON(append(b, `,"out":`...), places)
	}
	if err == nil && len(files) > 0 {
		b, err = appendJSON(append(b, `,"file":`...), s.filesForProgram(files))
	}
	if err != nil {
		return nil, fmt.Errorf("report item %d: %w", it.N, err)
	}
	return append(b, '}'), nil
}

// appendString encodes a text; a plain one is its own encoding.
func appendString(b []byte, text string) ([]byte, error) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return appendJSON(b, text)
		}
	}
	return append(append(append(b, '"'), text...), '"'), nil
}

func appendJSON(b []byte, v any) ([]byte, error) {
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return append(b, bytes.TrimSuffix(text.Bytes(), []byte("\n"))...), err
}
