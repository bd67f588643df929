package metadata

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"

	"github.com/drover-run/drover/store/storetest/server"
)

// Amazon's own stand-in of the metadata service, which wants a token as a machine's does, says what a machine is told two minutes before it goes.
func TestRealAmazonsOwnMockAnnouncesTheEnd(t *testing.T) {
	at := server.Free()
	host, port, _ := net.SplitHostPort(at)
	file := filepath.Join(t.TempDir(), "mock.json")
	if err := os.WriteFile(file, []byte(`{"imdsv2": true, "server": {"hostname": "`+host+`", "port": "`+port+`"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	mock := exec.Command(server.Install(t, "ec2-metadata-mock"), "-c", file, "spot", "--action", "terminate", "-d", "2")
	mock.Env = append(os.Environ(), "HOME="+t.TempDir())
	server.Start(t, mock)
	service := imds.New(imds.Options{Endpoint: "http://" + at, Retryer: aws.NopRetryer{}, ClientEnableState: imds.ClientEnabled})
	for {
		id, err := Read(t.Context(), service, "instance-id")
		if err == nil && strings.HasPrefix(string(id), "i-") {
			break
		}
		select {
		case <-time.After(20 * time.Millisecond): // it comes up
		case <-t.Context().Done():
			t.Fatal(err)
		}
	}
	var a Announcement
	Watch(t.Context(), service, 50*time.Millisecond, func(said Announcement) { a = said }, Spot)
	if !strings.HasPrefix(a.Why, "AWS takes the machine away at ") || a.Left < 100*time.Second || a.Left > 2*time.Minute {
		t.Errorf("%+v", a)
	}
}
