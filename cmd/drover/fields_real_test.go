//go:build linux

package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/store/storetest/server"
)

// What simple-sagemaker and the SDK ask SageMaker for is what was recorded.
func TestRealTheToolAsksForWhatWasRecorded(t *testing.T) {
	t.Parallel() // it waits, for packages
	packages := server.Install(t, "sagemaker")
	file := filepath.Join(t.TempDir(), "requests.json")
	record := exec.CommandContext(t.Context(), "python3", "testdata/tool/record.py", "testdata/tool/lines.json", file)
	record.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1")
	out, err := record.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(file); err != nil || !bytes.Equal(text, recorded) {
		t.Errorf("%v\n%s", err, text)
	}
}
