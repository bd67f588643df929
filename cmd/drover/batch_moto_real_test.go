//go:build linux

package main_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest/server"
)

// motoRegion is the region of the account that moto plays.
const motoRegion = "eu-west-1"

// moto is a stand-in for AWS that others have made: its CloudFormation reads the set-up's template, and its Batch
// runs jobs in real containers.
type moto struct {
	url, packages string
}

func newMoto(t *testing.T, dockerHost string) moto {
	t.Helper()
	m := moto{packages: server.Install(t, "moto")}
	address := server.Free()
	_, port, _ := strings.Cut(address, ":")
	m.url = "http://" + address
	log := filepath.Join(t.TempDir(), "log")
	out, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if text, _ := os.ReadFile(log); t.Failed() {
			t.Logf("moto has said\n%s", text)
		}
	})
	cmd := m.python("run_moto.py", port)
	cmd.Env = append(cmd.Env, "MOTO_PORT="+port, "MOTO_DOCKER_NETWORK_MODE=host", "MOTO_IAM_LOAD_MANAGED_POLICIES=true", "DOCKER_HOST="+dockerHost)
	cmd.Stdout, cmd.Stderr = out, out
	server.Start(t, cmd)
	drivertest.Until(t, "moto answers", func() bool {
		r, err := http.Get(m.url + "/moto-api/data.json")
		if err == nil {
			r.Body.Close()
		}
		return err == nil
	})
	return m
}

// python is a program of the tests of AWS Batch, with moto's packages.
func (m moto) python(name string, args ...string) *exec.Cmd {
	cmd := exec.Command("python3", append([]string{filepath.Join("..", "..", "driver", "batch", "testdata", name)}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONPATH="+m.packages, "PYTHONDONTWRITEBYTECODE=1", "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=testtest", "AWS_DEFAULT_REGION="+motoRegion)
	return cmd
}

// left is what drover has left in the account.
func (m moto) left(t *testing.T) string {
	t.Helper()
	out, err := m.python("left_in_account.py", m.url, motoRegion).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// barrier holds up programs that read from its address, until it is opened.
type barrier struct {
	net.Listener
	host, port string
}

func newBarrier(t *testing.T) barrier {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	host, port, _ := net.SplitHostPort(l.Addr().String())
	return barrier{Listener: l, host: host, port: port}
}

// open lets them go on, and those that come later: each reads nothing. Until then the kernel keeps their connections.
func (b barrier) open() {
	go func() {
		for c, err := b.Accept(); err == nil; c, err = b.Accept() {
			c.Close()
		}
	}()
}

// A set-up is made by one command, a map goes through its queue in real containers of which one is killed, and
// another command takes all away. The account is played by moto; nothing is claimed about AWS.
func TestRealASetupOfBatchOnMoto(t *testing.T) {
	onlyReal(t)
	t.Parallel() // it waits for moto
	host := dockerd.Use(t)
	m := newMoto(t, host)
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		// what ECS gives containers and moto does not
		_ = json.NewEncoder(w).Encode(map[string]string{"AccessKeyId": "test", "SecretAccessKey": "testtest", "Token": "", "Expiration": "2099-01-01T00:00:00Z"})
	}))
	defer role.Close()
	const image = "drover.test/batch:1"
	docker := dockerAt(t, host)
	folder := t.TempDir()
	put(t, filepath.Join(folder, "Dockerfile"), fmt.Appendf(nil, "FROM %s\nENV AWS_CONTAINER_CREDENTIALS_FULL_URI=%s/ AWS_EC2_METADATA_DISABLED=true\n", dockerd.Debian, role.URL))
	docker("build", "-q", "-t", image, folder)
	running := func() []string {
		return strings.Fields(docker("ps", "-q", "--filter", "ancestor="+image))
	}

	h := newHome(t)
	for _, service := range []string{"BATCH", "CLOUDFORMATION", "SECRETS_MANAGER", "CLOUDWATCH_LOGS", "ECR", "SERVICE_QUOTAS"} {
		h.environ = append(h.environ, "AWS_ENDPOINT_URL_"+service+"="+m.url)
	}
	h.environ = append(h.environ, "AWS_REGION="+motoRegion, "AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=testtest", "AWS_EC2_METADATA_DISABLED=true",
		"DROVER_STORE=s3://facts/batch?region=us-east-1&endpoint="+s3test.Real(t))
	h.drover(t, 0, "target", "up", "batch", "--yes")
	if _, said := h.drover(t, 0, "target", "up", "batch", "--yes"); !strings.Contains(said, "nothing is missing") {
		t.Errorf("a second command says\n%s", said)
	}

	gate := newBarrier(t)
	c := h.begin(t, "map", "--on", "batch", "--image", image, "--cpus", "0.5", "--workers", "3", "--slots", "1", "--from", "1-60", "--",
		"bash", "-c", `read </dev/tcp/$2/$3; echo "item $1"`, "x", "{}", gate.host, gate.port)
	drivertest.Until(t, "three containers run", func() bool { return len(running()) == 3 })
	c.says(t, "3 running")
	docker("kill", running()[0])
	gate.open()
	c.sound(t)
	if v := h.verified(t); v.State != "SUCCEEDED" || v.Tally.Succeeded != 60 || v.Extra.Retries != 0 {
		t.Errorf("%+v\n%s", v, c.said)
	}
	h.drover(t, 0, "down", "batch", "--yes")
	if left := m.left(t); left != "" || len(running()) > 0 {
		t.Errorf("after down there is left\n%s%q", left, running())
	}
	if v := h.verified(t); v.Tally.Succeeded != 60 {
		t.Errorf("after down the store has %+v", v)
	}
}
