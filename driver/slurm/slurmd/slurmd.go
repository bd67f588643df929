// Package slurmd gives tests a Slurm cluster of their own: four nodes on this
// machine, brought up by driver/slurm/testdata/slurm.sh. It ends with the test
// program.
//
// Nothing but tests imports it.
package slurmd

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// Nodes are the names of the cluster's nodes.
var Nodes = []string{"n1", "n2", "n3", "n4"}

var (
	once sync.Once
	conf string
	why  string
)

// Use is for a test with a name that begins with TestReal: it skips it unless real parts
// were asked for, starts the cluster of this test program, and points SLURM_CONF of
// this process at it.
func Use(t testing.TB) (slurmConf string) {
	t.Helper()
	if os.Getenv("DROVER_TEST_REAL") == "" {
		t.Skip("needs slurm-wlm and munge: make test-real")
	}
	once.Do(func() {
		conf, why = start(fmt.Sprintf("/tmp/drover-slurm-%d", os.Getpid()))
		os.Setenv("SLURM_CONF", conf)
	})
	if why != "" {
		t.Fatalf("start a Slurm cluster: %s", why)
	}
	return conf
}

// Start brings up another cluster, in dir, with more variables for the script: see
// there. It ends with the test program.
func Start(t testing.TB, dir string, env ...string) (slurmConf string) {
	t.Helper()
	conf, why := start(dir, env...)
	if why != "" {
		t.Fatalf("start a Slurm cluster: %s", why)
	}
	return conf
}

func start(dir string, env ...string) (conf, why string) {
	_, self, _, _ := runtime.Caller(0)
	script := filepath.Join(filepath.Dir(filepath.Dir(self)), "testdata", "slurm.sh")
	c := exec.Command("bash", script, dir, fmt.Sprint(os.Getpid()))
	c.Env = append(os.Environ(), env...)
	var errs strings.Builder
	c.Stderr = &errs
	out, err := c.Output()
	if err != nil {
		return "", err.Error() + ": " + errs.String()
	}
	return strings.TrimSpace(string(out)), ""
}
