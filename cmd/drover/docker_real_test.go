//go:build linux

package main_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/driver/docker/dockerd"
	"github.com/drover-run/drover/driver/drivertest"
)

// withDocker is a home with a drover that finds the tests' daemon. At the end of the test
// nothing of its jobs is left in Docker, however the test ends.
func withDocker(t *testing.T) home {
	t.Helper()
	host := dockerd.Use(t)
	h := newHome(t)
	h.environ = append(h.environ, "DOCKER_HOST="+host)
	t.Cleanup(func() {
		label := "label=drover.folder=" + filepath.Join(filepath.Dir(h.work), "home", ".local", "state", "drover", "docker")
		// A command waits a little for its agents to go, and the next one that asks takes
		// the rest away.
		doctor := exec.Command(filepath.Join(built.dir, "drover"), "doctor")
		doctor.Dir, doctor.Env = h.work, h.environ
		for what, list := range map[string][]string{"containers": {"ps", "-aq"}, "networks": {"network", "ls", "-q"}} {
			drivertest.Until(t, "docker has no "+what+" of ours", func() bool {
				again := *doctor
				_ = again.Run() // what it finds otherwise does not count here
				out, err := exec.Command("docker", append(list, "--filter", label)...).CombinedOutput()
				if err != nil {
					t.Fatalf("docker: %v\n%s", err, out)
				}
				return len(bytes.TrimSpace(out)) == 0
			})
		}
	})
	return h
}

func TestRealDockerRunsAScriptInAnImage(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	h.environ = append(h.environ, "TOKEN=sesame-open-4711")
	data := h.runs("data")
	put(t, filepath.Join(data, "in.txt"), []byte("from the machine\n"))
	put(t, filepath.Join(h.work, "train.py"), []byte(`
import os
print("image", os.environ["FROM_IMAGE"], "in", os.getcwd())
print("secret", os.environ["TOKEN"] == "sesame-" + "open-4711")
print("mount", open("/data/in.txt").read().strip())
try:
    open("/data/out.txt", "w")
except OSError as e:
    print("read-only:", e.strerror)
open("/opt/ml/model/model.txt", "w").write("weights")
open("/state/count", "w").write("1")
`))
	out, _ := h.drover(t, 0, "run", "--on", "docker", "--image", dockerd.Debian, "--secret", "TOKEN", "--mount", data+":/data:ro", "-o", "out", "train.py")
	for _, want := range []string{"image yes in /opt/ml/code", "secret True", "mount from the machine", "read-only: Read-only file system"} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	if out, _ := h.drover(t, 0, "status", "last"); !strings.Contains(out, "image      "+dockerd.Debian+"\n") {
		t.Errorf("the status does not say the image:\n%s", out)
	}
	if text, err := os.ReadFile(filepath.Join(h.work, "out", "model", "model.txt")); err != nil || string(text) != "weights" {
		t.Errorf("the model is %q, %v", text, err)
	}
}

// A Dockerfile is built once, for one command or for several; the plan names what
// comes of it. A file that docker save wrote is an image, too.
func TestRealDockerBuildsTheImageOnce(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	put(t, filepath.Join(h.work, "built.py"), []byte("print('it was', open('/built').read().strip())\n"))
	text := "FROM " + dockerd.Debian + "\nRUN echo made in " + filepath.Base(h.work) + " >/built\n"
	run := []string{"run", "--on", "docker", "--dockerfile", text}
	plan, _ := h.drover(t, 0, append(slices.Clone(run), "--plan", "built.py")...)
	answers := make(chan string, 2)
	for _, task := range []string{"one", "two"} {
		c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), append(slices.Clone(run), "-t", task, "built.py")...)
		c.Dir, c.Env = h.work, h.environ
		go func() {
			all, _ := c.CombinedOutput() // it says why
			answers <- string(all)
		}()
	}
	times, image := 0, ""
	for range 2 {
		said := <-answers
		if !strings.Contains(said, "it was made in "+filepath.Base(h.work)+"\n") {
			t.Errorf("it says:\n%s", said)
		}
		times += strings.Count(said, "Successfully built")
		_, line, _ := strings.Cut(said, "\n  image    ")
		image, _, _ = strings.Cut(line, ",")
	}
	t.Cleanup(func() { exec.Command("docker", "rmi", image).Run() })
	if times != 1 || !strings.HasPrefix(image, "drover/") || !strings.Contains(plan, image) {
		t.Errorf("it was built %d times, as %q (planned: %s)", times, image, plan)
	}
	if out, err := exec.Command("docker", "image", "inspect", "--format", "{{.Id}}", image).CombinedOutput(); err != nil {
		t.Errorf("the plan names %q: %s", image, out)
	}
	file := filepath.Join(t.TempDir(), "image.tar") // outside the code
	if out, err := exec.Command("docker", "save", "-o", file, image).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	out, words := h.drover(t, 0, "run", "--on", "docker", "--image", "tar:"+file, "built.py")
	if !strings.HasPrefix(out, "it was made") {
		t.Errorf("of a file it says %q:\n%s", out, words)
	}
	_, line, _ := strings.Cut(words, "\n  image    ")
	loaded, _, _ := strings.Cut(line, ",")
	t.Cleanup(func() { exec.Command("docker", "rmi", loaded).Run() })
}

