package shed

import (
	"errors"
	"os"
	"path/filepath"
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

func TestShedHasASetup(t *testing.T) {
	drivertest.RunSetup(t, drivertest.SetupPlace{
		Open: func(t *testing.T) driver.Setup { return &Setup{dir: t.TempDir()} },
		CutOff: func(u driver.Setup, n int) {
			u.(*Setup).before = func() error {
				if n == 0 {
					return errors.New("cut off")
				}
				n--
				return nil
			}
		},
		Occupy: func(u driver.Setup, s driver.Scope) {
			path := u.(*Setup).path(s, "floor")
			err := os.MkdirAll(filepath.Dir(path), 0o700)
			if err == nil {
				err = os.WriteFile(path, []byte("of another team"), 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		},
	})
}
