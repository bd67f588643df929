package docker

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// refusedWith fails the test unless err has this kind, these words and this hint.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || !strings.Contains(err.Error(), text) || fault.Hint(err) != hint {
		t.Errorf("got %v, %s, %q; want %s, %s, %q", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

func TestADaemonThatCannotBeReachedSaysWhatToDo(t *testing.T) {
	offer := func(d *Driver) error {
		_, err := d.Offer(t.Context(), driver.Needs{Agents: 1})
		return err
	}
	dir := t.TempDir()
	t.Setenv("DOCKER_HOST", "tcp://10.0.0.1:2376")
	refusedWith(t, offer(New(dir, "")), fault.Invalid, "reach docker: tcp://10.0.0.1:2376 is not on this machine, whose folders the agents share",
		"Unset DOCKER_HOST, or set it to unix:///var/run/docker.sock.")

	t.Setenv("DOCKER_HOST", "unix://"+dir+"/none.sock")
	refusedWith(t, offer(New(dir, "")), fault.Invalid, "none.sock",
		"Start it with sudo systemctl start docker, or say where it listens with DOCKER_HOST=unix:///PATH.")

	t.Setenv("DOCKER_CERT_PATH", filepath.Join(dir, "certificates"))
	refusedWith(t, offer(New(dir, "")), fault.Invalid, "reach docker: ", "Look at DOCKER_HOST, DOCKER_API_VERSION and DOCKER_CERT_PATH.")

	// As a plain user the connection is refused by the socket's rights; root has no such limit.
	d := New(dir, "")
	d.daemon.once.Do(func() {
		d.daemon.api, d.daemon.err = client.New(client.WithDialContext(func(context.Context, string, string) (net.Conn, error) {
			return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", unix.EACCES)}
		}))
	})
	refusedWith(t, offer(d), fault.Denied, "permission denied", "Join the group docker, with sudo usermod -aG docker $USER, and log in again.")
}

func TestADaemonThatIsSilentIsNamed(t *testing.T) {
	d := New(t.TempDir(), "")
	d.daemon.patience = time.Millisecond
	d.daemon.once.Do(func() {
		d.daemon.api, d.daemon.err = client.New(client.WithDialContext(func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}))
	})
	_, err := d.daemon.readInfo(t.Context())
	refusedWith(t, err, fault.Lost, "reach docker: it has not answered for 1ms", "See whether it answers: docker info. If not: sudo systemctl restart docker.")
}

func TestWhatTheDaemonRefusesHasANextStep(t *testing.T) {
	for _, c := range []struct {
		answers    map[string]string
		kind       fault.Kind
		text, hint string
	}{
		{map[string]string{"POST /containers/create": `500 {"message":"mkdir: no space left on device"}`},
			fault.Full, "start agents: ", "Free space with docker system prune."},
		{map[string]string{"POST /containers/drover-abcd2345-1-0/start": `500 {"message":"could not select device driver"}`},
			fault.Invalid, "start agents: ", "Install nvidia-container-toolkit and restart docker, or leave --gpus out."},
		{map[string]string{"POST /containers/drover-abcd2345-1-0/start": `500 {"message":"error mounting /a to rootfs: not a directory"}`},
			fault.Invalid, "start agents: ", "Look at the --mount of it: a file goes on a file, a folder on a folder."},
		{map[string]string{"POST /containers/create": `500 {"message":"internal"}`},
			fault.Lost, "start agents: ", "See what it says: docker info."},
		{map[string]string{"POST /containers/create": `409 {"message":"Conflict"}`, "GET /containers/drover-": `200 {"Id":"c9","State":{"Status":"running"},"Config":{"Labels":{}}}`},
			fault.Denied, "start agents: there is a container drover-abcd2345-1-0 that drover did not make", "Look at it: docker inspect drover-abcd2345-1-0."},
	} {
		fake(t, c.answers)
		dir := t.TempDir()
		_, err := New(filepath.Join(dir, "placements"), "").Start(t.Context(), wanted(t, dir))
		refusedWith(t, err, c.kind, c.text, c.hint)
	}
}

