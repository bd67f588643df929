package verify

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// sound are histories in which all agrees: of every kind of entry and every way in
// which an item may end.
var sound = map[string]func() *story{
	"plain": plain, "retried": retried, "handed": handed, "lost": lost, "suspected": suspected, "interrupted": interrupted, "asked": asked, "drained": drained, "stopped": stopped,
	"failing": failing, "reopened": reopened, "extended": extended, "dismissed": dismissed, "fenced": fenced,
	"declined": declined, "outputs": outputs, "added": added, "snapshots": snapshots, "live": live, "ignored": ignored, "worn": worn,
}

// plain: two chunks, an agent each, an output.
func plain() *story {
	s := begin(6, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, s.wrote(2, "000000-1-1", "squares/2.txt", "4\n"))
	s.own("000000", "a", 1, results("1", "3"), ended)
	s.whole("000001", "b", "5", "4", "6")
	s.settle("SUCCEEDED", 0, 6, 6, 0, 0, 0)
	s.close()
	return s
}

// outputs: each item must leave some, under names that keys cannot hold too.
func outputs() *story {
	s := begin(2, 2, 0)
	key := jobDir + "/job.json"
	s.objects[key] = strings.Replace(s.objects[key], `"nodes":1`, `"nodes":1,"out":["{}.txt"]`, 1)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, s.wrote(1, "000000-1-1", "1.txt", "one"))
	last := s.wrote(2, "000000-1-2", "_2etwo_5f5fhalves_20_c3_97_202.txt", "two")
	s.own("000000", "a", 1, strings.Replace(last, "_2etwo_5f5fhalves_20_c3_97_202.txt", ".two_5fhalves × 2.txt", 1), ended)
	s.settle("SUCCEEDED", 0, 2, 2, 0, 0, 0)
	return s
}

// retried: one retry; item 2 needs it, item 3 fails twice.
func retried() *story {
	s := begin(4, 4, 1)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1", "2f"))
	s.own("000000", "a", 1, results("2", "3f"))
	s.own("000000", "a", 1, results("3F", "4"), ended)
	s.settle("FAILED", 0, 4, 3, 1, 0, 0)
	s.close()
	return s
}

// handed: a part goes to b with a failure behind it, and a part of that to c.
func handed() *story {
	s := begin(6, 6, 1)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1", "5f"))
	s.own("000000", "a", 1, `"handed":{"items":[[4,6]],"carry":{"5":{"f":1}},"to":"b"}`)
	s.own("000000", "a", 1, results("2", "3"), ended)
	s.claim("000000.2", "b", 1, "untouched")
	s.own("000000.2", "b", 1, results("4", "6f"), `"handed":{"items":[[5,6]],"carry":{"5":{"f":1},"6":{"f":1}},"wait":1000000000}`, ended)
	s.claim("000000.2.1", "c", 1, "untouched")
	s.own("000000.2.1", "c", 1, results("5F", "6"), ended)
	s.settle("FAILED", 0, 6, 5, 1, 0, 0)
	s.close()
	return s
}

// lost: item 2 kills its agents until it is quarantined.
func lost() *story {
	s := begin(3, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1"))
	s.claim("000000", "b", 2, "silence")
	s.claim("000000", "c", 3, "silence")
	s.own("000000", "c", 3, `"starting":[2]`)
	s.claim("000000", "d", 4, "silence")
	s.own("000000", "d", 4, `"starting":[2]`)
	s.claim("000000", "e", 5, "silence")
	s.own("000000", "e", 5, `"starting":[2]`)
	s.claim("000000", "f", 6, "silence")
	s.own("000000", "f", 6, `"starting":[3]`)
	s.own("000000", "f", 6, results("3"), ended)
	s.settle("FAILED", 0, 3, 2, 0, 1, 0)
	s.close()
	return s
}

// suspected: a and b die in silence, and item 3 alone may have been running at both.
// c hands it over and runs the others as ever, then item 3 alone.
func suspected() *story {
	s := begin(6, 6, 1)
	s.claimAt(2, "000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1", "4f"))
	s.claimAt(2, "000000", "b", 2, "silence") // 4, that is tried again, and 2 and 3
	s.own("000000", "b", 2, results("2"))
	s.claimAt(2, "000000", "c", 3, "silence") // 3 and 4
	s.own("000000", "c", 3, `"handed":{"items":[[3,4]],"carry":{"3":{"s":2},"4":{"f":1,"s":2}}}`)
	s.own("000000", "c", 3, results("5", "6"), ended)
	s.claimAt(2, "000000.5", "c", 1, "untouched")
	s.own("000000.5", "c", 1, `"starting":[3]`)
	s.own("000000.5", "c", 1, results("3"), `"starting":[4]`)
	s.own("000000.5", "c", 1, results("4"), ended)
	s.settle("SUCCEEDED", 0, 6, 6, 0, 0, 0)
	s.close()
	return s
}

