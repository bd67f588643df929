package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
	"github.com/drover-run/drover/driver/folder"
	"github.com/drover-run/drover/fault"
)

// place is an empty place, cleared at the end.
func place(t *testing.T) *Driver {
	t.Helper()
	dockerd.Use(t)
	d := New(filepath.Join(t.TempDir(), "docker"), "")
	d.image = dockerd.Static
	t.Cleanup(func() { clear1(t, d) })
	return d
}

func clear1(t *testing.T, d *Driver) {
	t.Helper()
	if err := d.Stop(context.Background(), handle1, 0, true); err != nil {
		t.Error(err)
	}
	drivertest.Until(t, "the placement is removed", func() bool { return len(status(t, d)) == 0 })
	if left, err := d.daemon.containersOfOurs(context.Background()); err != nil || len(left) != 0 {
		t.Errorf("containers %v are left, %v", left, err)
	}
}

var handle1 = driver.Handle{Target: Name, Job: "abcd2345", Placement: 1}

// request1 is for one agent of handle1. Names are the daemon's: these tests take turns.
func request1(t *testing.T, s drivertest.Script) driver.Request {
	t.Helper()
	if s.Marks == "" {
		s.Marks = t.TempDir()
	}
	return driver.Request{Job: handle1.Job, Placement: 1, Agents: 1, Needs: driver.Needs{Agents: 1}, Run: scripted(t, s)}
}

func status(t *testing.T, d *Driver) []driver.Member {
	t.Helper()
	members, err := d.Status(context.Background(), handle1)
	if err != nil {
		t.Fatal(err)
	}
	return members
}

func until(t *testing.T, d *Driver, s driver.State) (m driver.Member) {
	t.Helper()
	drivertest.Until(t, "the agent is "+string(s), func() bool {
		members := status(t, d)
		if len(members) > 0 {
			m = members[0]
		}
		return m.State == s
	})
	return m
}

