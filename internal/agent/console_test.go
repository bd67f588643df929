package agent

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/job"
)

// An engine sees that a job has failed, and why: by one of its agents.
func TestAnEngineIsToldWhyAJobHasFailed(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		program string
		status  int
		want    string
	}{
		{"exit 3", 1, "exit status 3"},
		{"true", 0, ""},
	} {
		p := newPlace(t)
		file := filepath.Join(t.TempDir(), "output", "failure")
		told := func(c *node.Config) { c.Machine.Failure = file }
		j := p.submit(job.Spec{Verb: job.Shell, Program: test.program}, nil)
		p.start(j, told).leave(test.status)
		if text, err := os.ReadFile(file); string(text) != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%s: %q, %v", test.program, text, err)
		}
	}
}
