package metadata

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
)

// The metadata service is a stand-in: it asks for a token, and says 404 until something is announced, as
// AWS documents.
func TestAMachineThatIsTakenAwayIsAnnounced(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPut && r.URL.Path == "/latest/api/token":
			w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
			fmt.Fprint(w, "token")
		case r.Header.Get("X-Aws-Ec2-Metadata-Token") != "token":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/latest/meta-data/autoscaling/target-lifecycle-state":
			fmt.Fprint(w, "InService")
		case r.URL.Path != "/latest/meta-data/spot/instance-action" || asked.Add(1) < 4:
			w.WriteHeader(http.StatusNotFound)
		default:
			fmt.Fprintf(w, `{"action": "terminate", "time": %q}`, time.Now().Add(2*time.Minute).UTC().Format(time.RFC3339))
		}
	}))
	t.Cleanup(s.Close)
	var n Announcement
	Watch(t.Context(), imds.New(imds.Options{Endpoint: s.URL, Retryer: aws.NopRetryer{}, ClientEnableState: imds.ClientEnabled}), time.Millisecond, func(a Announcement) { n = a }, Group, Spot)
	if n.Left < time.Minute || n.Left > 2*time.Minute || !strings.HasPrefix(n.Why, "AWS takes the machine away at ") || !strings.HasSuffix(n.Why, " UTC: spot capacity") {
		t.Errorf("%+v", n)
	}
	if asked.Load() != 4 {
		t.Errorf("%d requests", asked.Load())
	}
}

// Where there is no such service it is asked a few times and no more.
func TestAMachineWithoutMetadataIsLeftAlone(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusForbidden)
	}))
	t.Cleanup(s.Close)
	Watch(t.Context(), imds.New(imds.Options{Endpoint: s.URL, Retryer: aws.NopRetryer{}, ClientEnableState: imds.ClientEnabled}), time.Millisecond, func(a Announcement) { t.Errorf("%+v", a) }, Spot)
	if n := asked.Load(); n > 2*mostSilent+1 { // a token, and the question
		t.Errorf("%d requests", n)
	}
}

func TestAGroupThatEndsTheMachineSaysSo(t *testing.T) {
	for text, want := range map[string]bool{"InService": false, "Terminated\n": true, "": false} {
		if a, told := readGroup([]byte(text)); told != want || a.Why != "its Auto Scaling group ends the machine" {
			t.Errorf("%q: %v", text, told)
		}
	}
}
