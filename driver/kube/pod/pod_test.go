package pod

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/folder"
)

// agentWords are the words with which this program acts as an agent in a test.
const agentWords = "KUBE_TEST_AGENT"

// TestMain runs the tests, or acts as an agent below supervise.
func TestMain(m *testing.M) {
	switch os.Getenv(agentWords) {
	case "":
		os.Exit(m.Run())
	case "fails":
		os.Stderr.WriteString("no disk\n")
		os.Exit(7)
	case "reports":
		a, err := adopt(inPod())
		if err != nil {
			os.Exit(99)
		}
		a.End(5, "it is over")
		os.Exit(5)
	case "dies":
		p, _ := os.FindProcess(os.Getpid())
		_ = p.Kill()
		select {}
	}
}

// newPod makes the folder of a pod, with an order for an agent that acts so.
func newPod(t *testing.T, acts string) (p paths) {
	t.Helper()
	root := t.TempDir()
	t.Setenv(Root, root)
	p = inPod()
	for _, dir := range []string{p.work + "/agent", p.orders, p.secrets, filepath.Dir(p.message)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	text, err := json.Marshal(Order{Store: "s3://b/p", Job: "p/t/abcd2345abcd2345", Placement: 1, Agents: 3, Env: []string{agentWords + "=" + acts}, Cores: 1.5, Memory: 1 << 30})
	if err == nil {
		err = os.WriteFile(p.order(), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{Role: Supervise, Index: "2", Failed: "1", Ignored: ""} {
		t.Setenv(name, value)
	}
	return p
}

// message is what process 1 has left.
func message(t *testing.T, p paths) Message {
	t.Helper()
	text, err := os.ReadFile(p.message)
	m, ok := ReadMessage(string(text))
	if err != nil || !ok {
		t.Fatalf("%q, %v", text, err)
	}
	return m
}

func TestProcessOneReportsHowItsAgentEnded(t *testing.T) {
	for acts, c := range map[string]struct {
		status int
		want   Message
	}{
		"fails":   {7, Message{Code: 7, Reason: "exit status 7", Tail: "no disk\n"}},
		"reports": {5, Message{Code: 5, Reason: "it is over"}},
		"dies":    {137, Message{Code: 137, Reason: "signal: killed", Lost: true}},
	} {
		p := newPod(t, acts)
		status := supervise(p, time.Minute)
		if diff := cmp.Diff(c.want, message(t, p)); status != c.status || diff != "" {
			t.Errorf("%s: status %d, want %d, difference:\n%s", acts, status, c.status, diff)
		}
	}
}

func TestAStopThatCameFirstKeepsTheAgentFromBeginning(t *testing.T) {
	p := newPod(t, "fails")
	if err := folder.LeaveWord(p.stop(), 0); err != nil {
		t.Fatal(err)
	}
	status := supervise(p, time.Minute)
	if diff := cmp.Diff(Message{Code: -1, Reason: "stopped before it began", Stopped: true, Unbegun: true}, message(t, p)); status != 0 || diff != "" {
		t.Errorf("status %d, difference:\n%s", status, diff)
	}
}

// Kubernetes starts nothing in the place of an agent that ends with 0, whatever its own status.
func TestAfterAStopTheStatusIsZero(t *testing.T) {
	p := newPod(t, "fails")
	if err := folder.LeaveWord(p.stop(), time.Hour); err != nil {
		t.Fatal(err)
	}
	status := supervise(p, time.Minute)
	if m := message(t, p); status != 0 || m.Code != 7 || !m.Stopped {
		t.Errorf("status %d, %+v", status, m)
	}
}

func TestAPodWithoutAnOrderSaysSo(t *testing.T) {
	p := newPod(t, "fails")
	t.Setenv(Index, "")
	if status := supervise(p, 0); status != 125 || message(t, p).Reason != "its agent never started: the pod has no index among 3" {
		t.Errorf("%d, %+v", status, message(t, p))
	}
	if err := os.Remove(p.order()); err != nil {
		t.Fatal(err)
	}
	if status := supervise(p, 0); status != 125 || !strings.HasPrefix(message(t, p).Reason, "its agent never started: ") {
		t.Errorf("%d, %+v", status, message(t, p))
	}
	if _, err := adopt(p); err == nil || !strings.HasPrefix(err.Error(), "adopt agent: this process is in no pod of drover's") {
		t.Errorf("%v", err)
	}
}

func TestAMessageThatCannotBeLeftIsPrinted(t *testing.T) {
	p := newPod(t, "")
	p.message = filepath.Join(p.message, "no", "folder")
	held := os.Stderr
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	os.Stderr = w
	status := p.leave(Message{Reason: "x"}, 3)
	os.Stderr = held
	w.Close()
	text, err := io.ReadAll(r)
	if err != nil || status != 3 || !strings.HasPrefix(string(text), "drover: leave how the agent ended: ") {
		t.Errorf("%d, %q, %v", status, text, err)
	}
}

func TestAnAgentIsToldWhyItsPodGoes(t *testing.T) {
	p := newPod(t, "")
	n := p.notice()
	if n.Asked || n.Why != "Kubernetes ends the pod: its node goes, or it was evicted or deleted" || n.Left != 0 {
		t.Errorf("%+v", n)
	}
	if err := folder.WriteJSON(p.warning(), time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n := p.notice(); n.Asked || n.Left < 59*time.Minute {
		t.Errorf("%+v", n)
	}
	if err := folder.LeaveWord(p.stop(), time.Minute); err != nil {
		t.Fatal(err)
	}
	if n := p.notice(); !n.Asked || n.Why != driver.AskedToStop || n.Left != time.Minute {
		t.Errorf("%+v", n)
	}
}

func TestAnAgentHasWhatItsPodHas(t *testing.T) {
	p := newPod(t, "")
	for file, text := range map[string]string{p.secretFile(): `{"TOKEN":"x"}`, p.credential(): "secret"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := adopt(p)
	if err != nil || a.Root != p.root() || a.Cores != 2 || a.Memory != 1<<30 || a.Secrets["TOKEN"] != "x" || a.Credential != p.credential() || a.Shared == nil || a.Hosts != p.hosts() {
		t.Errorf("%+v, %v", a, err)
	}
	if a := Beside(); a == nil || a.Root != p.root() {
		t.Errorf("beside: %+v", a)
	}
}

func TestThePodIsPrepared(t *testing.T) {
	p := newPod(t, "")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := prepare(p, "00"); err == nil || !strings.HasPrefix(err.Error(), "the program has the digest ") || !strings.HasSuffix(err.Error(), ", and 00 was sent") {
		t.Errorf("%v", err)
	}
	digest, err := digestOf(self)
	if err == nil {
		err = prepare(p, digest)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"root/opt/ml", "root/state", "home", "tmp", "state", "cache", "agent", "hosts", "drover"} {
		if _, err := os.Stat(filepath.Join(p.work, path)); err != nil {
			t.Error(err)
		}
	}
	if got, err := digestOf(filepath.Join(p.work, "drover")); err != nil || got != digest {
		t.Errorf("the program there has the digest %s, %v", got, err)
	}
}
