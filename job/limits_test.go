package job_test

import (
	"testing"

	"github.com/drover-run/drover/job"
)

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
