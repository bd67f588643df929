package quota

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/fault"
)

// The names are those of AWS's documentation, on 2026-11-29.
var names = []string{
	"All Standard (A, C, D, H, I, M, R, T, Z) Spot Instance Requests", "All G and VT Spot Instance Requests", "All P4, P3 and P2 Spot Instance Requests", "All P5 Spot Instance Requests", "All Inf Spot Instance Requests", "All X Spot Instance Requests",
	"Running On-Demand Standard (A, C, D, H, I, M, R, T, Z) instances", "Running On-Demand G and VT instances", "Running On-Demand P instances", "Running On-Demand High Memory instances", "Running Dedicated g5 Hosts", "EC2-VPC Elastic IPs",
}

func TestAMachinesQuotaIsFoundByItsName(t *testing.T) {
	t.Parallel()
	var all []Quota
	for i, name := range names {
		all = append(all, Quota{"ec2", "L-1", name, float64(i)})
	}
	for _, test := range []struct {
		kind string
		spot bool
		want string
	}{
		{"default_x86_64", true, names[0]}, {"optimal", false, names[6]}, {"c7i.4xlarge", true, names[0]}, {"t3", false, names[6]},
		{"g5.xlarge", true, names[1]}, {"vt1.3xlarge", false, names[7]}, {"g5", false, names[7]},
		{"p4d.24xlarge", true, names[2]}, {"p5en.48xlarge", true, names[3]}, {"p5.48xlarge", false, names[8]}, {"inf2.xlarge", true, names[4]}, {"x2idn.16xlarge", true, names[5]},
		{"trn1.2xlarge", true, ""}, {"inf2.xlarge", false, ""}, {"", true, ""},
	} {
		q, ok := OfMachines(all, test.kind, test.spot)
		if q.Name != test.want || ok != (test.want != "") {
			t.Errorf("%q, spot %v: %q, want %q", test.kind, test.spot, q.Name, test.want)
		}
	}
}

func TestFargateHasItsOwnQuotas(t *testing.T) {
	t.Parallel()
	all := []Quota{{"fargate", "L-2", "Fargate Spot vCPU resource count", 6}, {"fargate", "L-3", "Fargate On-Demand vCPU resource count", 6}}
	for spot, want := range map[bool]string{true: "L-2", false: "L-3"} {
		if q, ok := OfFargate(all, spot); !ok || q.Code != want {
			t.Errorf("spot %v: %+v", spot, q)
		}
	}
	if _, ok := OfFargate(nil, true); ok {
		t.Error("there is one")
	}
}

func TestAnIncreaseIsACommand(t *testing.T) {
	t.Parallel()
	if got := (Quota{"ec2", "L-34B43A08", names[0], 5}).Increase("eu-west-1", 640); got != "aws service-quotas request-service-quota-increase --region eu-west-1 --service-code ec2 --quota-code L-34B43A08 --desired-value 640" {
		t.Error(got)
	}
}

func TestQuotasThatMayNotBeListedAreSaid(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Amzn-ErrorType", "AccessDeniedException")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"message":"no"}`)
	}))
	defer s.Close()
	for name, value := range map[string]string{"AWS_ENDPOINT_URL_SERVICE_QUOTAS": s.URL, "AWS_REGION": "eu-west-1", "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest"} {
		t.Setenv(name, value)
	}
	account, err := amazon.Open(t.Context(), amazon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = List(t.Context(), amazon.Sender{Account: account, Wait: time.Second}, "fargate")
	if fault.KindOf(err) != fault.Denied || !strings.HasPrefix(err.Error(), "list quotas: the server says 400 AccessDeniedException") {
		t.Errorf("%v", err)
	}
}
