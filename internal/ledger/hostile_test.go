package ledger

import (
	"bytes"
	"testing"

	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/liveness"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/runs"
	"github.com/drover-run/drover/internal/ledger/states"
	"github.com/drover-run/drover/internal/ledger/tasks"
	"github.com/drover-run/drover/job"
)

// decoded are the entries of lines that a reader takes; it stops at the first it refuses.
func decoded[E protocol.Entry](lines []byte) (all []E) {
	for line := range bytes.Lines(lines) {
		var e E
		if protocol.Decode(line, &e, &protocol.HeaderOf(&e).V, "x") != nil {
			break
		}
		all = append(all, e)
	}
	return all
}

// decodedChunk is decoded for a chunk, with the reader of results that agents have.
func decodedChunk(lines []byte) (all []protocol.ChunkEntry) {
	for line := range bytes.Lines(lines) {
		var e protocol.ChunkEntry
		if protocol.DecodeResults(line, &e, &e.Results, &e.V, "x") != nil {
			break
		}
		all = append(all, e)
	}
	return all
}

// FuzzAHostileChunk folds entries that another writer has put into a chunk's log: what
// decode lets through is folded without a panic, and its counts stay those of its items.
func FuzzAHostileChunk(f *testing.F) {
	f.Add([]byte(`{"handed":{"items":[[1,6]]}}`), []byte(`{"by":"a","claimed":{"agent":"a","n":1,"why":"untouched"}}`+"\n"+`{"by":"a","claim":1,"results":[{"i":1},{"i":2,"f":true,"z":true}],"starting":[3],"ended":{}}`))
	f.Add([]byte(`{"handed":{"items":[[1,100]]}}`), []byte(`{"by":"a","claimed":{"agent":"a","n":1,"why":"untouched"}}`+"\n"+`{"by":"a","claim":1,"handed":{"items":[[50,100]]}}`+"\n"+
		`{"by":"a","claim":1,"released":{"flight":[1]}}`+"\n"+`{"ended":{"by":2}}`+"\n"+`{"again":{"by":3,"items":[[1,4]]}}`))
	f.Add([]byte(`{"handed":{"items":[[5,1]],"carry":{"9":{"b":2}}}}`), []byte(`{"by":"a","claimed":{"agent":"a","n":1,"why":"untouched"}}`))
	f.Add([]byte(`{"handed":{"items":[[1,2],[2,9]]}}`), []byte(`{"ended":{"by":1}}`))
	f.Fuzz(func(t *testing.T, seed, lines []byte) {
		begins := decodedChunk(seed)
		if len(begins) == 0 || begins[0].Handed == nil {
			return
		}
		s := begins[0].Handed.Seed
		c := chunks.NewChunk("000000", s)
		for _, e := range decodedChunk(lines) {
			c.Fold(e)
			handed := 0
			for _, child := range c.Children {
				handed += child.Items.Len()
			}
			if open := len(c.Open()); open != c.Tally.Open() || c.Tally.Items+handed != s.Items.Len() || len(c.States) > job.MaxChunkSize {
				t.Fatalf("%d items are open, %d were handed over, and it counts %+v of %d", open, handed, c.Tally, s.Items.Len())
			}
		}
		c.Free(func(string) liveness.Death { return liveness.Dead })
		c.ChildSeed(c.Open(), 0)
	})
}

// FuzzAHostileRun folds entries and records that another writer has put into a run: what
// decode lets through is folded and decided on without a panic.
func FuzzAHostileRun(f *testing.F) {
	f.Add([]byte(`{"placed":{"placement":1,"agents":1,"target":"local"}}`+"\n"+`{"attempt":{"k":1,"cause":"first"}}`+"\n"+`{"settled":{"state":"SUCCEEDED","attempt":1}}`),
		[]byte(`{"agent":"a","port":1}`), []byte(`{"verdict":"done"}`), []byte(`{"spec":{"nodes":1}}`))
	f.Add([]byte(`{"attempt":{"k":1}}`+"\n"+`{"cancelled":{"drain":true}}`+"\n"+`{"cancelled":{}}`+"\n"+`{"failing":{}}`+"\n"+`{"reopened":{"submission":1}}`),
		[]byte(`{}`), []byte(`{"verdict":"failed","code":3}`), []byte(`{"spec":{"nodes":2147483648}}`))
	f.Add([]byte(`{"extended":{"first":1,"size":0,"manifest":{"count":3}}}`+"\n"+`{"reopened":{"items":[[1,9]]}}`), []byte(`{}`), []byte(`{}`),
		[]byte(`{"chunk_size":0,"manifest":{"count":-5}}`))
	f.Fuzz(func(t *testing.T, lines, join, exit, record []byte) {
		var j job.Job
		if protocol.Decode(record, &j, &j.V, "x") != nil {
			return
		}
		entries := decoded[protocol.JobEntry](lines)
		r := runs.FoldRun(entries)
		r.Nodes, r.Retries, r.Joins, r.Exits = j.Spec.Nodes, j.Spec.Retries, map[int]protocol.Join{}, map[int]protocol.Exit{}
		if v := (protocol.Join{}); protocol.Decode(join, &v, &v.V, "x") == nil {
			r.Joins[0] = v
		}
		if v := (protocol.Exit{}); protocol.Decode(exit, &v, &v.V, "x") == nil {
			r.Exits[0] = v
		}
		r.Next(runs.Evidence{Death: func(string) liveness.Death { return liveness.Alive }})
		r.HaltFor(1, 0)
		tasks.FoldTask(decoded[protocol.TaskEntry](lines))
		state := decoded[protocol.StateEntry](lines)
		states.CurrentHolder(state)
		states.CountedGenerations(state)
		m := chunks.NewMap(j)
		for _, e := range entries {
			m.Fold(e)
		}
		if n := m.Chunks(); n > 0 && n <= job.MaxChunks {
			m.Seed(n - 1)
		}
		if m.Items() < 0 || m.Chunks() < 0 || m.Chunks() > (len(m.Extensions)+1)*(job.MaxChunks+1) {
			t.Errorf("it has %d items in %d chunks", m.Items(), m.Chunks())
		}
	})
}
