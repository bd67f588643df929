package docker

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/api/types/system"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

func TestStatesOfDockerAreOurs(t *testing.T) {
	in := func(s container.ContainerState, code int) *container.InspectResponse {
		return &container.InspectResponse{State: &container.State{Status: s, ExitCode: code}}
	}
	oom := in(container.StateExited, 137)
	oom.State.OOMKilled = true
	up, bye := note{Up: true}, note{Up: true, End: &end{Code: 3, Reason: "why"}}
	for name, c := range map[string]struct {
		c               *container.InspectResponse
		n               note
		asked, starting bool
		state           driver.State
		code            int
		reason          string
	}{
		"made, and being started":      {in(container.StateCreated, 0), note{}, false, true, driver.Waiting, -1, ""},
		"made by a starter that died":  {in(container.StateCreated, 0), note{}, false, false, driver.Lost, -1, "never started"},
		"not made yet":                 {nil, note{}, false, true, driver.Waiting, -1, ""},
		"stopped before it started":    {in(container.StateCreated, 0), note{}, true, false, driver.Ended, -1, "stopped"},
		"runs":                         {in(container.StateRunning, 0), up, true, false, driver.Running, -1, ""},
		"paused by hand":               {in(container.StatePaused, 0), up, false, false, driver.Running, -1, "paused"},
		"said how it ended":            {in(container.StateExited, 3), bye, false, false, driver.Ended, 3, "why"},
		"said so, and was removed":     {nil, bye, false, false, driver.Ended, 3, "why"},
		"ended without a word":         {in(container.StateExited, 7), up, false, false, driver.Ended, 7, ""},
		"never came so far":            {in(container.StateExited, 127), note{}, false, false, driver.Ended, 127, "its container ended before the agent had started: docker logs shows why"},
		"killed":                       {in(container.StateExited, 137), up, false, false, driver.Lost, -1, "killed"},
		"killed, as was asked":         {in(container.StateExited, 137), up, true, false, driver.Ended, -1, "stopped"},
		"gone with the machine":        {in(container.StateExited, 255), up, false, false, driver.Lost, -1, "255"},
		"out of memory":                {oom, up, false, false, driver.Ended, 137, "the container needed more memory than its limit"},
		"dead":                         {in(container.StateDead, 0), up, false, false, driver.Lost, -1, "dead"},
		"removed behind our back":      {nil, up, false, false, driver.Lost, -1, "its container was removed"},
		"stopped, and then so removed": {nil, up, true, false, driver.Ended, -1, "stopped"},
	} {
		m := judge(c.c, c.n, c.asked, c.starting)
		if m.State != c.state || m.Code != c.code || !strings.Contains(m.Reason, c.reason) || c.reason == "" && m.Reason != "" {
			t.Errorf("%s: %+v; want %s, %d, %q", name, m, c.state, c.code, c.reason)
		}
	}
}

func TestTheTargetsOwnChoiceHasThePythonThatWasAskedFor(t *testing.T) {
	for python, want := range map[string]string{"3.12": "python:3.12-slim", "3.9.7": "python:3.9-slim", "": "python:3.13-slim"} {
		if got, err := New("/x", "").chooseImage(driver.Place{Python: python}); err != nil || got != want {
			t.Errorf("for %q: %q, %v; want %q", python, got, err, want)
		}
	}
	for _, python := range []string{"2.7", "3", "pypy3.10", "3.x", "3.-1"} {
		if got, err := New("/x", "").chooseImage(driver.Place{Python: python}); fault.KindOf(err) != fault.Invalid {
			t.Errorf("for %q: %q, %v; want a fault of kind invalid", python, got, err)
		}
	}
	if got, err := New("/x", "").chooseImage(driver.Place{Image: "a:1", Python: "2.7"}); got != "a:1" || err != nil {
		t.Errorf("an image that was named is not taken: %q, %v", got, err)
	}
}

