package kube

import (
	"os"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/kube/kubetest"
)

// fakeDriver is a driver over a fake cluster, with the fake's knobs.
type fakeDriver struct {
	driver.Driver
	*kubetest.Server
}

// openFake starts a fake cluster and has drivers find it. The pods run this test program.
func openFake(t *testing.T) func() driver.Driver {
	s := kubetest.New(t)
	s.ShortenGraces(time.Second)
	state, config := t.TempDir(), s.Kubeconfig(t)
	return func() driver.Driver {
		d := New(state)
		d.kubeconfig = config
		return fakeDriver{d, s}
	}
}

func TestKubeIsADriver(t *testing.T) {
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	drivertest.Run(t, drivertest.Place{
		Open: openFake,
		Needs: func(n *driver.Needs) {
			n.Args = []string{"agent-image=" + program}
		},
		Kill: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
			if !d.(fakeDriver).Kill(objectName(h), m.Index) {
				t.Errorf("no pod of agent %d runs", m.Index)
			}
		},
		Take: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) { evict(t, d, h, m) },
		Warn: func(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) { evict(t, d, h, m) },
		LoseAnswer: func(d driver.Driver) {
			lost := false
			d.(fakeDriver).LoseAnswers(func(method, resource string) bool {
				was := lost
				lost = lost || method == "POST" && resource == "jobs"
				return lost && !was
			})
		},
	})
}

func evict(t *testing.T, d driver.Driver, h driver.Handle, m driver.Member) {
	t.Helper()
	if no := d.(fakeDriver).Evict(objectName(h), m.Index); no != nil {
		t.Errorf("evict agent %d: %+v", m.Index, no)
	}
}
