package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// story is a store written by hand: objects as text, by key.
type story struct {
	objects map[string]string
	next    map[string]int // by log: its next number
}

var mapPath = job.Path{Project: "demo", Task: "squares", Job: "abcdabcdabcdabcd"}

const (
	taskLog = "demo/squares/log"
	jobDir  = "demo/squares/abcdabcdabcdabcd"
)

// begin is a map over the range 1 to items, in chunks of a size, that was submitted.
func begin(items, size, retries int) *story {
	s := &story{objects: map[string]string{}, next: map[string]int{}}
	s.objects["ids/abcd"] = `{"project":"demo","task":"squares","job":"abcdabcdabcdabcd"}`
	s.objects[jobDir+"/job.json"] = fmt.Sprintf(`{"v":2,"id":"abcdabcdabcdabcd","short":"abcd","chunk_size":%d,
		"spec":{"project":"demo","task":"squares","verb":"map","program":"work","nodes":1,"retries":%d},
		"manifest":{"count":%d,"digest":"","format":"lines","from":1,"to":%d,"step":1}}`, size, retries, items, items)
	s.task("cli", `"submitted":{"job":"abcdabcdabcdabcd"}`)
	s.job("cli", `"placed":{"placement":1,"agents":2,"target":"local"}`)
	return s
}

// entry is an entry's text.
func entry(by, facts string) string {
	return fmt.Sprintf(`{"v":2,"nonce":"0123456789abcdef","by":%q,"at":"2026-01-02T03:04:05Z",%s}`, by, facts)
}

func (s *story) log(dir, by, facts string) {
	s.objects[fmt.Sprintf("%s/%08d", dir, s.next[dir])] = entry(by, facts)
	s.next[dir]++
}

func (s *story) task(by, facts string) { s.log(taskLog, by, facts) }
func (s *story) job(by, facts string)  { s.log(jobDir+"/log", by, facts) }

func (s *story) chunk(id, by string, facts ...string) {
	s.log(dirOf(id), by, strings.Join(facts, ","))
}

// dirs are where the chunks of the stories lie: by hand, so that the layout has an
// oracle. The hash is FNV-1a's.
var dirs = map[string]string{"000000": "00", "000001": "01", "000002": "02", "000003": "03",
	"000000.2": "e1", "000000.4": "07", "000000.5": "74", "000000.2.1": "84",
	"x1-000000": "15", "x1-000001": "82", "x2-000000": "76"}

func dirOf(id string) string { return jobDir + "/chunks/" + dirs[id] + "/" + id }

// own is an owner's entry.
func (s *story) own(id, by string, claim int, facts ...string) {
	s.chunk(id, by, append([]string{fmt.Sprintf(`"claim":%d`, claim)}, facts...)...)
}

func (s *story) claim(id, by string, n int, why string) { s.claimAt(8, id, by, n, why) }

// claimAt is a claim with an owner that may begin so many items without their results.
func (s *story) claimAt(risk int, id, by string, n int, why string) {
	s.chunk(id, by, fmt.Sprintf(`"claimed":{"agent":%q,"n":%d,"why":%q,"risk":%d}`, by, n, why, risk))
}

// results are of successes ("3") and failures ("3f"; "3F": for good).
func results(items ...string) string {
	var all []string
	for _, text := range items {
		number := strings.TrimRight(text, "fF")
		more := ""
		switch {
		case strings.HasSuffix(text, "f"):
			more = `,"f":true,"c":7`
		case strings.HasSuffix(text, "F"):
			more = `,"f":true,"z":true,"c":7`
		}
		all = append(all, fmt.Sprintf(`{"i":%s%s}`, number, more))
	}
	return `"results":[` + strings.Join(all, ",") + `]`
}

// wrote is a success with one output, which it puts into the store.
func (s *story) wrote(item int, try, name, text string) string {
	s.objects[fmt.Sprintf("%s/out/%d/%s/%s", jobDir, item, try, name)] = text
	return fmt.Sprintf(`"results":[{"i":%d,"y":%q,"o":[{"n":%q,"s":%d,"d":%q}]}]`, item, try, name, len(text), digestOf(text))
}

func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

const ended = `"ended":{}`

// whole has one agent do all items of a chunk.
func (s *story) whole(id, by string, items ...string) {
	s.claim(id, by, 1, "untouched")
	s.own(id, by, 1, results(items...), ended)
}

// settle says how the map has ended: items, succeeded, failed, quarantined, cancelled.
func (s *story) settle(state string, place int, t ...int) {
	code := map[string]int{"FAILED": 1, "CANCELLED": 130}[state]
	s.job("a", fmt.Sprintf(`"settled":{"state":%q,"attempt":0,"rank":0,"code":%d,"reason":"","submission":%d,
		"tally":{"items":%d,"succeeded":%d,"failed":%d,"quarantined":%d,"cancelled":%d}}`, state, code, place, t[0], t[1], t[2], t[3], t[4]))
}

func (s *story) close()  { s.task("a", `"closed":{"job":"abcdabcdabcdabcd"}`) }
func (s *story) submit() { s.task("cli", `"submitted":{"job":"abcdabcdabcdabcd"}`) }

// edit replaces text in one object; the text must be there once.
func (s *story) edit(t testing.TB, key, from, to string) {
	t.Helper()
	old, ok := s.objects[key]
	if !ok || strings.Count(old, from) != 1 {
		t.Fatalf("%q stands %d times in %s: %s", from, strings.Count(old, from), key, old)
	}
	s.objects[key] = strings.Replace(old, from, to, 1)
}

func (s *story) drop(t testing.TB, key string) {
	t.Helper()
	if _, ok := s.objects[key]; !ok {
		t.Fatalf("there is no %s", key)
	}
	delete(s.objects, key)
}

func at(dir string, n int) string { return fmt.Sprintf("%s/%08d", dir, n) }

// store makes it real.
func (s *story) store(t testing.TB) *store.Store {
	t.Helper()
	b := mem.New()
	for key, text := range s.objects {
		if err := b.Create(t.Context(), key, bytes.NewReader([]byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	return store.New(b, store.Options{})
}

func (s *story) verify(t testing.TB) report.Verified {
	t.Helper()
	r, err := Verify(t.Context(), s.store(t), mapPath, nil)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// brief is what a test expects of doubts: "rule log entry item", sorted.
func brief(doubts []report.Finding) (lines []string) {
	for _, d := range doubts {
		line := fmt.Sprintf("%s %s", d.Rule, d.Log)
		if d.Entry >= 0 {
			line += fmt.Sprintf(" %d", d.Entry)
		}
		if d.Item > 0 {
			line += fmt.Sprintf(" item %d", d.Item)
		}
		lines = append(lines, line)
	}
	slices.Sort(lines)
	return lines
}

// say notes what a user reads of doubts, or of what does not count, in the order of the
// alphabet.
func say[N fmt.Stringer](said *faulttest.Sayings, history string, all []N) {
	var lines []string
	for _, n := range all {
		lines = append(lines, n.String())
	}
	slices.Sort(lines)
	for _, line := range lines {
		said.Add(history, line)
	}
}