func TestCredentialsAreThoseOfTheImagesRegistry(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	pair := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	config := `{"auths":{"https://index.docker.io/v1/":{"auth":"` + pair("hub:one") + `"},"r.example.com:5000":{"auth":"` + pair("own:two:three") + `"},"kept.example.com":{}}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string][2]string{
		"python:3.12-slim":        {"hub", "one"},
		"r.example.com:5000/x/y":  {"own", "two:three"},
		"r.example.com/x/y":       {},
		"kept.example.com/x:1":    {},
		"index.docker.io.evil/x":  {},
		"docker.io/library/x:tag": {"hub", "one"},
	} {
		header, err := credentials(image)
		if err != nil {
			t.Errorf("%s: %v", image, err)
		}
		var got struct{ Username, Password string }
		if header != "" {
			text, err := base64.URLEncoding.DecodeString(header)
			if err != nil || json.Unmarshal(text, &got) != nil {
				t.Fatalf("%s: %q is not a header", image, header)
			}
		}
		if got.Username != want[0] || got.Password != want[1] {
			t.Errorf("%s: %+v, want %v", image, got, want)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(`{"auths": "sesame`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := credentials("x"); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a broken file gives %v, want an error that quotes nothing", err)
	}
}

func TestTheDaemonsSocketIsShownUnderNoName(t *testing.T) {
	dir := t.TempDir()
	run, data := filepath.Join(dir, "run"), filepath.Join(dir, "data")
	for _, d := range []string{run, data} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	socket := filepath.Join(run, "d.sock")
	if err := os.WriteFile(socket, nil, 0o600); err != nil { // the kind of file is not checked
		t.Fatal(err)
	}
	t.Setenv("DOCKER_HOST", "unix://"+socket)
	link, hard, up := filepath.Join(data, "link"), filepath.Join(data, "hard"), filepath.Join(data, "up")
	for _, err := range []error{os.Symlink(socket, link), os.Link(socket, hard), os.Symlink(run, up)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	refuse := func(source, target string) fault.Kind {
		return fault.KindOf(visible(driver.Place{Mounts: []job.Mount{{Source: source, Target: target}}}, ""))
	}
	for _, source := range []string{socket, link, hard, run, up, dir, "/", filepath.Join(data, "..", "run")} {
		if k := refuse(source, "/x"); k != fault.Denied {
			t.Errorf("%s: %s, want it denied", source, k)
		}
		if err := visible(driver.Place{Seen: []string{source}}, ""); err == nil {
			t.Errorf("%s is seen", source)
		}
	}
	if err := visible(driver.Place{Mounts: []job.Mount{{Source: data, Target: "/data"}, {Source: data, Target: "/opt"}}, Seen: []string{data}}, ""); err != nil {
		t.Errorf("a folder beside it: %v", err)
	}
	own := filepath.Join(data, "containerd.sock")
	if err := os.WriteFile(own, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	told := beneath(system.Info{Containerd: &system.ContainerdInfo{Address: own}})
	if err := visible(driver.Place{Mounts: []job.Mount{{Source: data, Target: "/data"}}}, told); fault.KindOf(err) != fault.Denied {
		t.Errorf("the folder of the containerd below docker: %v, want it denied", err)
	}
	for _, target := range []string{"/", "/opt/ml", "/opt/ml/model", "/state", "/.drover/bin", "/tmp", "x"} {
		if k := refuse(data, target); k != fault.Invalid {
			t.Errorf("at %s: %s, want it invalid", target, k)
		}
	}
	if k := refuse(filepath.Join(dir, "none"), "/x"); k != fault.Invalid {
		t.Errorf("what is not there: %s, want it invalid", k)
	}
}

// Docker would make them as root, or not at all.
func TestMountPointsAreMadeByWhoeverStarts(t *testing.T) {
	dir := t.TempDir()
	data, inner, file := filepath.Join(dir, "data"), filepath.Join(dir, "inner"), filepath.Join(dir, "file")
	for _, err := range []error{os.Mkdir(data, 0o755), os.Mkdir(inner, 0o755), os.WriteFile(file, []byte("x"), 0o444)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	shows := []mount.Mount{{Source: data, Target: "/data", ReadOnly: true}, {Source: inner, Target: "/data/a/b"},
		{Source: file, Target: "/data/a/b/f/g"}, {Source: file, Target: "/data/h"}, {Source: inner, Target: "/database/x"}}
	for range 2 {
		if err := mountPoints(shows); err != nil {
			t.Fatal(err)
		}
	}
	for path, isDir := range map[string]bool{"data/a/b": true, "inner/f/g": false, "data/h": false} {
		if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.IsDir() != isDir {
			t.Errorf("%s: %v, %v", path, info, err)
		}
	}
	if folder.Exists(filepath.Join(data, "base")) || folder.Exists(filepath.Join(data, "a/b/f")) {
		t.Error("one is in the wrong place")
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "x" {
		t.Errorf("the file that is shown is %q, %v now", text, err)
	}
}

func TestAdoptIsNothingInAProcessThatIsNoAgent(t *testing.T) {
	if a, err := Adopt(driver.AgentProcess{}); a != nil || err != nil {
		t.Fatal(a, err)
	}
	t.Setenv(inherited, t.TempDir())
	if _, err := Adopt(driver.AgentProcess{}); fault.KindOf(err) != fault.Invalid {
		t.Errorf("with a variable that came down by mistake Adopt gives %v, want a fault of kind invalid", err)
	}
}

func TestSecretsGoWhileTheyAreRead(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"orders": `{"cores":2,"memory":5,"claims":"/c"}`, "secrets": `{"TOKEN":"sesame"}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	in, err := readAllocation(dir)
	if err != nil || in.Secrets["TOKEN"] != "sesame" || in.Shared == nil || in.Shared.Cores != 2 || in.Shared.Folder != "/c" || in.Root != filepath.Join(dir, "root") {
		t.Errorf("the allocation is %+v, %v", in, err)
	}
	if folder.Exists(secretsFile(dir)) {
		t.Error("the file is still there")
	}
	if err := os.WriteFile(secretsFile(dir), []byte(`{"TOKEN":"sesame`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readAllocation(dir); err == nil || strings.Contains(err.Error(), "sesame") {
		t.Errorf("a broken file gives %v, want an error that quotes nothing", err)
	}
}

// A second Start replaces what agents open the store with, and they are told where
// it lies; a folder that is gone needs none.
func TestAPassIsReplacedByALaterStart(t *testing.T) {
	base := t.TempDir()
	dir := agentDir(base, 0)
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(ordersFile(dir), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if in, err := readAllocation(dir); err != nil || in.Credential != "" {
		t.Errorf("without a pass: %+v, %v", in, err)
	}
	d := New(t.TempDir(), "")
	for _, text := range []string{"one", "two"} {
		r := driver.Request{Agents: 2, Run: driver.Boot{Pass: func(context.Context) ([]byte, error) { return []byte(text), nil }}}
		if err := d.renewCredential(t.Context(), r, base); err != nil {
			t.Fatal(err)
		}
		in, err := readAllocation(dir)
		if err != nil {
			t.Fatal(err)
		}
		held, err := os.ReadFile(in.Credential)
		info, _ := os.Stat(in.Credential)
		if err != nil || string(held) != text || info.Mode().Perm() != 0o600 {
			t.Errorf("the file is %q, %v, %v", held, info.Mode(), err)
		}
	}
	none := driver.Request{Agents: 1, Run: driver.Boot{Pass: func(context.Context) ([]byte, error) { return nil, nil }}}
	if err := d.renewCredential(t.Context(), none, base); err != nil {
		t.Error(err)
	}
}

// What to do about a registry's answer depends on the answer.
func TestARegistrysRefusalNamesTheNextStep(t *testing.T) {
	for says, want := range map[string]string{
		`Get "https://r.test/v2/": dial tcp: lookup r.test: no such host`: "Is the network up? Or name one that docker has: --image IMAGE.",
		"no basic auth credentials":                                       "Check the name, or log in: docker login r.test.",
		"manifest unknown: not found here":                                "Name one that docker can get: --image IMAGE.",
	} {
		if got := remedy("r.test/x:1", says); got != want {
			t.Errorf("for %q it says %q, want %q", says, got, want)
		}
	}
	if got, want := remedy("ann/x:1", "pull access denied for ann/x"), "Check the name, or log in: docker login."; got != want {
		t.Errorf("for Docker Hub it says %q, want %q", got, want)
	}
}
