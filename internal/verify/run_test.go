package verify

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/report"
)

// trained is a run on two nodes that left a model after a first attempt that failed.
func trained() *story {
	s := &story{objects: map[string]string{}, next: map[string]int{}}
	s.objects["ids/abcd"] = `{"project":"demo","task":"squares","job":"abcdabcdabcdabcd"}`
	s.objects[jobDir+"/job.json"] = `{"v":2,"id":"abcdabcdabcdabcd","short":"abcd",
		"spec":{"project":"demo","task":"squares","verb":"run","program":"train.py","nodes":2,"retries":1}}`
	s.task("cli", `"submitted":{"job":"abcdabcdabcdabcd"}`)
	s.job("cli", `"placed":{"placement":1,"agents":2,"target":"local"}`)
	s.job("a", `"attempt":{"k":1,"cause":"first"}`)
	s.exit(1, 0, "a", "failed", 3, "")
	s.exit(1, 1, "b", "halted", 143, "")
	s.job("a", `"attempt":{"k":2,"cause":"failure","ranks":[0]}`)
	s.exit(2, 0, "a", "done", 0, `"outputs":{"model":"`+s.tree("model.pt", "weights")+`"}`)
	s.exit(2, 1, "b", "done", 0, "")
	s.job("b", `"settled":{"state":"SUCCEEDED","attempt":2,"rank":0,"code":0,"reason":""}`)
	s.close()
	return s
}

// exit has an agent join an attempt as a rank, and end.
func (s *story) exit(k, rank int, agent, verdict string, code int, more string) {
	if more != "" {
		more = "," + more
	}
	s.objects[fmt.Sprintf("%s/attempts/%d/join/%d", jobDir, k, rank)] = fmt.Sprintf(`{"v":2,"nonce":"n","agent":%q,"token":"t"}`, agent)
	s.objects[fmt.Sprintf("%s/attempts/%d/exit/%d", jobDir, k, rank)] = fmt.Sprintf(`{"v":2,"nonce":"n","agent":%q,"verdict":%q,"code":%d%s}`, agent, verdict, code, more)
}

// tree puts a folder with one file into the store, and gives its digest.
func (s *story) tree(name, text string) string {
	s.objects["blobs/"+digestOf(text)] = text
	list := fmt.Sprintf(`{"files":[{"path":%q,"size":%d,"mode":420,"sha256":%q}]}`, name, len(text), digestOf(text))
	s.objects["blobs/"+digestOf(list)] = list
	return digestOf(list)
}

