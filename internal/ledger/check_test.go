package ledger

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/job"
)

// What another writer of the store has put there is refused where it is read, in a line
// that quotes little of it.
func TestARecordOutOfBoundsIsNotRead(t *testing.T) {
	deep := strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000)
	for text, into := range map[string]any{
		`{"v":2,"spec":{"nodes":2147483648}}`:                                                                new(job.Job),
		`{"v":2,"spec":{"nodes":-1}}`:                                                                        new(job.Job),
		`{"v":2,"spec":{"workers":1000000000}}`:                                                              new(job.Job),
		`{"v":2,"spec":{"out":["../../{}.txt"]}}`:                                                            new(job.Job),
		`{"v":2,"spec":{"out":["/tmp/{}.txt"]}}`:                                                             new(job.Job),
		`{"v":2,"chunk_size":1,"manifest":{"count":9000000000000000000}}`:                                    new(job.Job),
		`{"v":2,"chunk_size":0,"manifest":{"count":-5}}`:                                                     new(job.Job),
		`{"v":2,"chunk_size":1,"manifest":{"count":1000000000}}`:                                             new(job.Job),
		`{"v":2,"chunk_size":1000000000,"manifest":{"count":1000000000}}`:                                    new(job.Job),
		`{"v":2,"x":` + deep + `}`:                                                                           new(job.Job),
		`{"project":"../../..","task":"etc","job":"passwd"}`:                                                 new(job.Path),
		`{"project":"p\n\u001b[2J","task":"t","job":"aaaa"}`:                                                 new(job.Path),
		`{"v":2,"submitted":{"job":"../../tidy/aaaa"}}`:                                                      new(protocol.TaskEntry),
		`{"v":2,"removed":{"job":""}}`:                                                                       new(protocol.TaskEntry),
		`{"v":2,"placed":{"placement":1,"agents":1099511627776}}`:                                            new(protocol.JobEntry),
		`{"v":2,"placed":{"placement":1,"agents":1,"inherited":{"key":"k","digests":{"A B\u001b[2J":"x"}}}}`: new(protocol.JobEntry),
		`{"v":2,"placed":{"placement":1,"agents":1,"inherited":{"key":"` + strings.Repeat("k", 100) + `"}}}`: new(protocol.JobEntry),
		`{"v":2,"beside":{"key":"k","task":"../../x"}}`:                                                      new(protocol.TaskEntry),
		`{"v":2,"beside":{"key":"` + strings.Repeat("k", 100) + `","task":"t"}}`:                             new(protocol.TaskEntry),
		`{"v":2,"amended":{"settings":{"workers":1000000000}}}`:                                              new(protocol.JobEntry),
		`{"v":2,"inherited":{"digests":{"A":"` + strings.Repeat("0", 100) + `"}}}`:                           new(job.Job),
		`{"v":2,"inherited":{"digests":{` + manyDigests(job.MaxInherited+1) + `}}}`:                          new(job.Job),
		`{"v":2,"attempt":{"k":9223372036854775807}}`:                                                        new(protocol.JobEntry),
		`{"v":2,"attempt":{"k":2,"keep":{"0":"../../../x"}}}`:                                                new(protocol.JobEntry),
		`{"v":2,"settled":{"state":"FAILED","tally":{"items":-1}}}`:                                          new(protocol.JobEntry),
		`{"v":2,"settled":{"state":"FAILED","reason":"` + strings.Repeat("A", protocol.MaxEntry) + `"}}`:     new(protocol.JobEntry),
		`{"v":2,"extended":{"first":1,"size":1,"manifest":{"count":9000000000000000000}}}`:                   new(protocol.JobEntry),
		`{"v":2,"claimed":{"agent":"a/b","n":1}}`:                                                            new(protocol.ChunkEntry),
		`{"v":2,"handed":{"items":[[1,1000000000]]}}`:                                                        new(protocol.ChunkEntry),
		`{"v":2,"handed":{"items":[[5,1]]}}`:                                                                 new(protocol.ChunkEntry),
		`{"v":2,"handed":{"items":[[1,5],[3,9]]}}`:                                                           new(protocol.ChunkEntry),
		`{"v":2,"again":{"by":1,"items":[[1,9223372036854775807]]}}`:                                         new(protocol.ChunkEntry),
		`{"v":2,"results":[{"i":99999999999}]}`:                                                              new(protocol.ChunkEntry),
		`{"v":2,"results":[` + strings.Repeat("{},", 600_000) + `{}]}`:                                       new(protocol.ChunkEntry),
		`{"v":2,"results":[{"i":1` + strings.Repeat(`},{"i":1`, protocol.MaxResults) + `}]}`:                 new(protocol.ChunkEntry),
		`{"v":2,"agent":"../../x"}`:                                                                          new(protocol.Join),
		`{"v":2,"agent":"a","rank":2147483648}`:                                                              new(protocol.Heartbeat),
		`{"v":2,"n":-1}`:                                                                                     new(protocol.Snapshot),
		`{"v":2,"at":"` + strings.Repeat("A", 100_000) + `"}`:                                                new(protocol.Exit),
	} {
		v := 1
		err := protocol.Decode([]byte(text), into, &v, "p/t/j/x")
		if !errors.Is(err, protocol.ErrUnreadable) || fault.Hint(err) == "" || !strings.HasPrefix(fmt.Sprint(err), "read p/t/j/x: ") || len(err.Error()) > 300 {
			t.Errorf("%.100s: %.400v", text, err)
		}
		if e, ok := into.(*protocol.ChunkEntry); ok {
			var read protocol.ChunkEntry
			if err := protocol.DecodeResults([]byte(text), &read, &read.Results, &read.V, "p/t/j/x"); !errors.Is(err, protocol.ErrUnreadable) {
				t.Errorf("with results apart: %.100s: %.400v, read %d before", text, err, len(e.Results))
			}
		}
	}
}

func manyDigests(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"A%d":"x"`, i))
	}
	return strings.Join(all, ",")
}

// Texts of items may be full of braces: they are none of the record's.
func TestBracesInATextAreNotCounted(t *testing.T) {
	text := strings.Repeat(`{"a\"{`, 200_000)
	b, err := json.Marshal(protocol.ChunkEntry{Header: protocol.Header{V: protocol.Format}, Results: []protocol.Result{{Item: 1, Head: text}}})
	if err != nil {
		t.Fatal(err)
	}
	if n := protocol.Structs(b); n != 2 {
		t.Errorf("%d records are counted", n)
	}
	var e protocol.ChunkEntry
	if err := protocol.Decode(b, &e, &e.V, "x"); err != nil || e.Results[0].Head != text {
		t.Error(err)
	}
}

// The names of snapshots are read without the objects.
func TestANameOfASnapshotWithNumbersOutOfRangeIsNone(t *testing.T) {
	for _, name := range []string{"zzz", "999999_99999999_0_0_9223372036854775807_9223372036854775807_0_0_0", "000001_00000001_0_0_-1_1_0_0_0", "000001_999999999_0_0_1_1_0_0_0"} {
		if b, ok := chunks.ParseSnapshotName(name); ok {
			t.Errorf("%s is read as %+v", name, b)
		}
	}
	if _, ok := chunks.ParseSnapshotName("000001_00000001_0_0_1_1_0_0_0"); !ok {
		t.Error("a good one is not read")
	}
}
