package job_test

import (
	"encoding/json"
	"testing"

	"github.com/drover-run/drover/job"
)

func TestSizesReadAndWrite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		bytes job.Bytes
		text  string
		words string
	}{
		"64M": {64 << 20, "64M", "64 MB"}, "1.5G": {3 << 29, "1536M", "1.5 GB"}, "16GiB": {16 << 30, "16G", "16 GB"},
		"16 gb": {16 << 30, "16G", "16 GB"}, "1000": {1000, "1000", "1000 B"}, "2k": {2048, "2K", "2 KB"},
		"0": {0, "0", "0 B"}, "3T": {3 << 40, "3T", "3 TB"}, " 12 ": {12, "12", "12 B"}, "100B": {100, "100", "100 B"},
	} {
		got, err := job.ParseBytes(text)
		if err != nil || got != want.bytes || got.String() != want.text || got.Words() != want.words {
			t.Errorf("%q is %d, %s, %s, %v; want %+v", text, got, got, got.Words(), err, want)
		}
		if again, err := job.ParseBytes(got.String()); again != got || err != nil {
			t.Errorf("%q written as %q reads as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "M", "-1", "1X", "NaN", "Inf", "0x10", "1e400", "9000000T", "64 M M", "1_000", "1p"} {
		if got, err := job.ParseBytes(text); err == nil {
			t.Errorf("%q reads as %d", text, got)
		}
	}
	var b job.Bytes
	for _, row := range []struct {
		text string
		want job.Bytes
	}{{`"64M"`, 64 << 20}, {`1024`, 1024}, {`null`, 1024}} {
		if err := json.Unmarshal([]byte(row.text), &b); err != nil || b != row.want {
			t.Errorf("%s reads as %d, %v", row.text, b, err)
		}
	}
	if err := json.Unmarshal([]byte(`{}`), &b); err == nil {
		t.Error("an object is a size")
	}
}

func TestLimitsQueuesMetricsAndTagsAreChecked(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*job.Spec){
		"negative cores":       func(s *job.Spec) { s.CPUs = -1 },
		"a sliver of a core":   func(s *job.Spec) { s.CPUs = 0.001 },
		"memory without unit":  func(s *job.Spec) { s.Memory = 16 },
		"disk without unit":    func(s *job.Spec) { s.Disk = 16 },
		"negative memory":      func(s *job.Spec) { s.Memory = -1 },
		"negative processes":   func(s *job.Spec) { s.Processes = -1 },
		"a priority too far":   func(s *job.Spec) { s.Priority = 1001 },
		"more than the queue":  func(s *job.Spec) { s.Queue, s.CPUs, s.Share = "a", 2, job.Share{CPUs: 1} },
		"memory of the queue":  func(s *job.Spec) { s.Queue, s.Memory, s.Share = "a", 2<<30, job.Share{Memory: 1 << 30} },
		"GPUs of the queue":    func(s *job.Spec) { s.Queue, s.GPUs, s.Nodes, s.Share = "a", 1, 2, job.Share{GPUs: 1} },
		"a queue's name":       func(s *job.Spec) { s.Queue = "../x" },
		"no group":             func(s *job.Spec) { s.Metrics = []job.Metric{{"loss", "loss"}} },
		"no expression":        func(s *job.Spec) { s.Metrics = []job.Metric{{"loss", "("}} },
		"a preset misspelt":    func(s *job.Spec) { s.Metrics = []job.Metric{{"", "kera"}} },
		"no name":              func(s *job.Spec) { s.Metrics = []job.Metric{{"", "([0-9])"}} },
		"a metric's bad name":  func(s *job.Spec) { s.Metrics = []job.Metric{{"a b", "([0-9])"}} },
		"a tag's bad name":     func(s *job.Spec) { s.Tags = map[string]string{"a=b": "c"} },
		"a tag with a newline": func(s *job.Spec) { s.Tags = map[string]string{"a": "c\n"} },
		"an input that climbs": func(s *job.Spec) { s.Inputs = []job.Input{{Name: "a", Path: "b", Subdir: "../c"}} },
	} {
		s := job.Spec{Project: "p", Task: "t", Program: "x"}
		if change(&s); s.Program == "" {
			t.Fatal("broken test")
		}
		if _, err := s.Normal(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	s := job.Spec{Project: "p", Task: "t", Program: "x", Limits: job.Limits{0.5, 64 << 20, 1 << 30, 10}, Priority: -5,
		Metrics: []job.Metric{{"", "hf"}, {"loss", `loss: ([0-9.]+)`}, {"", `(?P<acc>[0-9.]+)%`}},
		Tags:    map[string]string{"team": "vision", "empty": ""}, Inputs: []job.Input{{Name: "a", Path: "b", Subdir: "train/x", Sharded: true}}}
	n, err := s.Normal()
	if err != nil || n.Queue != job.DefaultQueue {
		t.Errorf("%+v, %v", n, err)
	}
}