func TestASoundRunGivesNoDoubt(t *testing.T) {
	t.Parallel()
	want := report.Verified{V: 1, Job: mapPath.String(), State: job.Succeeded, Rounds: 1, Entries: 10, Attempts: 2, Outputs: 2, Bytes: 134}
	if diff := cmp.Diff(want, trained().verify(t)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	open := trained()
	delete(open.objects, at(log, 3))
	delete(open.objects, at(taskLog, 1))
	if r := open.verify(t); !r.Sound() || !r.Open() {
		t.Errorf("an open one: %+v", r)
	}
	stopped := trained()
	stopped.edit(t, at(log, 3), "SUCCEEDED", "CANCELLED")
	stopped.objects[at(log, 4)] = stopped.objects[at(log, 3)]
	stopped.objects[at(log, 3)] = entry("cli", `"cancelled":{}`)
	if r := stopped.verify(t); !r.Sound() || r.State != job.Cancelled {
		t.Errorf("a cancelled one: %+v", r)
	}
}

func TestABrokenRunGivesThatDoubt(t *testing.T) {
	t.Parallel()
	exit := func(k, rank int) string { return fmt.Sprintf("%s/attempts/%d/exit/%d", jobDir, k, rank) }
	weights := "blobs/" + digestOf("weights")
	var said faulttest.Sayings
	for name, b := range map[string]struct {
		spoil func(s *story)
		want  []string
	}{
		"a hole":                      {func(s *story) { s.drop(t, at(log, 1)) }, []string{"hole job 1"}},
		"an entry of a map":           {func(s *story) { s.job("a", `"paused":{}`) }, []string{"entry job 4"}},
		"a job.json of a map":         {func(s *story) { s.edit(t, jobDir+"/job.json", `"short"`, `"chunk_size":4,"short"`) }, []string{"job job.json"}},
		"an attempt is missing":       {func(s *story) { s.edit(t, at(log, 2), `"k":2`, `"k":3`) }, []string{"attempt job 2", "task task 1"}},
		"closed and not settled":      {func(s *story) { s.drop(t, at(log, 3)) }, []string{"task task 1"}},
		"a rank has not ended":        {func(s *story) { s.drop(t, exit(2, 1)) }, []string{"exit attempt 2 rank 1"}},
		"a rank has failed":           {func(s *story) { s.edit(t, exit(2, 1), `"code":0`, `"code":1`) }, []string{"exit attempt 2 rank 1"}},
		"a rank was halted":           {func(s *story) { s.edit(t, exit(2, 1), "done", "halted") }, []string{"exit attempt 2 rank 1"}},
		"ended by another":            {func(s *story) { s.edit(t, exit(2, 1), `"agent":"b"`, `"agent":"c"`) }, []string{"exit attempt 2 rank 1"}},
		"an exit that cannot be read": {func(s *story) { s.objects[exit(2, 1)] = "?" }, []string{"entry attempt 2 rank 1", "exit attempt 2 rank 1"}},
		"an output is gone":           {func(s *story) { s.drop(t, weights) }, []string{"output attempt 2 rank 0"}},
		"an output is another":        {func(s *story) { s.objects[weights] = "Weights" }, []string{"output attempt 2 rank 0"}},
		"a list is gone":              {func(s *story) { s.drop(t, "blobs/"+trained().tree("model.pt", "weights")) }, []string{"output attempt 2 rank 0"}},
		"a list is another": {func(s *story) {
			list := "blobs/" + trained().tree("model.pt", "weights")
			s.objects[list] = strings.Replace(s.objects[list], "model.pt", "model.pd", 1)
		}, []string{"output attempt 2 rank 0"}},
		"a size is another": {func(s *story) {
			list := `{"files":[{"path":"model.pt","size":9,"mode":420,"sha256":"` + digestOf("weights") + `"}]}`
			s.objects["blobs/"+digestOf(list)] = list
			s.edit(t, exit(2, 0), trained().tree("model.pt", "weights"), digestOf(list))
		}, []string{"output attempt 2 rank 0"}},
		"no digest":           {func(s *story) { s.edit(t, exit(2, 0), trained().tree("model.pt", "weights"), "x") }, []string{"output attempt 2 rank 0"}},
		"cancelled by nobody": {func(s *story) { s.edit(t, at(log, 3), "SUCCEEDED", "CANCELLED") }, []string{"settled job 3", "task task 1"}},
		"succeeded although it was stopped": {func(s *story) {
			s.objects[at(log, 4)] = s.objects[at(log, 3)]
			s.objects[at(log, 3)] = entry("cli", `"cancelled":{}`)
		}, []string{"settled job 4"}},
	} {
		s := trained()
		b.spoil(s)
		r := s.verify(t)
		if diff := cmp.Diff(b.want, brief(r.Findings)); diff != "" {
			t.Errorf("%s: doubts (-want +got):\n%s", name, diff)
		}
		say(&said, name, r.Findings)
	}
	said.Compare(t, "broken-runs")
}

func TestWhatDoesNotCountInARunIsTold(t *testing.T) {
	t.Parallel()
	s := trained()
	s.job("b", `"attempt":{"k":3,"cause":"lost"}`)
	s.job("cli", `"cancelled":{}`)
	s.job("a", `"settled":{"state":"SUCCEEDED","attempt":2,"rank":0,"code":0,"reason":""}`)
	s.job("cli", `"placed":{"placement":2,"agents":2,"target":"local"}`)
	s.job("cli", `"drained":{}`)
	r := s.verify(t)
	if !r.Sound() || r.Told != 5 || r.State != job.Succeeded {
		t.Errorf("%+v", r)
	}
	var said faulttest.Sayings
	say(&said, "a run", r.Ignored)
	s = trained()
	s.edit(t, at(log, 3), `"attempt":2`, `"attempt":1`)
	say(&said, "ended by an attempt that was not the last", s.verify(t).Ignored)
	said.Compare(t, "ignored-run")
}