func TestAnImageThatIsNotPulledSaysWhy(t *testing.T) {
	for answer, want := range map[string]struct {
		kind fault.Kind
		hint string
	}{
		"write /var/lib/docker: no space left on device": {fault.Full, "Free space with docker system prune."},
		"toomanyrequests: slow down":                     {fault.Full, "Log in with docker login, which allows more, or wait."},
		"unauthorized: authentication required":          {fault.Denied, "Log in with docker login, or name another one with --image."},
		"manifest unknown":                               {fault.Invalid, "Name another one with --image, or build it first."},
		"lookup r: no such host":                         {fault.Full, "Try again, or pull it by hand: docker pull r/x:1."},
	} {
		refusedWith(t, notPulled("r/x:1", errors.New(answer)), want.kind, "pull image r/x:1: "+answer, want.hint)
	}
}

func TestAnImageThatCannotBeNamedIsRefused(t *testing.T) {
	_, err := New(t.TempDir(), "").chooseImage(driver.Place{Python: "2.7"})
	refusedWith(t, err, fault.Invalid, "choose image: there is none for Python 2.7", "Name an image that has it: --image IMAGE.")

	_, err = credentials("UPPER/:")
	refusedWith(t, err, fault.Invalid, `read image "UPPER/:": invalid reference format`, "Use a reference such as python:3.12-slim.")

	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths": PASSWORD`), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = credentials("python:3.12")
	refusedWith(t, err, fault.Invalid, "read "+filepath.Join(dir, "config.json")+": this is not JSON", "Mend it, or write it anew with docker login.")
	if strings.Contains(err.Error(), "PASSWORD") {
		t.Errorf("%v quotes the file", err)
	}
}

func TestWhatCannotBeShownInAContainerIsRefused(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "run", "docker.sock")
	if err := os.Mkdir(filepath.Dir(socket), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(socket, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	engines := sockets("")
	for _, c := range []struct {
		source, target string
		kind           fault.Kind
		text, hint     string
	}{
		{dir, "/", fault.Invalid, "show " + dir + " in the container: / cannot hold it", "Name a folder below /: --mount /data:/data."},
		{"data", "/data", fault.Invalid, "show data in the container: /data cannot hold it", "Name a folder below /: --mount /data:/data."},
		{dir, "/opt/ml", fault.Invalid, ": /opt/ml in a container is used by drover itself", "Choose another folder, such as /data."},
		{dir, "/state/x", fault.Invalid, ": /state in a container is used by drover itself", "Choose another folder, such as /data."},
		{dir, "/data", fault.Denied, ": it leads to " + socket + ", with which a program is root on this machine", "Name a folder without it."},
		{socket, "/s", fault.Denied, ": it leads to " + socket + ", with which a program is root on this machine", "Name a folder without it."},
	} {
		refusedWith(t, showable(c.source, c.target, engines), c.kind, c.text, c.hint)
	}
}

func TestAProcessOutsideOfAContainerIsNoAgent(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(inherited, dir)
	_, err := Adopt(driver.AgentProcess{})
	refusedWith(t, err, fault.Invalid, `adopt agent: DROVER_DOCKER_AGENT="`+dir+`" is not this process`, "Unset DROVER_DOCKER_AGENT.")

	for path, text := range map[string]string{ordersFile(dir): "{}", secretsFile(dir): "{"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv(inherited, dir)
	_, err = Adopt(driver.AgentProcess{})
	if fault.KindOf(err) != fault.Bug || !strings.HasPrefix(err.Error(), "adopt agent: read its secrets: read record of agents: ") {
		t.Errorf("secrets that are damaged give %v", err)
	}

	if err := os.Remove(secretsFile(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(notesFile(dir), 0o700); err != nil { // in which no note can be written
		t.Fatal(err)
	}
	t.Setenv(inherited, dir)
	_, err = Adopt(driver.AgentProcess{})
	refusedWith(t, err, fault.Full, "adopt agent: "+dir+": ", "")
}