func TestRealDockerNeedsNothingOfAnImage(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	h.compiled(t)
	ran1 := h.runs("ran")
	if err := os.Mkdir(ran1, 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"--on", "docker", "--image", dockerd.Static, "--mount", ran1 + ":/ran"}
	h.drover(t, 0, append(append([]string{"run", "-t", "one"}, args...), "./teller", "/ran/one", "1")...)
	ran(t, filepath.Join(ran1, "one"), 1)
	put(t, h.runs("items.txt"), []byte("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n"))
	h.drover(t, 0, append(append([]string{"map", "-t", "many", "--from", h.runs("items.txt")}, args...), "./teller", "/ran/many", "{}")...)
	if extra := ran(t, filepath.Join(ran1, "many"), 12); extra != 0 {
		t.Errorf("%d items ran again", extra)
	}
	h.drover(t, 0, "map", "-t", "own", "--on", "docker", "--image", dockerd.Static, "--from", "1-100", "--", "/app", "hello", "{}")
	h.drover(t, 3, "run", "-t", "status", "--on", "docker", "--image", dockerd.Static, "/app", "exit", "3")
	h.drover(t, 9, append(append([]string{"run", "-t", "bad"}, args...), "./teller", "/none/one", "1")...)
}

func TestRealDockerSaysThatMemoryRanOut(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	put(t, filepath.Join(h.work, "fill.py"), []byte(`
with open("/dev/shm/x", "wb") as f:
    while True:
        f.write(bytes(1 << 20))
`))
	_, said := h.drover(t, 137, "run", "--on", "docker", "--image", dockerd.Debian, "--memory", "64M", "--shm", "2G", "fill.py")
	if !strings.Contains(said, "out of memory: 64 MB limit") {
		t.Errorf("it says:\n%s", said)
	}
}

// A container has what its items need together, and the 256 MB of drover itself.
func TestRealDockerAWorkerHasWhatItsItemsNeed(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	h.drover(t, 0, "map", "-t", "two", "--on", "docker", "--image", dockerd.Debian, "-j", "2", "--cpus", "0.5", "--memory", "64M", "--from", "1-2", "--",
		"sh", "-c", "cd /sys/fs/cgroup; set -- $(cat memory.max 2>/dev/null || cat memory/memory.limit_in_bytes) $(cat cpu.max 2>/dev/null || cat cpu/cpu.cfs_quota_us); echo $1 $2")
	said, _ := h.drover(t, 0, "logs", "two")
	if want := strings.Repeat("402653184 100000\n", 2); said != want {
		t.Errorf("its memory and its share of 100 ms of a core are\n%swant\n%s", said, want)
	}
}

// meetProgram is a program of two nodes, of which one hears of the other by the network.
const meetProgram = `
import json, os, socket, time
hosts = json.load(open("/opt/ml/input/config/resourceconfig.json"))
rank = hosts["hosts"].index(hosts["current_host"])
port = int(os.environ["MASTER_PORT"])
assert socket.gethostbyname(socket.gethostname()) == socket.gethostbyname(hosts["current_host"])
if rank == 0:
    with socket.create_server(("0.0.0.0", port)) as server:
        server.settimeout(60)
        peer, _ = server.accept()
        print("heard", peer.recv(100).decode())
else:
    for _ in range(600):
        try:
            with socket.create_connection((hosts["hosts"][0], port), timeout=5) as peer:
                peer.sendall(b"from " + hosts["current_host"].encode())
            break
        except OSError:
            time.sleep(0.1)
`

func TestRealDockerNodesReachEachOther(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	put(t, filepath.Join(h.work, "meet.py"), []byte(meetProgram))
	out, _ := h.drover(t, 0, "run", "--on", "docker", "--image", dockerd.Debian, "--nodes", "2", "meet.py")
	if !strings.Contains(out, "heard from algo-2\n") {
		t.Errorf("they did not meet:\n%s", out)
	}
}

