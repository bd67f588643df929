package sagemaker

import (
	"context"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
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

// moto, a stand-in for AWS that others have made, takes the requests too. What it does otherwise than AWS: a name may be used twice, jobs are
// completed at once and run nothing, and training jobs are never stopped.
func TestRealMotoTakesTheRequests(t *testing.T) {
	packages := server.Install(t, "moto")
	at := server.Free()
	host, port, _ := net.SplitHostPort(at)
	moto := exec.Command("python3", "-m", "moto.server", "-H", host, "-p", port)
	moto.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1")
	server.Start(t, moto)
	drivertest.Until(t, "moto listens", func() bool {
		c, err := net.Dial("tcp", at)
		return err == nil && c.Close() == nil
	})
	a := newAccount(t)
	d := a.driver(t)
	d.engine.clients = amazon.NewClients(func(ctx context.Context, region string) (*client, string, error) {
		account, err := amazon.Open(ctx, amazon.Options{Region: region})
		if err != nil {
			return nil, "", err
		}
		account.Config.BaseEndpoint = aws.String("http://" + at)
		c := newClient(account, time.Minute, 0)
		return c, c.region, nil
	})
	for _, detail := range []string{"eu-west-1/123456789012", "processing/eu-west-1/123456789012"} {
		r := a.request(t, 5, 1)
		r.Needs.Detail = detail
		h, err := d.Start(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		all, err := d.Status(t.Context(), h)
		if err != nil || len(all) != 5 || slices.ContainsFunc(all, func(m driver.Member) bool { return m.State != driver.Ended || m.Reason == "" }) {
			t.Errorf("%+v, %v", all, err)
		}
		if handles, err := d.List(t.Context()); err != nil || !slices.Contains(handles, h) {
			t.Errorf("%v, %v", handles, err)
		}
		if err := d.Stop(t.Context(), h, 0, true); err != nil {
			t.Error(err)
		}
	}
}
