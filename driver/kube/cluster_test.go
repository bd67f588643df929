package kube

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
)

// cluster is a real one on this machine, with one node.
type cluster struct {
	dir, program string
	marks        string // the folder of the claim of that name
}

// realCluster builds Kubernetes, which takes minutes the first time, and starts a cluster that
// ends with the test. Its user has the rights of driver/kube's policy alone.
func realCluster(t *testing.T) cluster {
	t.Helper()
	if os.Getenv("DROVER_TEST_KUBE") == "" {
		t.Skip("needs root, containerd and some minutes: make test-kube")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	c := cluster{dir: t.TempDir(), program: filepath.Join(root, "bin", "kube", "hyperkube")}
	c.marks = filepath.Join(c.dir, "marks")
	run(t, "testdata/cluster/kube.sh", "build", filepath.Dir(c.program))
	t.Cleanup(func() { run(t, "testdata/cluster/kube.sh", "down", c.dir) })
	run(t, "testdata/cluster/kube.sh", "up", c.dir, c.program)
	for _, image := range images {
		run(t, "testdata/cluster/images.sh", image, filepath.Join(c.dir, image+".tar"))
	}
	c.addNode(t, 0, "node-1")
	err = os.Mkdir(c.marks, 0o777)
	if err == nil {
		err = os.Chmod(c.marks, 0o777) // agents run as another user
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/namespace.yaml")
	if err != nil {
		t.Fatal(err)
	}
	objects := filepath.Join(c.dir, "namespace.yaml")
	if err := os.WriteFile(objects, []byte(strings.ReplaceAll(string(text), "MARKS", c.marks)), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "apply", "-f", objects)
	role, err := policy(driver.Config{}, driver.Submitters, driver.Scope{Detail: "train"})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(objects, []byte(strings.ReplaceAll(role, "NAME", "system:serviceaccount:train:ann")), 0o600); err != nil {
		t.Fatal(err)
	}
	c.kubectl(t, "apply", "-f", objects)
	token := strings.TrimSpace(c.kubectl(t, "--namespace", "train", "create", "token", "ann", "--duration=2h"))
	config := filepath.Join(c.dir, "user.kubeconfig")
	user := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"test",
"clusters":[{"name":"test","cluster":{"server":"https://127.0.0.1:16443","certificate-authority":%q}}],"users":[{"name":"ann","user":{"token":%q}}],
"contexts":[{"name":"test","context":{"cluster":"test","user":"ann","namespace":"train"}}]}`, filepath.Join(c.dir, "pki", "ca.crt"), token)
	if err := os.WriteFile(config, []byte(user), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", config)
	return c
}

// images are those that nodes have.
var images = []string{"pause", "busybox"}

// addNode starts a node, of which each has another number.
func (c cluster) addNode(t *testing.T, number int, name string) {
	t.Helper()
	run(t, "testdata/cluster/kube.sh", "node", c.dir, c.program, name, strconv.Itoa(number))
	for _, image := range images {
		run(t, "testdata/cluster/kube.sh", "load", c.dir, name, filepath.Join(c.dir, image+".tar"))
	}
}

// kubectl runs kubectl as the cluster's administrator, and gives its output.
func (c cluster) kubectl(t *testing.T, args ...string) string {
	t.Helper()
	return run(t, c.program, append([]string{"kubectl", "--kubeconfig", filepath.Join(c.dir, "admin.kubeconfig")}, args...)...)
}

// run runs a program to its end, which must be a good one, and gives its standard output.
func run(t *testing.T, program string, args ...string) string {
	t.Helper()
	cmd := exec.Command(program, args...)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", program, strings.Join(args, " "), err, out, errors.String())
	}
	return string(out)
}
