package shed

import (
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/drivertest"
)

func TestMain(m *testing.M) { drivertest.Main(m, Adopt) }

func TestShedIsADriver(t *testing.T) {
	drivertest.Run(t, drivertest.Place{Open: func(t *testing.T) func() driver.Driver {
		dir := t.TempDir()
		return func() driver.Driver { return New(dir) }
	}})
}
