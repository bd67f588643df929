package kube

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/drover-run/drover/driver"
)

// shell is a user of drover's command line, with a home of its own, a store on a real S3 server
// that pods reach, and the rights of the Role alone.
type shell struct {
	cluster
	drover string
	home   string
	env    []string
}

// newShell builds drover and starts the S3 server, which ends with the test.
func newShell(t *testing.T, c cluster) shell {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	s := shell{cluster: c, drover: filepath.Join(t.TempDir(), "drover"), home: t.TempDir()}
	kubectl := filepath.Join(filepath.Dir(s.drover), "kubectl")
	if err := os.WriteFile(kubectl, []byte(fmt.Sprintf("#!/bin/sh\nexec %q kubectl \"$@\"\n", c.program)), 0o755); err != nil {
		t.Fatal(err)
	}
	run(t, "go", "build", "-C", root, "-trimpath", "-buildvcs=false", "-tags", "grpcnotrace", "-ldflags", "-s -w", "-o", s.drover, "./cmd/drover")
	server := strings.TrimSpace(run(t, filepath.Join(root, "store", "testdata", "servers.sh"), "versitygw"))
	free, err := net.Listen("tcp4", ":0")
	if err != nil {
		t.Fatal(err)
	}
	port := free.Addr().(*net.TCPAddr).Port
	free.Close()
	data := t.TempDir()
	if err := os.MkdirAll(filepath.Join(data, "drover"), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(server, "--port", fmt.Sprintf("0.0.0.0:%d", port), "--region", "us-east-1", "posix", data)
	cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=canarykeyid", "ROOT_SECRET_KEY=canarykeysecret")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address := strings.Fields(run(t, "hostname", "-I"))[0]
	s.env = []string{"HOME=" + s.home, "PATH=" + filepath.Dir(s.drover) + ":" + os.Getenv("PATH"), "KUBECONFIG=" + os.Getenv("KUBECONFIG"), "AWS_ACCESS_KEY_ID=canarykeyid", "AWS_SECRET_ACCESS_KEY=canarykeysecret",
		"AWS_REGION=us-east-1", fmt.Sprintf("AWS_ENDPOINT_URL=http://%s:%d", address, port), "DROVER_STORE=s3://drover/test", "DROVER_ON=kube", "CANARY=canaryvalue"}
	s.until(t, "the S3 server listens", func() bool {
		conn, err := net.Dial("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return s
}

// until waits for something to become true.
func (s shell) until(t *testing.T, what string, is func() bool) {
	t.Helper()
	look := time.NewTicker(500 * time.Millisecond)
	defer look.Stop()
	for end := time.Now().Add(5 * time.Minute); !is(); <-look.C {
		if time.Now().After(end) {
			t.Fatalf("not within five minutes: %s\n%s", what, s.kubectl(t, "--namespace", "train", "get", "jobs,pods", "-o", "wide"))
		}
	}
}

// command is a command of drover, in a folder of its own with a file work.sh.
func (s shell) command(t *testing.T, work string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(s.drover, args...)
	cmd.Env, cmd.Dir = s.env, filepath.Join(s.home, "project")
	err := os.MkdirAll(cmd.Dir, 0o755)
	if err == nil && work != "" {
		err = os.WriteFile(filepath.Join(cmd.Dir, "work.sh"), []byte(fmt.Sprintf("#!/bin/sh\n# %d\n%s\n", time.Now().UnixNano(), work)), 0o755) // code that no job before had
	}
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// output runs a command of drover that must succeed, and gives what it prints.
func (s shell) output(t *testing.T, work string, args ...string) string {
	t.Helper()
	cmd := s.command(t, work, args...)
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("drover %s: %v\n%s%s", strings.Join(args, " "), err, out, errors.Bytes())
	}
	return string(out)
}

// begin starts a command of drover; end waits for it, and gives what it wrote.
func (s shell) begin(t *testing.T, work string, args ...string) (cmd *exec.Cmd, end func() (string, error)) {
	t.Helper()
	cmd = s.command(t, work, args...)
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, func() (string, error) { err := <-ended; return both.String(), err }
}

// pods are the names of the pods of this user's jobs in a phase; "": in any.
func (s shell) pods(t *testing.T, phase string) []string {
	t.Helper()
	args := []string{"--namespace", "train", "get", "pods", "-l", labelManaged + "=" + managedBy, "-o", "name"}
	if phase != "" {
		args = append(args, "--field-selector", "status.phase="+phase)
	}
	return strings.Fields(s.kubectl(t, args...))
}

// jobStatus is what the tests read of drover status --json.
type jobStatus struct {
	ID            string
	State         string
	Interruptions int
	Items         struct{ Items, Succeeded, Failed int }
}

// status is that of the newest job.
func (s shell) status(t *testing.T) jobStatus {
	t.Helper()
	return s.statusOf(t, "last")
}

func (s shell) statusOf(t *testing.T, id string) (st jobStatus) {
	t.Helper()
	if err := json.Unmarshal([]byte(s.output(t, "", "status", id, "--json")), &st); err != nil {
		t.Fatal(err)
	}
	return st
}

// killIn kills the process 1 of a pod's agent, from outside.
func (s shell) killIn(t *testing.T, name string) {
	t.Helper()
	all := processesIn(name, "")
	i := slices.IndexFunc(all, func(pid int) bool {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		return regexp.MustCompile(`(?m)^NSpid:.*\t1$`).Match(status)
	})
	if i < 0 {
		t.Fatalf("no process 1 in %s", name)
	}
	if err := syscall.Kill(all[i], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
}

// processesIn are the processes of a pod with a text in their command line.
func processesIn(name, text string) (pids []int) {
	procs, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range procs {
		env, err := os.ReadFile(file)
		if err != nil || !strings.Contains("\x00"+string(env), "\x00HOSTNAME="+name+"\x00") {
			continue
		}
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
		if strings.Contains(string(line), text) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// keepsPromises types the commands of docs/how-to/kube.md, with things going wrong meanwhile.
func (s shell) keepsPromises(t *testing.T) {
	for _, promise := range []struct {
		name string
		keep func(*testing.T)
	}{
		{"a map outlives an eviction a kill a drained node and its command line", s.mapsThroughTrouble},
		{"nodes of a run find each other", s.runsTwoNodes},
		{"a job is followed watched and entered", s.follows},
		{"pods go to the nodes that were asked for", s.choosesNodes},
		{"a shorter cancel ends what a longer one left", s.cancels},
		{"a quota that is exhausted is waited for", s.waitsForQuota},
		{"a Job that was suspended goes on", s.suspends},
		{"secrets are in nothing but the Secret", s.keepsSecrets},
		{"a Job that was deleted goes on by resume", s.resumesDeleted},
		{"an image that is not there is said", s.saysNoImage},
		{"a right that is lacking is named", s.namesRights},
		{"a machine that loses its power is replaced", s.losesPower},
		{"down leaves nothing", s.goesDown},
	} {
		if !t.Run(promise.name, promise.keep) { // and nothing of it disturbs the next one
			s.kubectl(t, "--namespace", "train", "delete", "jobs", "--all", "--cascade=foreground", "--timeout=100s")
		}
	}
}

func (s shell) mapsThroughTrouble(t *testing.T) {
	const items = 10_000
	var list strings.Builder
	for i := range items {
		fmt.Fprintln(&list, i)
	}
	first := s.command(t, "")
	if err := os.WriteFile(filepath.Join(first.Dir, "items.txt"), []byte(list.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	cmd, end := s.begin(t, `usleep 20000; echo "$1"`, "map", "--image", "drover.test/busybox:1", "--cpus", "0.2", "--memory", "64M", "--workers", "4", "--slots", "2", "--from", "items.txt", "--", "./work.sh", "{}")
	s.until(t, "four pods run", func() bool { return len(s.pods(t, "Running")) == 4 })
	done := func(n int) func() bool { return func() bool { return s.status(t).Items.Succeeded > n } }
	s.until(t, "items have ended", done(100))
	running := s.pods(t, "Running")
	s.evictPod(t, strings.TrimPrefix(running[0], "pod/"))
	s.until(t, "more items have ended", done(1000))
	s.killIn(t, strings.Join(strings.Split(strings.TrimPrefix(running[1], "pod/"), "-")[:4], "-"))
	if err := cmd.Process.Kill(); err != nil { // and from here on no command is attached
		t.Fatal(err)
	}
	_, _ = end()
	s.kubectl(t, "drain", "node-1", "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=100s", "--pod-selector="+labelManaged+"="+managedBy)
	if left := s.pods(t, "Running"); len(left) > 0 {
		t.Errorf("after the node was drained there run %q", left)
	}
	s.kubectl(t, "uncordon", "node-1")
	s.until(t, "the map ends with no command attached", func() bool { return s.status(t).State == "SUCCEEDED" })
	st := s.status(t)
	if st.Items.Succeeded != items || st.Items.Failed != 0 {
		t.Errorf("%+v", st)
	}
	verified := s.output(t, "", "verify", st.ID)
	s.output(t, "", "gc", "--yes") // as no command was attached that would have taken the Job away
	s.until(t, "gc takes the Job away", func() bool { return len(s.pods(t, "")) == 0 })
	t.Logf("10,000 items in %s with an eviction, a kill and a drained node: %+v\n%s", time.Since(begun).Round(time.Second), st.Items, verified)
}

// losesPower has two maps on machines that go without a word. The command that follows the first has it
// finished elsewhere; the other, which no command follows, goes on when the administrator deletes the
// Node.
func (s shell) losesPower(t *testing.T) {
	s.addNode(t, 1, "node-2")
	s.addNode(t, 2, "node-3")
	items := func(task string, more ...string) []string {
		return append(append(small("map", "-t", task, "--workers", "1", "--slots", "1", "--grace", "1s", "--from", "1-20"), more...), "--", "./work.sh", "{}")
	}
	isAtWork := func(task string) func() bool {
		return func() bool { return s.statusOf(t, "project/"+task).Items.Succeeded > 1 }
	}
	const work = `sleep 1; echo "$1"`
	s.kubectl(t, "cordon", "node-1", "node-3")
	_, end := s.begin(t, work, items("followed")...)
	s.until(t, "the first is at work", func() bool { return len(s.pods(t, "Running")) == 1 })
	s.kubectl(t, "uncordon", "node-3")
	s.kubectl(t, "cordon", "node-2")
	s.output(t, work, items("alone", "--detach")...)
	s.until(t, "the other is at work", isAtWork("alone"))
	s.until(t, "the first has results", isAtWork("followed"))
	for _, node := range []string{"node-2", "node-3"} {
		run(t, "testdata/cluster/kube.sh", "powercut", s.dir, node)
	}
	s.kubectl(t, "uncordon", "node-1")
	s.kubectl(t, "delete", "node", "node-3")
	cut := time.Now()

	if out, err := end(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("finished elsewhere %s after the power was cut", time.Since(cut).Round(time.Second))
	s.until(t, "the other map ends", func() bool { return s.statusOf(t, "project/alone").State == "SUCCEEDED" })
	t.Logf("the one without a command ended %s after the power was cut", time.Since(cut).Round(time.Second))
	for _, task := range []string{"alone", "followed"} {
		st := s.statusOf(t, "project/"+task)
		if st.Items.Succeeded != 20 || st.Items.Failed != 0 {
			t.Errorf("%+v", st)
		}
		t.Log(s.output(t, "", "verify", st.ID))
	}
	s.kubectl(t, "delete", "node", "node-2")
	s.output(t, "", "gc", "--yes")
}

// small are the options of an agent that takes little of the machine.
func small(verb string, more ...string) []string {
	return append([]string{verb, "--image", "drover.test/busybox:1", "--cpus", "0.05", "--memory", "64M"}, more...)
}

func (s shell) runsTwoNodes(t *testing.T) {
	work := `echo "rank $DROVER_RANK at $MASTER_ADDR"
if [ "$DROVER_RANK" = 0 ]; then echo hello | nc -l -p 7777; exit; fi
for i in 1 2 3 4 5 6 7 8 9 10; do nc "$MASTER_ADDR" 7777 && exit; sleep 1; done
exit 1`
	out := s.output(t, work, small("run", "--nodes", "2", "work.sh")...)
	if !strings.Contains(out, "[1] hello") {
		t.Errorf("rank 1 did not hear rank 0:\n%s", out)
	}
}

// follows has a job that no command started here still follows: its lines, its place on the screen, and
// a command beside its program.
func (s shell) follows(t *testing.T) {
	s.output(t, `echo began; until [ -e /state/go ]; do sleep 0.2; done; echo went on`, small("run", "--detach", "work.sh")...)
	_, followed := s.begin(t, "", "logs", "-f", "last")
	s.until(t, "the program has begun", func() bool { return strings.Contains(s.output(t, "", "logs", "last"), "began") })

	top := s.command(t, "", "top")
	top.Env = append(top.Env, "TERM=xterm-256color")
	terminal, err := pty.StartWithSize(top, &pty.Winsize{Cols: 100, Rows: 30})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	t.Cleanup(func() { _ = top.Process.Kill() })
	if err := terminal.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	shown, id := make([]byte, 0, 1<<20), s.status(t).ID
	for !bytes.Contains(shown, []byte(id)) || !bytes.Contains(shown, []byte("running")) {
		n, err := terminal.Read(shown[len(shown):cap(shown)])
		if shown = shown[:len(shown)+n]; err != nil {
			t.Fatalf("drover top: %v\n%s", err, shown)
		}
	}
	if _, err := terminal.WriteString("q"); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, terminal) }()
	if err := top.Wait(); err != nil {
		t.Errorf("drover top: %v", err)
	}

	const beside = `echo "$(whoami 2>/dev/null || id -u) in $(pwd), rank $DROVER_RANK"; touch /state/go; exit 7`
	attach := s.command(t, "", "attach", "last", "--", "sh", "-c", beside)
	out, err := attach.CombinedOutput()
	if attach.ProcessState.ExitCode() != 7 || !strings.Contains(string(out), "10001 in /opt/ml/code, rank 0") {
		t.Errorf("drover attach: %v\n%s", err, out)
	}
	if out, err := followed(); err != nil || !strings.HasSuffix(out, "began\nwent on\n") {
		t.Errorf("drover logs -f: %v\n%s", err, out)
	}
	s.output(t, "", "gc", "--yes")
}

// spotNodes are the labels and taints of a spot node of each provider.
var spotNodes = map[string]string{
	"karpenter": `"labels":{"karpenter.sh/capacity-type":"spot",%s}},"spec":{}`,
	"eks":       `"labels":{"eks.amazonaws.com/capacityType":"SPOT",%s}},"spec":{}`,
	"gke":       `"labels":{"cloud.google.com/gke-spot":"true",%s}},"spec":{"taints":[{"key":"cloud.google.com/gke-spot","value":"true","effect":"NoSchedule"}]}`,
	"aks":       `"labels":{"kubernetes.azure.com/scalesetpriority":"spot",%s}},"spec":{"taints":[{"key":"kubernetes.azure.com/scalesetpriority","value":"spot","effect":"NoSchedule"}]}`,
}

// choosesNodes has the real scheduler choose among nodes that are objects alone: no kubelet is there.
func (s shell) choosesNodes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.json")
	for provider, form := range spotNodes {
		node := fmt.Sprintf(`{"apiVersion":"v1","kind":"Node","metadata":{"name":%[1]q,%[2]s,"status":{"allocatable":{"cpu":"8","memory":"32Gi","pods":"110"},"capacity":{"cpu":"8","memory":"32Gi","pods":"110"}}}`,
			provider, fmt.Sprintf(form, fmt.Sprintf(`"kubernetes.io/os":"linux","kubernetes.io/arch":%q,"kubernetes.io/hostname":%q,"node.kubernetes.io/instance-type":"p3.%s"`, runtime.GOARCH, provider, provider)))
		if err := os.WriteFile(file, []byte(node), 0o600); err != nil {
			t.Fatal(err)
		}
		s.kubectl(t, "create", "-f", file)
		t.Cleanup(func() { s.kubectl(t, "delete", "node", provider) })
	}
	jobs := map[string]string{}
	for provider := range spotNodes {
		s.output(t, "echo never", small("run", "-t", provider, "--detach", "--spot", "--where", "attribute:ecs.instance-type =~ p3."+provider[:2]+"*", "work.sh")...)
		jobs["drover-"+s.jobID(t, "project/"+provider)+"-1"] = provider
	}
	for job, provider := range jobs {
		s.until(t, "the pod of "+job+" has a node", func() bool {
			at := strings.TrimSpace(s.kubectl(t, "--namespace", "train", "get", "pods", "-l", "batch.kubernetes.io/job-name="+job, "-o", "jsonpath={.items[*].spec.nodeName}"))
			if at != "" && at != provider {
				t.Fatalf("asked for spot capacity of %s, got %s", provider, at)
			}
			return at != ""
		})
	}
	s.output(t, "", "down", "kube", "--yes")
	s.kubectl(t, "--namespace", "train", "delete", "pods", "--all", "--force", "--grace-period=0") // as no kubelet would ever answer
}

// stubborn is a program that does not end when it is asked to.
const stubborn = `trap '' TERM; echo began; while :; do sleep 1; done`

// onePod starts a job, and gives the name of its one pod once the program in it has begun.
func (s shell) onePod(t *testing.T, work string, args ...string) (pod string, cmd *exec.Cmd, end func() (string, error)) {
	t.Helper()
	cmd, end = s.begin(t, work, args...)
	s.until(t, "the program runs", func() bool {
		all := s.pods(t, "Running")
		if len(all) != 1 {
			return false
		}
		pod = strings.TrimPrefix(all[0], "pod/")
		return len(processesIn(hostOf(pod), "work.sh")) > 0
	})
	return pod, cmd, end
}

// hostOf is the host name of a pod: that of its Job and its index.
func hostOf(pod string) string { return pod[:strings.LastIndex(pod, "-")] }

// told waits until the pods of the job are told to stop within a time.
func (s shell) told(t *testing.T, grace string) {
	t.Helper()
	s.until(t, "the order is written", func() bool {
		return strings.Contains(" "+s.kubectl(t, "--namespace", "train", "get", "configmaps", "-o", "jsonpath={.items[*].data.stop}"), " "+grace)
	})
}

func (s shell) cancels(t *testing.T) {
	for _, killed := range []bool{false, true} {
		pod, _, end := s.onePod(t, stubborn, small("run", "--grace", "10m", "work.sh")...)
		_, first := s.begin(t, "", "cancel", "last", "--grace", "5m")
		s.told(t, "5m0s")
		if len(processesIn(hostOf(pod), "work.sh")) == 0 {
			t.Fatal("the program has ended, and ignores SIGTERM")
		}
		begun := time.Now()
		cancel, second := s.begin(t, "", "cancel", "last", "--grace", "15s") // longer than it takes to see it and to kill
		if s.told(t, "15s"); killed {
			if err := cancel.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
		s.until(t, "no process of the pod is left", func() bool { return len(processesIn(hostOf(pod), "")) == 0 })
		t.Logf("gone in %s (command line killed: %t)", time.Since(begun).Round(100*time.Millisecond), killed)
		if took := time.Since(begun); took > time.Minute {
			t.Errorf("the processes were gone after %s", took)
		}
		for _, ended := range []func() (string, error){first, second, end} {
			_, _ = ended()
		}
	}
}

func (s shell) waitsForQuota(t *testing.T) {
	apply := func(text string) {
		file := filepath.Join(t.TempDir(), "object.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s.kubectl(t, "apply", "-f", file)
	}
	quota := func(pods int) {
		apply(fmt.Sprintf(`{apiVersion: v1, kind: ResourceQuota, metadata: {name: tight, namespace: train}, spec: {hard: {count/pods: "%d"}}}`, pods))
	}
	s.until(t, "no pod is left of other jobs", func() bool { return len(s.pods(t, "")) == 0 })
	apply(`{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: train}, spec: {securityContext: {runAsNonRoot: true, runAsUser: 1, seccompProfile: {type: RuntimeDefault}},
 containers: [{name: a, image: "drover.test/pause:1", securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}, resources: {requests: {cpu: 10m, memory: 10Mi}, limits: {cpu: 10m, memory: 10Mi}}}]}}`)
	quota(1)
	s.until(t, "the quota is used up", func() bool {
		return strings.TrimSpace(s.kubectl(t, "--namespace", "train", "get", "resourcequota", "tight", "-o", "jsonpath={.status.used.count/pods}")) == "1"
	})
	_, end := s.begin(t, "echo hello", small("run", "work.sh")...)
	s.until(t, "why tells the quota", func() bool {
		out, _ := s.command(t, "", "why", "last").CombinedOutput()
		return bytes.Contains(out, []byte("exceeded quota: tight")) && bytes.Contains(out, []byte("limited: count/pods=1"))
	})
	quota(50)
	if out, err := end(); err != nil || !strings.Contains(out, "hello") {
		t.Errorf("%v\n%s", err, out)
	}
	s.kubectl(t, "--namespace", "train", "delete", "pod/other", "resourcequota/tight", "--grace-period=1")
}

func (s shell) suspends(t *testing.T) {
	var list strings.Builder
	for i := range 150 {
		fmt.Fprintln(&list, i)
	}
	if err := os.WriteFile(filepath.Join(s.home, "project", "items.txt"), []byte(list.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	_, end := s.begin(t, `sleep 0.1; echo "$1"`, small("map", "--workers", "2", "--from", "items.txt", "--", "./work.sh", "{}")...)
	s.until(t, "items have ended", func() bool {
		out, err := s.command(t, "", "status", "last", "--json").Output()
		return err == nil && bytes.Contains(out, []byte(`"items":150`)) && len(s.pods(t, "Running")) == 2 && s.status(t).Items.Succeeded > 20
	})
	job := "drover-" + s.jobID(t, "last") + "-1"
	s.kubectl(t, "--namespace", "train", "patch", "job", job, "--type=merge", "-p", `{"spec":{"suspend":true}}`)
	s.until(t, "no pod runs", func() bool { return len(s.pods(t, "Running")) == 0 })
	s.until(t, "why tells", func() bool { return strings.Contains(s.output(t, "", "why", "last"), "the Job is suspended") })
	s.kubectl(t, "--namespace", "train", "patch", "job", job, "--type=merge", "-p", `{"spec":{"suspend":false}}`)
	out, err := end()
	if st := s.status(t); err != nil || st.Items.Succeeded != 150 || st.Items.Failed != 0 {
		t.Errorf("%v, %+v\n%s", err, st, out)
	}
	s.output(t, "", "verify", "last")
}

// jobID is the id in full of the job that a reference, such as last, names.
func (s shell) jobID(t *testing.T, ref string) string {
	t.Helper()
	var st struct{ Job string }
	if err := json.Unmarshal([]byte(s.output(t, "", "status", ref, "--json")), &st); err != nil {
		t.Fatal(err)
	}
	return st.Job[strings.LastIndex(st.Job, "/")+1:]
}

func (s shell) keepsSecrets(t *testing.T) {
	pod, _, end := s.onePod(t, `echo "token of ${#TOKEN} letters"; until [ -e /tmp/go ]; do sleep 0.2; done`, small("run", "--secret", "TOKEN=env:CANARY", "work.sh")...)
	seen := map[string]string{
		"objects":  s.kubectl(t, "--namespace", "train", "get", "jobs,configmaps,pods,events", "-o", "yaml"),
		"describe": s.kubectl(t, "--namespace", "train", "describe", "jobs,configmaps,pods"),
		"logs":     s.kubectl(t, "--namespace", "train", "logs", pod, "--all-containers"),
	}
	procs, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range procs {
		line, _ := os.ReadFile(file)
		seen["argv"] += string(line) + "\n"
	}
	for _, pid := range processesIn(hostOf(pod), "") {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); !strings.Contains(string(line), "work.sh") && !strings.Contains(string(line), "sleep") {
			seen["environment of the agent"] += string(env)
		}
	}
	for where, text := range seen {
		for _, canary := range []string{"canaryvalue", "canarykeysecret"} {
			if strings.Contains(text, canary) {
				t.Errorf("%s is in %s", canary, where)
			}
		}
	}
	s.kubectl(t, "--namespace", "train", "exec", pod, "-c", agentContainer, "--", "touch", "/tmp/go")
	if out, err := end(); err != nil || !strings.Contains(out, "token of 11 letters") {
		t.Errorf("%v\n%s", err, out)
	}
}

func (s shell) resumesDeleted(t *testing.T) {
	_, cmd, end := s.onePod(t, `n=$(cat /state/n 2>/dev/null || echo 0); echo $((n + 1)) >/state/n; echo "try after $n"; [ "$n" -gt 0 ] || sleep 1000`, small("run", "work.sh")...)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_, _ = end()
	s.kubectl(t, "--namespace", "train", "delete", "job", "drover-"+s.jobID(t, "last")+"-1")
	out := s.output(t, "", "resume", "last")
	if s.status(t).State != "SUCCEEDED" {
		t.Errorf("%s", out)
	}
	t.Logf("%s", out)
}

func (s shell) saysNoImage(t *testing.T) {
	_, end := s.begin(t, "echo hello", "run", "--image", "drover.test/nope:1", "work.sh")
	s.until(t, "why tells the image", func() bool {
		out, _ := s.command(t, "", "why", "last").CombinedOutput()
		return bytes.Contains(out, []byte("the image cannot be pulled")) && bytes.Contains(out, []byte("drover.test/nope:1"))
	})
	s.output(t, "", "cancel", "last")
	out, _ := end()
	t.Logf("%s", out)
}

// Each verb of the Role is taken away in turn.
func (s shell) namesRights(t *testing.T) {
	role, err := policy(driver.Config{}, driver.Submitters, driver.Scope{Detail: "train"})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "role.yaml")
	put := func(text string) {
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "NAME", "system:serviceaccount:train:ann")), 0o600); err != nil {
			t.Fatal(err)
		}
		s.kubectl(t, "apply", "-f", file)
	}
	for _, beyond := range beyondRole {
		resource, part, _ := strings.Cut(beyond.resource, "/")
		out, _ := exec.Command(s.program, "kubectl", "--kubeconfig", os.Getenv("KUBECONFIG"), "auth", "can-i", beyond.verb, resource, "--subresource="+part).Output() // status 1 says no
		if answer := strings.TrimSpace(string(out)); answer != "no" {
			t.Errorf("may the user %s %s? %q", beyond.verb, beyond.resource, answer)
		}
	}
	defer put(role)
	for _, r := range rights {
		before := fmt.Sprintf("resources: [%s], verbs: [%s]", r.resource, strings.Join(r.verbs, ", "))
		for i, verb := range r.verbs {
			rest := strings.Join(append(slices.Delete(slices.Clone(r.verbs), i, i+1), "deletecollection"), ", ") // a rule has one at least
			put(strings.Replace(role, before, fmt.Sprintf("resources: [%s], verbs: [%s]", r.resource, rest), 1))
			s.until(t, "doctor names "+verb+" "+r.resource, func() bool {
				out, _ := s.command(t, "", "doctor", "--on", "kube").CombinedOutput()
				return bytes.Contains(out, []byte("you may not "+verb+" "+r.resource))
			})
		}
	}
}

// beyondRole is what drover's Role does not grant.
var beyondRole = []struct{ verb, resource string }{
	{"get", "secrets"}, {"list", "secrets"}, {"watch", "secrets"}, {"delete", "secrets"}, {"update", "secrets"},
	{"list", "configmaps"}, {"watch", "configmaps"}, {"delete", "configmaps"}, {"update", "configmaps"},
	{"create", "pods"}, {"delete", "pods"}, {"update", "pods"}, {"get", "pods/log"}, {"create", "pods/eviction"}, {"create", "pods/portforward"}, {"patch", "pods/status"},
	{"update", "jobs"}, {"watch", "jobs"}, {"deletecollection", "jobs"}, {"patch", "jobs/status"}, {"create", "cronjobs"}, {"create", "deployments"}, {"create", "services"},
	{"create", "serviceaccounts/token"}, {"create", "roles"}, {"create", "rolebindings"}, {"delete", "resourcequotas"}, {"create", "events"}, {"list", "namespaces"}, {"create", "customresourcedefinitions"},
}

func (s shell) goesDown(t *testing.T) {
	_, _, end := s.onePod(t, "while :; do sleep 1; done", small("run", "work.sh")...)
	out, err := s.command(t, "", "down", "kube", "--yes").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	_, _ = end()
	for _, kind := range strings.Fields(s.kubectl(t, "api-resources", "--verbs=list", "--namespaced", "-o", "name")) {
		s.until(t, "no "+kind+" of ours is left", func() bool {
			return strings.TrimSpace(s.kubectl(t, "--namespace", "train", "get", kind, "-l", labelManaged+"="+managedBy, "-o", "name")) == ""
		})
	}
}