func TestRealDockerReplacesAnAgentThatIsKilled(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	shared := h.runs("shared")
	if err := os.Mkdir(shared, 0o755); err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(h.work, "twice.py"), []byte(`
import os, time
if os.path.exists("/shared/once"):
    print("second time")
else:
    open("/shared/once", "w")
    time.sleep(1000)
`))
	var said bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), "run", "--on", "docker", "--image", dockerd.Debian, "--mount", shared+":/shared", "twice.py")
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "the program runs", func() bool {
		_, err := os.Stat(filepath.Join(shared, "once"))
		return err == nil
	})
	killed := 0
	for pid, command := range processesOf(filepath.Dir(h.work)) {
		if strings.Contains(command, " agent --store ") && !isFirst(pid) {
			killed++
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Wait(); err != nil || killed != 1 || !strings.Contains(said.String(), "second time\n") {
		t.Errorf("after %d agents were killed it ended with %v:\n%s", killed, err, &said)
	}
}

// A script that keeps its checkpoint beside itself goes on from it in another container.
func TestRealDockerGoesOnFromFilesBesideTheScript(t *testing.T) {
	onlyReal(t)
	h := withDocker(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(`
import os, sys, time
n = int(open("ckpt").read()) if os.path.exists("ckpt") else 0
print("start from", n, flush=True)
if n == 0:
    with open("ckpt", "w") as f:
        f.write("7")
    print("holding", flush=True)
    time.sleep(1000)
`))
	var said bytes.Buffer
	c := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), "run", "--on", "docker", "--image", dockerd.Debian, "-t", "beside", "count.py")
	c.Dir, c.Env, c.Stdout, c.Stderr = h.work, h.environ, &said, &said
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	drivertest.Until(t, "files are saved", func() bool {
		events := exec.CommandContext(t.Context(), filepath.Join(built.dir, "drover"), "events", "beside")
		events.Dir, events.Env = h.work, h.environ
		out, _ := events.Output() // there may be no job yet
		return strings.Contains(string(out), "saved files of the working folder")
	})
	killed := 0
	for pid, command := range processesOf(filepath.Dir(h.work)) {
		if strings.Contains(command, " agent --store ") && !isFirst(pid) {
			killed++
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}
	}
	if err := c.Wait(); err != nil || killed != 1 || !strings.Contains(said.String(), "start from 7\n") {
		t.Errorf("after %d agents were killed it ended with %v:\n%s", killed, err, &said)
	}
}

// The same with nothing left of it: command line, agent and program are killed at once, so
// that the last numbers are in the folder of the dead agent alone.
func TestRealDockerGoesOnFromFilesBesideTheScriptAfterAllIsKilled(t *testing.T) {
	onlyReal(t)
	t.Parallel() // it waits, for the end of a lease
	h := withDocker(t)
	put(t, filepath.Join(h.work, "count.py"), []byte(strings.ReplaceAll(counter, "/opt/ml/checkpoints/n", "n")))
	c, _ := h.begins(t, "step 7\n", "run", "--on", "docker", "--image", dockerd.Debian, "-t", "killed", "count.py", "9", "7", "never")
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.Wait() // it was killed
	killed := ""
	for pid, command := range processesOf(filepath.Dir(h.work)) {
		if strings.Contains(command, "containerd") || strings.Contains(command, "dockerd") {
			continue // Docker's own
		}
		killed += command + "\n"
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have gone with another
	}
	if !strings.Contains(killed, " agent --store ") {
		t.Fatalf("these were killed:\n%s", killed)
	}
	drivertest.Until(t, "it is interrupted", func() bool {
		out, _ := h.drover(t, 0, "status", "killed")
		return strings.Contains(out, "INTERRUPTED")
	})
	if out, _ := h.drover(t, 0, "resume", "killed"); !strings.Contains(out, "begins at 7\n") || !strings.Contains(out, "step 9") {
		t.Errorf("it goes on with\n%s", out)
	}
}

// isFirst says whether a process is process 1 of its container.
func isFirst(pid int) bool {
	status, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "NSpid:" {
			return fields[len(fields)-1] == "1"
		}
	}
	return false
}

// The seed's two tasks, a map in an image that holds one program, MPI between two
// containers, and a command line that is killed.
func TestRealSSMOnDocker(t *testing.T) {
	onlyReal(t)
	real(t, "ssm_on_docker", "DOCKER_HOST="+dockerd.Use(t), "DROVER_ON=docker")
}

func TestRealAttachOnDocker(t *testing.T) {
	onlyReal(t)
	real(t, "attach_docker", "DOCKER_HOST="+dockerd.Use(t), "DROVER_ON=docker")
}
