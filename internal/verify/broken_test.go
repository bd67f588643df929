package verify

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault/faulttest"
)

const (
	first = jobDir + "/chunks/00/000000"
	log   = jobDir + "/log"
)

// broken are sound histories, each broken in one way, and the doubts that gives:
// rule, log, entry and item.
var broken = []struct {
	name  string
	tell  func() *story
	spoil func(t *testing.T, s *story)
	want  []string
}{
	// Logs.
	{"a hole in a chunk's log", plain, func(t *testing.T, s *story) { s.drop(t, at(first, 1)) }, []string{"hole 000000 1"}},
	{"a hole in the job's log", plain, func(t *testing.T, s *story) { s.drop(t, at(log, 0)) }, []string{"hole job 0"}},
	{"a hole in the task's log", declined, func(t *testing.T, s *story) { s.drop(t, at(taskLog, 1)) }, []string{"hole task 1"}},
	{"the beginning of a chunk's log is gone", plain, func(t *testing.T, s *story) { s.drop(t, at(first, 0)) }, []string{"hole 000000 0"}},
	{"an entry that is not JSON", plain, func(t *testing.T, s *story) { s.objects[at(first, 1)] = "{" }, []string{"entry 000000 1"}},
	{"an entry of half a megabyte of nothing", plain, func(t *testing.T, s *story) { s.objects[at(first, 1)] = strings.Repeat("\x00", 512<<10) }, []string{"entry 000000 1"}},
	{"an entry with something behind it", plain, func(t *testing.T, s *story) { s.objects[at(first, 2)] += "{}" }, []string{"entry 000000 2"}},
	{"an entry of a newer drover", plain, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `"v":2`, `"v":3`) }, []string{"entry 000000 2"}},
	{"a fact that nobody knows", plain, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `"ended":{}`, `"ended":{},"melted":{}`) }, []string{"entry 000000 2"}},
	{"an entry of nobody", plain, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `"by":"a"`, `"by":""`) }, []string{"entry 000000 2"}},
	{"a chunk's fact in the job's log", live, func(t *testing.T, s *story) { s.job("a", `"starting":[1]`) }, []string{"entry job 4"}},
	{"a stop that chunks cannot name", begun, func(_ *testing.T, s *story) { s.job("cli", `"cancelled":{}`) }, []string{"entry job 0"}},
	{"an extension that chunks cannot name", begun, func(_ *testing.T, s *story) {
		s.job("cli", `"extended":{"manifest":{"count":1,"from":1,"to":1,"step":1},"first":4,"size":1}`)
	}, []string{"entry job 0"}},
	{"a job's fact in the task's log", plain, func(t *testing.T, s *story) { s.task("a", `"cancelled":{}`) }, []string{"entry task 2"}},
	{"a job's fact in a chunk's log", live, func(t *testing.T, s *story) { s.chunk("000000", "a", `"cancelled":{}`) }, []string{"entry 000000 2"}},
	{"an entry that says nothing", live, func(t *testing.T, s *story) { s.chunk("000000", "a", `"claim":1`) }, []string{"entry 000000 2"}},
	{"results beside a claim", live, func(t *testing.T, s *story) {
		s.chunk("000001", "a", `"claimed":{"agent":"a","n":1,"why":"untouched"}`, results("4"))
	}, []string{"entry 000001 0"}},
	{"an object that is not an entry", plain, func(_ *testing.T, s *story) { s.objects[first+"/notes.txt"] = "" }, []string{"stray chunks"}},
	{"a chunk in another's folder", plain, func(_ *testing.T, s *story) { s.objects[jobDir+"/chunks/01/000000/00000000"] = "" }, []string{"stray chunks"}},
	{"a chunk that nobody named", plain, func(_ *testing.T, s *story) { s.claim("000000.2", "b", 1, "untouched") }, []string{"stray 000000.2 0"}},
	{"a chunk beyond the manifest", plain, func(_ *testing.T, s *story) {
		s.objects[jobDir+"/chunks/02/000002/00000000"] = entry("b", `"claimed":{"agent":"b","n":1,"why":"untouched"}`)
	}, []string{"stray 000002 0"}},

	// The job and its task.
	{"no job.json", plain, func(t *testing.T, s *story) { s.drop(t, jobDir+"/job.json") }, []string{"job job.json"}},
	{"a job.json that is none", plain, func(_ *testing.T, s *story) { s.objects[jobDir+"/job.json"] = "[]" }, []string{"job job.json"}},
	{"another job's job.json", plain, func(t *testing.T, s *story) { s.edit(t, jobDir+"/job.json", `"id":"abcd`, `"id":"zbcd`) }, []string{"job job.json"}},
	{"a job.json that was changed", plain, func(t *testing.T, s *story) {
		sum := sha256.Sum256([]byte(s.objects[jobDir+"/job.json"]))
		s.edit(t, at(taskLog, 0), `"submitted":{`, `"submitted":{"record":"`+hex.EncodeToString(sum[:])+`",`)
		s.edit(t, jobDir+"/job.json", `"v":2`, `"v":2 `)
	}, []string{"job job.json"}},
	{"nodes that no job has", plain, func(t *testing.T, s *story) { s.edit(t, jobDir+"/job.json", `"v":2`, `"v":2,"since":-7`) }, []string{"job job.json"}},
	{"no chunk size", plain, func(t *testing.T, s *story) { s.edit(t, jobDir+"/job.json", `"chunk_size":3,`, "") }, []string{"job job.json"}},
	{"a short id that leads elsewhere", plain, func(t *testing.T, s *story) { s.edit(t, "ids/abcd", "squares", "cubes") }, []string{"job job.json"}},
	{"no short id", plain, func(t *testing.T, s *story) { s.drop(t, "ids/abcd") }, []string{"job job.json"}},
	{"a job that the task's log does not submit", plain, func(t *testing.T, s *story) {
		s.drop(t, at(taskLog, 1))
		s.edit(t, at(taskLog, 0), "abcdabcdabcdabcd", "other")
	}, []string{"task task"}},
	{"closed and not settled", live, func(_ *testing.T, s *story) { s.close() }, []string{"task task 1"}},
	{"closed again and not settled again", plain, func(_ *testing.T, s *story) { s.submit(); s.close() }, []string{"task task 3"}},
	{"reopened for a place that is none", reopened, func(t *testing.T, s *story) {
		s.edit(t, at(log, 2), `"submission":2`, `"submission":3`)
		s.edit(t, at(log, 3), `"submission":2`, `"submission":3`)
	}, []string{"task job 2"}},
	{"a range of other items", plain, func(t *testing.T, s *story) { s.edit(t, jobDir+"/job.json", `"to":6`, `"to":7`) }, []string{"manifest job.json"}},

	// Items.
	{"an extension that counts wrong", extended, func(t *testing.T, s *story) { s.edit(t, at(log, 1), `"count":3`, `"count":2`) },
		[]string{"manifest job 1", "stray x1-000001 1", "tally job 2"}},
	{"an extension that begins elsewhere", live, func(_ *testing.T, s *story) {
		s.job("cli", `"extended":{"manifest":`+s.list("x")+`,"first":8,"size":1}`)
	}, []string{"manifest job 4"}},
	{"an index that is gone", live, func(t *testing.T, s *story) {
		s.job("cli", `"extended":{"manifest":`+s.list("x")+`,"first":7,"size":1}`)
		s.dropLike(t, "/items/index-")
	}, []string{"manifest job 4"}},
	{"a damaged index", live, func(t *testing.T, s *story) {
		s.job("cli", `"extended":{"manifest":`+s.list("x")+`,"first":7,"size":1}`)
		s.edit(t, s.like(t, "/items/index-"), `"crc":1`, `"crc":2`)
	}, []string{"manifest job 4"}},
	{"an index that counts otherwise", live, func(_ *testing.T, s *story) {
		more := strings.Replace(s.list("x"), `"count":1`, `"count":2`, 1)
		s.job("cli", `"extended":{"manifest":`+more+`,"first":7,"size":1}`)
	}, []string{"manifest job 4"}},
	{"a damaged part", live, func(t *testing.T, s *story) {
		s.job("cli", `"extended":{"manifest":`+s.list("x")+`,"first":7,"size":1}`)
		s.edit(t, s.like(t, "/items/part-"), "x", "y")
	}, []string{"manifest job 4"}},
	{"a part that is gone", live, func(t *testing.T, s *story) {
		s.job("cli", `"extended":{"manifest":`+s.list("x")+`,"first":7,"size":1}`)
		s.dropLike(t, "/items/part-")
	}, []string{"manifest job 4"}},

	// Claims.
	{"a claim without grounds", live, func(_ *testing.T, s *story) { s.claim("000000", "b", 2, "released") }, []string{"claim 000000 2"}},
	{"a claim that is not the first", live, func(_ *testing.T, s *story) { s.claim("000001", "b", 1, "silence") }, []string{"claim 000001 0"}},
	{"a claim that skips one", live, func(_ *testing.T, s *story) { s.claim("000000", "b", 3, "silence") }, []string{"claim 000000 2"}},
	{"a claim for somebody else", live, func(_ *testing.T, s *story) {
		s.chunk("000001", "a", `"claimed":{"agent":"b","n":1,"why":"untouched"}`)
	}, []string{"claim 000001 0"}},

	// Results.
	{"a success superseded", retried, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `{"i":2}`, `{"i":1,"f":true,"z":true},{"i":2}`) }, []string{"twice 000000 2 item 1"}},
	{"a success twice", plain, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `{"i":1}`, `{"i":1},{"i":1}`) }, []string{"twice 000000 2 item 1"}},
	{"a failure superseded without a reopen", retried, func(t *testing.T, s *story) { s.edit(t, at(first, 3), `{"i":4}`, `{"i":3},{"i":4}`) }, []string{"twice 000000 3 item 3"}},
	{"a result of another chunk's item", plain, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `{"i":1}`, `{"i":1},{"i":4}`) }, []string{"result 000000 2 item 4"}},
	{"a result of an item that was handed on", handed, func(t *testing.T, s *story) { s.edit(t, at(first, 3), `{"i":2}`, `{"i":2},{"i":6}`) }, []string{"result 000000 3 item 6"}},
	{"a success with an exit status", plain, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `{"i":1}`, `{"i":1,"c":3}`) }, []string{"result 000000 2 item 1"}},
	{"outputs of no try", plain, func(t *testing.T, s *story) {
		s.edit(t, at(first, 1), `"y":"000000-1-1",`, "")
	}, []string{"output 000000 1 item 2", "result 000000 1 item 2"}},
	{"a foreign result that somebody counted", fenced, func(t *testing.T, s *story) { s.edit(t, at(first, 4), `{"i":2},`, "") }, []string{"foreign 000000 4 item 2"}},
	{"more foreign results than were at risk", fenced, func(t *testing.T, s *story) { s.edit(t, at(first, 0), `"risk":8`, `"risk":0`) }, []string{"extra job"}},
	{"results after the end", plain, func(_ *testing.T, s *story) { s.own("000000", "a", 1, results("1")) }, []string{"ended 000000 3 item 1"}},
	{"a failure more than retries allow", live, func(_ *testing.T, s *story) {
		s.own("000000", "a", 1, results("2f", "2f", "2f", "2f"))
		s.own("000000", "a", 1, results("2f", "2f"))
	}, []string{"retries 000000 3 item 2", "retries 000000 3 item 2"}},
	{"a failure for good, and one too many", retried, func(t *testing.T, s *story) {
		s.edit(t, at(first, 2), `{"i":3,"f":true,"c":7}`, `{"i":3,"f":true,"c":7},{"i":3,"f":true,"c":7}`)
	}, []string{"retries 000000 2 item 3", "retries 000000 3 item 3"}},
	{"a failure for good too early", retried, func(t *testing.T, s *story) {
		s.edit(t, at(first, 2), `,{"i":3,"f":true,"c":7}`, "")
	}, []string{"retries 000000 3 item 3"}},

	// M13.
	{"a run that was not named", lost, func(t *testing.T, s *story) { s.edit(t, at(first, 10), `"starting":[3]`, `"starting":[]`) },
		[]string{"careful 000000 11 item 3", "entry 000000 10"}},
	{"two at once", lost, func(t *testing.T, s *story) { s.edit(t, at(first, 4), `"starting":[2]`, `"starting":[3,2]`) }, []string{"careful 000000 4 item 2"}},
	{"a start of an item that has ended", lost, func(t *testing.T, s *story) { s.edit(t, at(first, 10), `[3]`, `[1,3]`) }, []string{"careful 000000 10 item 1"}},
	{"a start of another chunk's item", lost, func(t *testing.T, s *story) { s.edit(t, at(first, 10), `[3]`, `[9,3]`) }, []string{"careful 000000 10 item 9"}},
	{"handed over after two silent losses", careful, func(t *testing.T, s *story) {
		s.own("000000", "c", 3, `"handed":{"items":[[3,3]],"carry":{"3":{"s":2}}}`)
	}, []string{"careful 000000 3"}},
	{"a suspect beside others", suspected, func(t *testing.T, s *story) {
		s.edit(t, at(first, 5), `"handed":{"items":[[3,4]],"carry":{"3":{"s":2},"4":{"f":1,"s":2}}}`, `"handed":{"items":[[4,4]],"carry":{"4":{"f":1,"s":2}}}`)
		s.edit(t, at(first, 6), results("5", "6"), results("3", "5", "6"))
		s.edit(t, at(dirOf("000000.5"), 1), `"starting":[3]`, `"starting":[4]`)
		s.edit(t, at(dirOf("000000.5"), 2), results("3")+`,"starting":[4]`, `"starting":[4]`)
	}, []string{"careful 000000 6 item 3"}},
	{"a suspicion forgotten of an item that is tried again", suspected, func(t *testing.T, s *story) {
		s.edit(t, at(first, 5), `"4":{"f":1,"s":2}`, `"4":{"f":1,"s":1}`)
	}, []string{"handed 000000 5 item 4"}},
	{"a suspect that was not named", suspected, func(t *testing.T, s *story) {
		s.edit(t, at(dirOf("000000.5"), 2), `,"starting":[4]`, "")
	}, []string{"careful 000000.5 3 item 4"}},
	{"quarantined after two", lost, func(t *testing.T, s *story) {
		s.edit(t, at(first, 8), `"starting":[2]`, `"starting":[3]`)
	}, []string{"settled 000000"}},
	{"quarantined by the settled entry alone", plain, func(t *testing.T, s *story) {
		s.edit(t, at(log, 1), `"succeeded":6,"failed":0,"quarantined":0`, `"succeeded":5,"failed":0,"quarantined":1`)
		s.edit(t, at(log, 1), "SUCCEEDED", "FAILED")
	}, []string{"tally job 1"}},
	{"in flight twice", interrupted, func(t *testing.T, s *story) { s.edit(t, at(first, 1), "[2]", "[2,2]") }, []string{"released 000000 1 item 2"}},
	{"more stopped than were open", interrupted, func(t *testing.T, s *story) { s.edit(t, at(first, 1), `"flight":[2]`, `"stopped":3`) }, []string{"released 000000 1"}},
	{"fewer than none", interrupted, func(t *testing.T, s *story) { s.edit(t, at(first, 1), `"flight":[2]`, `"stopped":-1`) }, []string{"released 000000 1"}},
	{"in flight and ended", interrupted, func(t *testing.T, s *story) { s.edit(t, at(first, 1), "[2]", "[1,2]") }, []string{"released 000000 1 item 1"}},

	// Handed over.
	{"no failures taken along", handed, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `"carry":{"5":{"f":1}},`, "") }, []string{"handed 000000 2 item 5"}},
	{"blames that nobody had", handed, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `{"f":1}`, `{"f":1,"b":3}`) }, []string{"handed 000000 2 item 5"}},
	{"something behind an item that stays", handed, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `"5":{"f":1}`, `"5":{"f":1},"2":{"i":1}`) }, []string{"handed 000000 2 item 2"}},
	{"another mark", reopened, func(t *testing.T, s *story) { s.edit(t, at(first, 4), `"mark":2`, `"mark":1`) }, []string{"handed 000000 4"}},
	{"a suspicion that nothing is the ground of", handed, func(t *testing.T, s *story) { s.edit(t, at(first, 2), `{"f":1}`, `{"f":1,"s":1}`) }, []string{"handed 000000 2 item 5"}},
	{"an item handed over twice", handed, func(t *testing.T, s *story) {
		s.edit(t, at(first, 3), results("2", "3"), results("2", "3")+`,"handed":{"items":[[6,6]]}`)
	}, []string{"handed 000000 3 item 6"}},
	{"an item handed over that has ended", handed, func(t *testing.T, s *story) {
		s.edit(t, at(first, 3), results("2", "3"), results("2", "3")+`,"handed":{"items":[[2,2]]}`)
	}, []string{"handed 000000 3 item 2"}},
	{"an item handed over that runs", lost, func(t *testing.T, s *story) {
		s.edit(t, at(first, 10), `"starting":[3]`, `"starting":[3],"handed":{"items":[[3,3]]}`)
	}, []string{"handed 000000 10 item 3"}},
	{"items handed over that are another's", live, func(_ *testing.T, s *story) { s.own("000000", "a", 1, `"handed":{"items":[[3,4]]}`) }, []string{"handed 000000 2"}},
	{"items handed over from the end to the beginning", live, func(_ *testing.T, s *story) { s.own("000000", "a", 1, `"handed":{"items":[[3,2]]}`) }, []string{"handed 000000 2"}},
	{"a billion items handed over", live, func(_ *testing.T, s *story) { s.own("000000", "a", 1, `"handed":{"items":[[1,999999999]]}`) }, []string{"handed 000000 2"}},

	// The end, and after it.
	{"ended by what is not a stop", live, func(_ *testing.T, s *story) { s.chunk("000001", "b", `"ended":{"by":2}`) }, []string{"ended 000001 0"}},
	{"ended by an entry that is not there", live, func(_ *testing.T, s *story) { s.own("000000", "a", 1, `"ended":{"by":9}`) }, []string{"ended 000000 2"}},
	{"a success reopened", reopened, func(t *testing.T, s *story) { s.edit(t, at(first, 2), "[[2,3]]", "[[1,3]]") }, []string{"reopened 000000 2 item 1"}},
	{"less reopened than was selected", reopened, func(t *testing.T, s *story) {
		s.edit(t, at(first, 2), "[[2,3]]", "[[2,2]]")
		s.edit(t, at(first, 4), `"handed":{"items":[[3,3]],"mark":2}`, `"starting":[2]`)
		for _, n := range []int{0, 1} {
			s.drop(t, at(dirOf("000000.4"), n))
		}
	}, []string{"reopened 000000 2"}},
	{"items of another reopened", reopened, func(t *testing.T, s *story) {
		s.edit(t, at(log, 2), `"states":["FAILED"]`, `"states":["FAILED"],"items":[[2,2]]`)
	}, []string{"reopened 000000 2"}},
	{"reopened by what is not a reopen", plain, func(_ *testing.T, s *story) {
		s.chunk("000000", "b", `"again":{"by":1,"items":[]}`)
		s.claim("000000", "b", 2, "released")
		s.own("000000", "b", 2, ended)
	}, []string{"reopened 000000 3"}},
	{"another chunk's items reopened", reopened, func(t *testing.T, s *story) {
		s.chunk("000001", "b", `"again":{"by":2,"items":[[1,1]]}`)
	}, []string{"reopened 000001 2"}},
	{"a reopen that was not heard", dismissed, func(t *testing.T, s *story) {
		s.drop(t, at(first, 2))
	}, []string{"settled 000000"}},
	{"settled before all had ended", plain, func(t *testing.T, s *story) {
		s.drop(t, at(dirOf("000001"), 0))
		s.drop(t, at(dirOf("000001"), 1))
	}, []string{"settled 000001"}},
	{"settled before all had ended, by the state too", plain, func(t *testing.T, s *story) {
		s.edit(t, at(dirOf("000001"), 1), ","+ended, "")
	}, []string{"settled 000001"}},
	{"settled with other counts", plain, func(t *testing.T, s *story) {
		s.edit(t, at(log, 1), `"succeeded":6`, `"succeeded":5`)
	}, []string{"tally job 1"}},
	{"settled with more items", plain, func(t *testing.T, s *story) {
		s.edit(t, at(log, 1), `"items":6`, `"items":7`)
	}, []string{"tally job 1"}},
	{"settled without counts", plain, func(t *testing.T, s *story) {
		s.edit(t, at(log, 1), `"tally":`, `"tally":null,"hint":"","tally":`)
		s.edit(t, at(log, 1), `{"items":6,"succeeded":6,"failed":0,"quarantined":0,"cancelled":0}`, "null")
	}, []string{"tally job 1"}},
	{"settled as it is not", plain, func(t *testing.T, s *story) { s.edit(t, at(log, 1), "SUCCEEDED", "FAILED") }, []string{"settled job 1"}},
	{"settled with another's exit status", plain, func(t *testing.T, s *story) { s.edit(t, at(log, 1), `"code":0`, `"code":1`) }, []string{"settled job 1"}},
	{"a stop forgotten", stopped, func(t *testing.T, s *story) { s.edit(t, at(log, 2), "CANCELLED", "FAILED") }, []string{"settled job 2"}},
	{"the first round with the second's counts", reopened, func(t *testing.T, s *story) {
		s.edit(t, at(log, 1), `"succeeded":3,"failed":2`, `"succeeded":4,"failed":1`)
	}, []string{"tally job 1"}},
	{"declined with other counts", declined, func(t *testing.T, s *story) {
		s.edit(t, at(log, 2), `"succeeded":6`, `"succeeded":5`)
	}, []string{"settled job 2"}},

	// Outputs and snapshots.
	{"an output that is gone", plain, func(t *testing.T, s *story) { s.dropLike(t, "/out/") }, []string{"output 000000 1 item 2"}},
	{"an output of another size", plain, func(t *testing.T, s *story) { s.edit(t, s.like(t, "/out/"), "4", "44") }, []string{"output 000000 1 item 2"}},
	{"an output with other bytes", plain, func(t *testing.T, s *story) { s.edit(t, s.like(t, "/out/"), "4", "5") }, []string{"output 000000 1 item 2"}},
	{"an output that leads outside", plain, func(t *testing.T, s *story) { s.edit(t, at(first, 1), "squares/2.txt", "squares/../../2.txt") }, []string{"output 000000 1 item 2"}},
	{"a snapshot that counts otherwise", snapshots, rename("_4_3_1_", "_4_4_0_"), []string{"snapshot results/000000_00000003_0_0_4_4_0_0_0"}},
	{"a snapshot of an entry that ended nothing", snapshots, func(t *testing.T, s *story) {
		rename("_00000003_", "_00000002_")(t, s)
		s.edit(t, s.like(t, "/results/"), `"n":3`, `"n":2`)
	}, []string{"snapshot results/000000_00000002_0_0_4_3_1_0_0"}},
	{"a snapshot of another entry than it says", snapshots, rename("_00000003_", "_00000002_"), []string{"snapshot results/000000_00000002_0_0_4_3_1_0_0"}},
	{"a snapshot of no chunk", snapshots, rename("000000_", "000007_"), []string{"snapshot results/000007_00000003_0_0_4_3_1_0_0"}},
	{"a snapshot whose name says nothing", snapshots, rename("_4_3_1_", "_4_3_x_"), []string{"snapshot results/000000_00000003_0_0_4_3_x_0_0"}},
	{"a snapshot without a result", snapshots, func(t *testing.T, s *story) { s.edit(t, s.like(t, "/results/"), `{"i":1},`, "") }, []string{"snapshot results/000000_00000003_0_0_4_3_1_0_0 item 1"}},
	{"a snapshot with one more", snapshots, func(t *testing.T, s *story) { s.edit(t, s.like(t, "/results/"), `{"i":4}`, `{"i":4},{"i":5}`) }, []string{"snapshot results/000000_00000003_0_0_4_3_1_0_0 item 5"}},
	{"a snapshot with another result", snapshots, func(t *testing.T, s *story) { s.edit(t, s.like(t, "/results/"), `{"i":4}`, `{"i":4,"h":"x"}`) }, []string{"snapshot results/000000_00000003_0_0_4_3_1_0_0 item 4"}},
}