func TestRealAStarterThatDiesBeforeItBeginsIsFollowedByAnother(t *testing.T) {
	d := place(t)
	r := request1(t, drivertest.Script{Stay: true})
	dir, _ := d.placementFolder(handle1)
	p, err := d.prepareStart(t.Context(), r, handle1, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.publishFolder(dir, p.facts); err != nil {
		t.Fatal(err)
	}
	lock, err := folder.Hold(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m := status(t, d)[0]; m.State != driver.Waiting {
		t.Errorf("while the starter lives the member is %+v, want it waiting", m)
	}
	if p.info, err = d.daemon.readInfo(t.Context()); err != nil {
		t.Fatal(err)
	}
	if p.cache = d.cacheFolder("sha256:0"); os.MkdirAll(p.cache, 0o700) != nil {
		t.Fatal("no cache")
	}
	if err := d.fillAgentFolder(p, 0); err != nil {
		t.Fatal(err)
	}
	if err := d.daemon.createContainer(t.Context(), d.container(p.made, handle1, dir, 0, p.shows[0])); err != nil {
		t.Fatal(err)
	}
	lock.Close() // its death
	if m := status(t, d)[0]; m.State != driver.Lost || m.Reason != "never started" {
		t.Errorf("after it the member is %+v, want it lost", m)
	}
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	until(t, d, driver.Running)
}

func TestRealAStarterThatDiesAfterItBeganIsNotFollowed(t *testing.T) {
	d := place(t)
	r := request1(t, drivertest.Script{Stay: true})
	if err := d.publishFolder(folderOf(d), request{Agents: 1, Image: d.image}); err != nil {
		t.Fatal(err)
	}
	if err := folder.Touch(begunFile(folderOf(d))); err != nil {
		t.Fatal(err)
	}
	if h, err := d.Start(t.Context(), r); err != nil || h != handle1 {
		t.Fatal(h, err)
	}
	if m := status(t, d)[0]; m.State != driver.Lost || m.Reason != "never started" {
		t.Errorf("the member is %+v, want it lost", m)
	}
}

func folderOf(d *Driver) string { dir, _ := d.placementFolder(handle1); return dir }

func TestRealAnAgentThatWasAskedBeforeItCameUpHearsOfIt(t *testing.T) {
	for name, c := range map[string]struct {
		script drivertest.Script
		grace  time.Duration
		code   int
	}{
		"and ends by itself":        {drivertest.Script{Stay: true, Code: 5}, time.Hour, 5},
		"and is killed after grace": {drivertest.Script{Stay: true, Deaf: true}, 50 * time.Millisecond, -1},
		"and is killed without":     {drivertest.Script{Stay: true, Deaf: true}, 0, -1},
	} {
		t.Run(name, func(t *testing.T) {
			d := place(t)
			r := request1(t, c.script)
			p, err := d.prepareStart(t.Context(), r, handle1, folderOf(d))
			if err != nil {
				t.Fatal(err)
			}
			if err := d.publishFolder(p.folder, p.facts); err != nil {
				t.Fatal(err)
			}
			lock, err := folder.Hold(p.folder)
			if err != nil {
				t.Fatal(err)
			}
			defer lock.Close()
			if p.cache = d.cacheFolder("sha256:0"); os.MkdirAll(p.cache, 0o700) != nil {
				t.Fatal("no cache")
			}
			if err := d.fillAgentFolder(p, 0); err != nil {
				t.Fatal(err)
			}
			if err := d.daemon.createContainer(t.Context(), d.container(p.made, handle1, p.folder, 0, p.shows[0])); err != nil {
				t.Fatal(err)
			}
			if err := d.Stop(t.Context(), handle1, c.grace, false); err != nil {
				t.Fatal(err)
			}
			if err := d.daemon.startContainer(t.Context(), containerName(handle1, 0)); err != nil { // it had looked for the word a moment before
				t.Fatal(err)
			}
			lock.Close()
			if m := until(t, d, driver.Ended); m.Code != c.code {
				t.Errorf("the member is %+v, want it ended with %d", m, c.code)
			}
		})
	}
}

func TestRealSecretsAreShownByNothingThatDockerKeeps(t *testing.T) {
	d := place(t)
	t.Setenv("DROVER_DOCKER_TEST_TOKEN", "sesame-4711")
	r := request1(t, drivertest.Script{Stay: true})
	r.Run.Secrets = map[string]string{"TOKEN": "env:DROVER_DOCKER_TEST_TOKEN"}
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	until(t, d, driver.Running)
	drivertest.Until(t, "the agent has read its secrets", func() bool { return !folder.Exists(secretsFile(agentDir(folderOf(d), 0))) })
	c, err := d.daemon.inspectContainer(t.Context(), containerName(handle1, 0))
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil || strings.Contains(string(text), "sesame") {
		t.Errorf("docker inspect shows the secret, or %v", err)
	}
	err = filepath.WalkDir(d.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "sesame") {
			t.Errorf("%s holds the secret", path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

func TestRealListTakesAwayWhatHasNoDesk(t *testing.T) {
	d := place(t)
	r := request1(t, drivertest.Script{Stay: true})
	r.Needs.Place.Nodes = 2
	if _, err := d.Start(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	until(t, d, driver.Running)
	// By hand; and moved, for to remove it is a race with the agent, which writes there.
	if err := os.Rename(folderOf(d), filepath.Join(t.TempDir(), "away")); err != nil {
		t.Fatal(err)
	}
	if held, err := d.List(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("List gives %v, %v", held, err)
	}
	if left, err := d.daemon.containersOfOurs(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("containers %v are left, %v", left, err)
	}
	if left, err := d.daemon.networksOfOurs(t.Context()); err != nil || len(left) != 0 {
		t.Errorf("networks %v are left, %v", left, err)
	}
}

func TestRealAJobsNetworkGoesWithItsLastPlacement(t *testing.T) {
	d := place(t)
	second := handle1
	second.Placement = 2
	for _, h := range []driver.Handle{handle1, second} {
		r := request1(t, drivertest.Script{Stay: true})
		r.Placement, r.Needs.Place.Nodes = h.Placement, 2
		if _, err := d.Start(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	for i, h := range []driver.Handle{handle1, second} {
		if err := d.Stop(t.Context(), h, 0, true); err != nil {
			t.Fatal(err)
		}
		drivertest.Until(t, "the placement is removed", func() bool {
			m, err := d.Status(t.Context(), h)
			if err != nil {
				t.Fatal(err)
			}
			return len(m) == 0
		})
		if left, err := d.daemon.networksOfOurs(t.Context()); err != nil || len(left) != 1-i {
			t.Errorf("after %d of 2 placements the networks are %v, %v", i+1, left, err)
		}
	}
}

// TestRealAPlainUserNeedsTheGroupAlone has another user start an agent.
func TestRealAPlainUserNeedsTheGroupAlone(t *testing.T) {
	host := dockerd.Use(t)
	if os.Getuid() != 0 {
		t.Fatal("only root can become somebody else")
	}
	info, err := os.Stat(strings.TrimPrefix(host, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	group := info.Sys().(*syscall.Stat_t).Gid
	const nobody = 65534
	dir, err := os.MkdirTemp("", "drover-plain-") // t.TempDir is root's alone
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "agent")
	text, err := os.ReadFile(staticProgram(t))
	if err == nil {
		err = os.WriteFile(program, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	play := func(groups []uint32) (string, error) {
		c := exec.CommandContext(t.Context(), program, dir)
		c.Dir = dir
		c.Env = append(os.Environ(), role+"=starter", "HOME="+dir)
		c.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: groups}}
		out, err := c.CombinedOutput()
		return string(out), err
	}
	if out, err := play(nil); err == nil || !strings.Contains(out, "usermod -aG docker") {
		t.Errorf("without the group: %v\n%s\nwant it refused, with what to do", err, out)
	}
	if out, err := play([]uint32{group}); err != nil {
		t.Fatalf("with the group: %v\n%s", err, out)
	}
	d := New(filepath.Join(dir, "docker"), "")
	t.Cleanup(func() { clear1(t, d) })
	if m := until(t, d, driver.Ended); m.Code != 6 {
		t.Errorf("the member is %+v, want it ended with 6", m)
	}
	marks, err := filepath.Glob(filepath.Join(dir, "1-0-*"))
	if err != nil || len(marks) != 1 {
		t.Fatalf("marks are %v, %v", marks, err)
	}
	err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err == nil && path != program && info.Sys().(*syscall.Stat_t).Uid != nobody {
			t.Errorf("%s belongs to %d", path, info.Sys().(*syscall.Stat_t).Uid)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// role makes this program something else than tests, or than drivertest's agent.
const role = "DROVER_DOCKER_TEST_ROLE"

// playStarter is a command line that starts an agent and goes at once.
func playStarter(dir string) error {
	os.Unsetenv(role)
	d := New(filepath.Join(dir, "docker"), "")
	d.image = dockerd.Static
	_, err := d.Start(context.Background(), driver.Request{Job: handle1.Job, Placement: 1, Agents: 1, Run: driver.Boot{
		Binary: os.Args[0], Folders: []string{dir}, Env: []string{`DROVER_DRIVERTEST={"Code":6,"Marks":` + strconv.Quote(dir) + `}`}}})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, fault.Hint(err))
	}
	return nil
}