// interrupted: a leaves in time, b's machine is taken while it starts item 3.
func interrupted() *story {
	s := begin(3, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1"), `"released":{"flight":[2]}`)
	s.claim("000000", "b", 2, "released")
	s.own("000000", "b", 2, `"starting":[3]`)
	s.job("cli", `"gone":{"b":true}`)
	s.claim("000000", "c", 3, "taken")
	s.own("000000", "c", 3, results("2", "3"), ended)
	s.settle("SUCCEEDED", 0, 3, 3, 0, 0, 0)
	s.close()
	return s
}

// asked: a person stops a, of which two items run; b does them again.
func asked() *story {
	s := begin(3, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1"), `"released":{"stopped":2}`)
	s.claim("000000", "b", 2, "released")
	s.own("000000", "b", 2, results("2", "3"), ended)
	s.settle("SUCCEEDED", 0, 3, 3, 0, 0, 0)
	s.close()
	return s
}

// drained: an agent that is to take no more; another does the rest. One that names
// no agent drains no agent.
func drained() *story {
	s := begin(3, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1"))
	s.job("cli", `"drained":{"agent":"a"}`)
	s.own("000000", "a", 1, results("2"), `"released":{}`)
	s.claim("000000", "b", 2, "released")
	s.own("000000", "b", 2, results("3"), ended)
	s.job("cli", `"drained":{}`)
	s.settle("SUCCEEDED", 0, 3, 3, 0, 0, 0)
	s.close()
	return s
}

// worn: an item that is interrupted once more than it may be.
func worn() *story {
	s := begin(1, 1, 0)
	why := "untouched"
	for n := 1; n <= 21; n++ {
		s.claim("000000", fmt.Sprint("a", n), n, why)
		s.own("000000", fmt.Sprint("a", n), n, `"released":{"flight":[1]}`)
		why = "released"
	}
	s.claim("000000", "b", 22, "released")
	s.own("000000", "b", 22, ended)
	s.settle("FAILED", 0, 1, 0, 1, 0, 0)
	return s
}

// stopped: cancelled while a works; no agent had claimed the second chunk.
func stopped() *story {
	s := begin(6, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1"))
	s.job("cli", `"cancelled":{"reason":"enough","drain":true}`)
	s.own("000000", "a", 1, results("2"), `"ended":{"by":1}`)
	s.chunk("000001", "b", `"ended":{"by":1}`)
	s.settle("CANCELLED", 0, 6, 2, 0, 0, 4)
	s.close()
	return s
}

// failing: too many failures.
func failing() *story {
	s := begin(3, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1F"))
	s.job("a", `"failing":{"reason":"1 item failed, at most 0 may","code":1}`)
	s.own("000000", "a", 1, `"ended":{"by":1}`)
	s.settle("FAILED", 0, 3, 0, 1, 0, 2)
	return s
}

// reopened: items 2 and 3 run again in a second round, one of them handed over.
func reopened() *story {
	s := begin(5, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1", "2F", "3F"), ended)
	s.whole("000001", "b", "4", "5")
	s.settle("FAILED", 0, 5, 3, 2, 0, 0)
	s.close()
	s.submit()
	s.job("cli", `"reopened":{"submission":2,"states":["FAILED"]}`)
	s.chunk("000000", "c", `"again":{"by":2,"items":[[2,3]]}`)
	s.claim("000000", "c", 2, "released")
	s.own("000000", "c", 2, `"handed":{"items":[[3,3]],"mark":2}`)
	s.own("000000", "c", 2, results("2"), ended)
	s.claim("000000.4", "d", 1, "untouched")
	s.own("000000.4", "d", 1, results("3F"), ended)
	s.settle("FAILED", 2, 5, 4, 1, 0, 0)
	s.close()
	return s
}

// list puts items into the store as a manifest, and gives what names it.
func (s *story) list(items ...string) string {
	part := ""
	for _, item := range items {
		part += item + "\n"
	}
	dir := jobDir + "/items/"
	partName := "part-" + digestOf(part)[:32] + ".zst"
	s.objects[dir+partName] = part
	index := fmt.Sprintf(`{"v":1,"format":"lines","count":%d,"digest":"d1","parts":[{"name":%q,"blocks":[{"n":%d,"len":%d,"crc":1,"raw":9}]}]}`,
		len(items), partName, len(items), len(part))
	key := dir + "index-" + digestOf(index)[:32] + ".json"
	s.objects[key] = index
	return fmt.Sprintf(`{"key":%q,"count":%d,"digest":"d1","format":"lines"}`, key, len(items))
}

// extended: three more items while it runs.
func extended() *story {
	s := begin(2, 2, 0)
	s.whole("000000", "a", "1", "2")
	s.job("cli", `"extended":{"manifest":`+s.list("x", "y", "z")+`,"first":3,"size":2}`)
	s.whole("x1-000000", "a", "3", "4")
	s.whole("x1-000001", "b", "5")
	s.settle("SUCCEEDED", 0, 5, 5, 0, 0, 0)
	s.close()
	return s
}

// added: a second round for new items alone.
func added() *story {
	s := begin(2, 2, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1", "2F"), ended)
	s.settle("FAILED", 0, 2, 1, 1, 0, 0)
	s.close()
	s.submit()
	s.job("cli", `"reopened":{"submission":2,"none":true},"extended":{"manifest":`+s.list("x")+`,"first":3,"size":1}`)
	s.whole("x2-000000", "b", "3")
	s.settle("FAILED", 2, 3, 2, 1, 0, 0)
	return s
}

// dismissed: a reopen that a cancel overtakes.
func dismissed() *story {
	s := begin(2, 1, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1F"), ended)
	s.job("cli", `"reopened":{}`)
	s.job("cli", `"cancelled":{}`)
	s.chunk("000000", "b", `"ended":{"by":2}`)
	s.chunk("000001", "b", `"ended":{"by":2}`)
	s.settle("CANCELLED", 0, 2, 0, 1, 0, 1)
	return s
}

// fenced: a wakes up after b has taken its chunk.
func fenced() *story {
	s := begin(3, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1"))
	s.claim("000000", "b", 2, "silence")
	s.own("000000", "a", 1, results("2"))
	s.own("000000", "b", 2, results("2", "3"), ended)
	s.settle("SUCCEEDED", 0, 3, 3, 0, 0, 0)
	return s
}

// declined: submitted again, and no agent came to reopen it.
func declined() *story {
	s := plain()
	s.submit()
	s.settle("SUCCEEDED", 2, 6, 6, 0, 0, 0)
	s.close()
	return s
}

// snapshots: an index of each chunk, one of them without results.
func snapshots() *story {
	s := retried()
	s.objects[jobDir+"/results/000000_00000003_0_0_4_3_1_0_0"] = `{"v":2,"id":"000000","n":3,"results":[
		{"i":1},{"i":2},{"i":3,"f":true,"z":true,"c":7},{"i":4}]}`
	return s
}

// live: nothing has ended.
func live() *story {
	s := begin(6, 3, 2)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, results("1", "2f"))
	s.job("cli", `"paused":{"reason":"lunch"}`)
	s.job("cli", `"resumed":{}`)
	s.job("cli", `"amended":{"retries":5,"timeout":"1m0s","limits":{"cpus":2}}`)
	return s
}

// ignored: entries that do not count, by any writer.
func ignored() *story {
	s := begin(3, 3, 0)
	s.task("cli", `"submitted":{"job":"other"}`)
	s.claim("000000", "a", 1, "untouched")
	s.own("000000", "a", 1, ended)                                         // 1: items are open
	s.chunk("000000", "b", `"again":{"by":1,"items":[[1,1]]}`)             // 2: it is open
	s.chunk("000000", "b", ended)                                          // 3: not its owner
	s.job("cli", `"reopened":{"states":["FAILED"]}`)                       // 1: counts, selects nothing
	s.job("cli", `"cancelled":{}`)                                         // 2
	s.job("a", `"failing":{}`)                                             // 3
	s.job("cli", `"reopened":{}`)                                          // 4
	s.job("cli", `"extended":{"manifest":{"count":1},"first":4,"size":1}`) // 5
	s.own("000000", "a", 1, results("1", "2", "3"), ended)                 // 4
	s.claim("000000", "b", 2, "released")                                  // 5: it had ended
	s.chunk("000000", "c", `"ended":{"by":2}`)                             // 6: counts, and changes nothing
	s.chunk("000000", "c", `"ended":{"by":2}`)                             // 7
	s.settle("CANCELLED", 7, 3, 3, 0, 0, 0)                                // 6: not this round's
	s.settle("CANCELLED", 0, 3, 3, 0, 0, 0)                                // 7
	s.settle("CANCELLED", 0, 3, 3, 0, 0, 0)                                // 8
	s.job("cli", `"placed":{"placement":2,"agents":1,"target":"local"}`)   // 9
	s.close()
	return s
}

func TestSoundHistoriesGiveNoDoubt(t *testing.T) {
	t.Parallel()
	tally := func(items, succeeded, failed, quarantined, cancelled int) job.Tally {
		return job.Tally{Items: items, Succeeded: succeeded, Failed: failed, Quarantined: quarantined, Cancelled: cancelled}
	}
	want := map[string]report.Verified{
		"plain":       {State: job.Succeeded, Items: 6, Tally: tally(6, 6, 0, 0, 0), Rounds: 1, Chunks: 2, Entries: 9, Claims: 2, Outputs: 1, Bytes: 2},
		"retried":     {State: job.Failed, Items: 4, Tally: tally(4, 3, 1, 0, 0), Rounds: 1, Chunks: 1, Entries: 8, Claims: 1, Extra: report.ExtraRuns{Retries: 2}},
		"handed":      {State: job.Failed, Items: 6, Tally: tally(6, 5, 1, 0, 0), Rounds: 1, Chunks: 3, Entries: 12, Claims: 3, Handed: 2, Extra: report.ExtraRuns{Retries: 2}},
		"lost":        {State: job.Failed, Items: 3, Tally: tally(3, 2, 0, 1, 0), Rounds: 1, Chunks: 1, Entries: 16, Claims: 6, Losses: 5, Bound: 40, Extra: report.ExtraRuns{Interrupted: 2}},
		"interrupted": {State: job.Succeeded, Items: 3, Tally: tally(3, 3, 0, 0, 0), Rounds: 1, Chunks: 1, Entries: 11, Claims: 3, Losses: 1, Bound: 8, Extra: report.ExtraRuns{Interrupted: 2}},
		"asked":       {State: job.Succeeded, Items: 3, Tally: tally(3, 3, 0, 0, 0), Rounds: 1, Chunks: 1, Entries: 8, Claims: 2, Stopped: 2, Bound: 2},
		"drained": {State: job.Succeeded, Items: 3, Tally: tally(3, 3, 0, 0, 0), Rounds: 1, Chunks: 1, Entries: 11, Claims: 2,
			Told: 1, Ignored: []report.VerifyNote{{Log: "job", Entry: 2, By: "cli", Why: "it drains an agent without naming one"}}},
		"worn":      {State: job.Failed, Items: 1, Tally: tally(1, 0, 1, 0, 0), Rounds: 1, Chunks: 1, Entries: 47, Claims: 22, Extra: report.ExtraRuns{Interrupted: 20}},
		"stopped":   {State: job.Cancelled, Items: 6, Tally: tally(6, 2, 0, 0, 4), Rounds: 1, Chunks: 2, Entries: 9, Claims: 1},
		"failing":   {State: job.Failed, Items: 3, Tally: tally(3, 0, 1, 0, 2), Rounds: 1, Chunks: 1, Entries: 7, Claims: 1},
		"reopened":  {State: job.Failed, Items: 5, Tally: tally(5, 4, 1, 0, 0), Rounds: 2, Chunks: 3, Entries: 18, Claims: 4, Handed: 1, Extra: report.ExtraRuns{Retries: 2}},
		"extended":  {State: job.Succeeded, Items: 5, Tally: tally(5, 5, 0, 0, 0), Rounds: 1, Chunks: 3, Entries: 11, Claims: 3},
		"added":     {State: job.Failed, Items: 3, Tally: tally(3, 2, 1, 0, 0), Rounds: 2, Chunks: 2, Entries: 11, Claims: 2},
		"dismissed": {State: job.Cancelled, Items: 2, Tally: tally(2, 0, 1, 0, 1), Rounds: 1, Chunks: 2, Entries: 9, Claims: 1},
		"fenced": {State: job.Succeeded, Items: 3, Tally: tally(3, 3, 0, 0, 0), Rounds: 1, Chunks: 1, Entries: 8, Claims: 2, Losses: 1, Bound: 8, Extra: report.ExtraRuns{Unexplained: 1},
			Told: 1, Ignored: []report.VerifyNote{{Log: "000000", Entry: 3, By: "a", Why: "its writer took the chunk as number 1, and by then number 2 had it: b"}}},
		"declined":  {State: job.Succeeded, Items: 6, Tally: tally(6, 6, 0, 0, 0), Rounds: 1, Chunks: 2, Entries: 12, Claims: 2, Outputs: 1, Bytes: 2},
		"outputs":   {State: job.Succeeded, Items: 2, Tally: tally(2, 2, 0, 0, 0), Rounds: 1, Chunks: 1, Entries: 6, Claims: 1, Outputs: 2, Bytes: 6},
		"snapshots": {State: job.Failed, Items: 4, Tally: tally(4, 3, 1, 0, 0), Rounds: 1, Chunks: 1, Entries: 8, Claims: 1, Extra: report.ExtraRuns{Retries: 2}},
		"live":      {Items: 6, Tally: tally(6, 1, 0, 0, 0), Chunks: 2, Entries: 7, Claims: 1},
	}
	for name, tell := range sound {
		got := tell().verify(t)
		if !got.Sound() {
			t.Errorf("%s: %v", name, got.Findings)
		}
		expected, ok := want[name]
		if !ok {
			continue // TestWhatDoesNotCountIsTold has it
		}
		expected.V, expected.Job = 1, mapPath.String()
		if diff := cmp.Diff(expected, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestWhatDoesNotCountIsTold(t *testing.T) {
	t.Parallel()
	r := ignored().verify(t)
	var got []string
	for _, n := range r.Ignored {
		got = append(got, fmt.Sprintf("%s %d", n.Log, n.Entry))
	}
	slices.Sort(got)
	want := []string{"000000 1", "000000 2", "000000 3", "000000 5", "000000 7", "job 3", "job 4", "job 5", "job 6", "job 8", "job 9", "task 1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is told (-want +got):\n%s\n%v", diff, r.Ignored)
	}
	if r.Open() || r.Told != len(want) {
		t.Errorf("state %q, %d told", r.State, r.Told)
	}
	var said faulttest.Sayings
	say(&said, "a map", r.Ignored)
	s := reopened()
	s.job("cli", `"reopened":{"submission":2,"states":["FAILED"]}`)
	say(&said, "a map that was to run again twice", s.verify(t).Ignored)
	said.Compare(t, "ignored-map")
}