// careful is a chunk after two silent losses.
func careful() *story {
	s := begin(3, 3, 0)
	s.claim("000000", "a", 1, "untouched")
	s.claim("000000", "b", 2, "silence")
	s.claim("000000", "c", 3, "silence")
	return s
}

// begun is a map with nothing in its log yet.
func begun() *story {
	s := begin(3, 3, 0)
	delete(s.objects, at(log, 0))
	s.next[log] = 0
	return s
}

// like finds the one key that holds text.
func (s *story) like(t testing.TB, text string) (found string) {
	t.Helper()
	for key := range s.objects {
		if strings.Contains(key, text) {
			if found != "" {
				t.Fatalf("%s and %s hold %q", found, key, text)
			}
			found = key
		}
	}
	if found == "" {
		t.Fatalf("no key holds %q", text)
	}
	return found
}

func (s *story) dropLike(t testing.TB, text string) { s.drop(t, s.like(t, text)) }

// rename gives the one snapshot another name.
func rename(from, to string) func(*testing.T, *story) {
	return func(t *testing.T, s *story) {
		key := s.like(t, "/results/")
		text := s.objects[key]
		s.drop(t, key)
		s.objects[strings.Replace(key, from, to, 1)] = text
	}
}

func TestWhatIsBrokenGivesThatDoubt(t *testing.T) {
	t.Parallel()
	rules := map[Rule]bool{}
	var said faulttest.Sayings
	for _, b := range broken {
		t.Run(b.name, func(t *testing.T) {
			s := b.tell()
			b.spoil(t, s)
			r := s.verify(t)
			if diff := cmp.Diff(b.want, brief(r.Findings)); diff != "" {
				t.Errorf("doubts (-want +got):\n%s\n%v", diff, r.Findings)
			}
			say(&said, b.name, r.Findings)
			for _, d := range r.Findings {
				rules[d.Rule] = true
				if d.Why == "" {
					t.Errorf("%v does not say why", d)
				}
			}
		})
	}
	for _, rule := range []Rule{RuleHole, RuleEntry, RuleStray, RuleJob, RuleTask, RuleManifest, RuleClaim, RuleResult, RuleTwice, RuleForeign,
		RuleRetries, RuleCareful, RuleHanded, RuleReleased, RuleEnded, RuleReopened, RuleSettled, RuleTally, RuleExtra, RuleOutput, RuleSnapshot} {
		if !rules[rule] {
			t.Errorf("no history breaks the rule %q", rule)
		}
	}
	said.Compare(t, "broken")
}
