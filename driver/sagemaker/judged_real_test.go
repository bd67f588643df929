package sagemaker

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/sagemaker/sagemakertest"
	"github.com/drover-run/drover/store/storetest/server"
)

// The vendor's own model of SageMaker is the judge of what drover asks for, and of what the fake answers.
func TestRealTheVendorsModelJudgesRequestsAndTheFake(t *testing.T) {
	packages := server.Install(t, "moto") // botocore is below it
	fake := sagemakertest.New(t)
	fake.Hold()
	judge := exec.Command("python3", "testdata/judge_requests.py", "testdata/request.golden", "testdata/processing.golden", fake.URL(), sagemakertest.Region)
	judge.Env = append(os.Environ(), "PYTHONPATH="+packages+":../../cloud/amazon/testdata", "PYTHONDONTWRITEBYTECODE=1")
	var said strings.Builder
	judge.Stderr = &said
	out, err := judge.Output()
	if err != nil || len(out) > 0 || !strings.Contains(said.String(), "12 judged") {
		t.Errorf("%v\n%s%s", err, out, said.String())
	}
}
