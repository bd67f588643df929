package kubetest

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/drover-run/drover/driver/kube/pod"
)

// process is a pod that runs: a process of this machine, with a folder that has the paths of the
// pod. Where a container would see /drover, the process is told FOLDER/drover.
type process struct {
	s       *Server
	dir     string
	cmd     *exec.Cmd // of the container that runs; nil: none yet
	ended   func(o Object, code int) (replaced bool)
	deleted bool
}

// run starts a pod: its init container, then its container. Under s.mu; ended is called likewise, and
// says whether another pod is to be started in its place.
func (s *Server) run(namespace string, pod Object, ended func(o Object, code int) (replaced bool)) {
	uid := text(pod, "metadata", "uid")
	p := &process{s: s, dir: filepath.Join(s.dir, uid), ended: ended}
	s.pods[uid] = p
	s.running.Go(func() { p.live(namespace, pod) })
}

// live is the kubelet's part in one pod.
func (p *process) live(namespace string, pod Object) {
	code, message := 0, ""
	var which string
	for _, kind := range []string{"initContainers", "containers"} {
		c := pod["spec"].(Object)[kind].([]any)[0].(Object)
		which = kind
		if !p.waitForVolumes(namespace, pod) {
			code = 137
			break
		}
		if code, message = p.runContainer(pod, kind, c); code != 0 {
			break
		}
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	status := pod["status"].(Object)
	status["phase"] = "Succeeded"
	if code != 0 {
		status["phase"] = "Failed"
	}
	reason := map[bool]string{true: "Completed", false: "Error"}[code == 0]
	setContainer(pod, which, Object{"terminated": Object{"exitCode": code, "reason": reason, "message": message, "finishedAt": time.Now().UTC().Format(time.RFC3339)}})
	delete(p.s.pods, text(pod, "metadata", "uid"))
	_ = os.RemoveAll(p.dir)
	if replaced := p.ended(pod, code); p.deleted && !replaced {
		p.s.drop("pods", namespace, text(pod, "metadata", "name"))
	}
	p.s.reconcile()
}

func setContainer(pod Object, kind string, state Object) {
	names := map[string]string{"initContainers": "initContainerStatuses", "containers": "containerStatuses"}
	c := pod["spec"].(Object)[kind].([]any)[0].(Object)
	pod["status"].(Object)[names[kind]] = []any{Object{"name": c["name"], "state": state}}
}

// waitForVolumes waits until the ConfigMaps and Secrets of a pod are there, and fills the pod's
// folder with them. It reports false for a pod that is deleted meanwhile.
func (p *process) waitForVolumes(namespace string, pod Object) bool {
	for {
		p.s.mu.Lock()
		gone := p.deleted || p.s.closed
		err := p.fill(namespace, pod)
		p.s.mu.Unlock()
		if gone {
			return false
		}
		if err == nil {
			return true
		}
		<-time.After(5 * time.Millisecond)
	}
}

// refreshVolumes is what kubelets do with mounted ConfigMaps and Secrets that have changed: at
// once, where a real one may take 90 s. Under s.mu.
func (s *Server) refreshVolumes() {
	for key, pods := range s.objects {
		namespace, ok := strings.CutPrefix(key, "pods/")
		if !ok {
			continue
		}
		for _, pod := range pods {
			// A pod that is being deleted never sees a change.
			if p := s.pods[text(pod, "metadata", "uid")]; p != nil && !p.deleted {
				_ = p.fill(namespace, pod) // what is missing is waited for
			}
		}
	}
}

// fill writes the files of a pod's ConfigMaps and Secrets. Under s.mu.
func (p *process) fill(namespace string, pod Object) error {
	paths := map[string]string{}
	for _, kind := range []string{"initContainers", "containers"} {
		for _, m := range pod["spec"].(Object)[kind].([]any)[0].(Object)["volumeMounts"].([]any) {
			if m := m.(Object); text(m, "subPath") == "" {
				paths[text(m, "name")] = text(m, "mountPath")
			}
		}
	}
	for _, v := range pod["spec"].(Object)["volumes"].([]any) {
		v := v.(Object)
		dir := filepath.Join(p.dir, paths[text(v, "name")])
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		var sources []address
		if m, ok := v["configMap"].(Object); ok {
			sources = append(sources, address{resource: "configmaps", name: text(m, "name")})
		}
		if m, ok := v["secret"].(Object); ok {
			sources = append(sources, address{resource: "secrets", name: text(m, "secretName")})
		}
		if m, ok := v["projected"].(Object); ok {
			for _, src := range m["sources"].([]any) {
				sources = append(sources, address{resource: "configmaps", name: text(src.(Object), "configMap", "name")})
			}
		}
		for _, a := range sources {
			o := p.s.objects[a.resource+"/"+namespace][a.name]
			if o == nil {
				return fmt.Errorf("%s %q not found", a.resource, a.name)
			}
			if err := writeData(dir, a.resource, o); err != nil {
				return err
			}
		}
	}
	return os.MkdirAll(filepath.Join(p.dir, "dev"), 0o755)
}

// writeData writes the keys of an object as files, each of which changes at once.
func writeData(dir, resource string, o Object) error {
	for _, field := range []string{"data", "binaryData"} {
		data, _ := o[field].(Object)
		for key, v := range data {
			content := []byte(v.(string))
			if resource == "secrets" || field == "binaryData" {
				var err error
				if content, err = base64.StdEncoding.DecodeString(v.(string)); err != nil {
					return err
				}
			}
			path := filepath.Join(dir, key)
			if held, err := os.ReadFile(path); err == nil && string(held) == string(content) {
				continue
			} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			if err := os.WriteFile(path+".new", content, 0o644); err != nil {
				return err
			}
			if err := os.Rename(path+".new", path); err != nil {
				return err
			}
		}
	}
	return nil
}

// runContainer runs one container to its end, and gives its exit status and last words.
func (p *process) runContainer(o Object, kind string, c Object) (code int, message string) {
	var words []string
	for _, w := range c["command"].([]any) {
		words = append(words, p.inside(w.(string)))
	}
	if image := text(c, "image"); strings.HasPrefix(words[0], filepath.Join(p.dir, "drover-agent")) {
		words[0] = image // an image of the agent is named by the program
	}
	cmd := exec.Command(words[0], words[1:]...)
	cmd.Env = append(os.Environ(), pod.Root+"="+p.dir, "JOB_COMPLETION_INDEX="+text(o, "metadata", "annotations", annotationIndex))
	for _, e := range c["env"].([]any) {
		e := e.(Object)
		value := text(e, "value")
		if field := text(e, "valueFrom", "fieldRef", "fieldPath"); field != "" {
			_, name, _ := strings.Cut(field, "'")
			value = text(o, "metadata", "annotations", strings.TrimSuffix(name, "']"))
		}
		cmd.Env = append(cmd.Env, text(e, "name")+"="+value)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.s.mu.Lock()
	if p.deleted || p.s.closed {
		p.s.mu.Unlock()
		return 137, ""
	}
	err := cmd.Start()
	if err == nil {
		p.cmd = cmd
		setContainer(o, kind, Object{"running": Object{}})
		o["status"].(Object)["phase"] = map[string]string{"initContainers": "Pending", "containers": "Running"}[kind]
	}
	p.s.mu.Unlock()
	if err != nil {
		return 128, err.Error()
	}
	err = cmd.Wait()
	p.s.mu.Lock()
	p.cmd = nil
	p.s.mu.Unlock()
	text, _ := os.ReadFile(filepath.Join(p.dir, "dev", "termination-log")) // none: it left nothing
	if err == nil {
		return 0, string(text)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		return 128 + int(status.Signal()), string(text)
	}
	return status.ExitStatus(), string(text)
}

// inside names the paths of a pod as its process finds them.
func (p *process) inside(word string) string {
	for _, path := range []string{"/drover-parts", "/drover-agent", "/drover/"} {
		word = strings.ReplaceAll(word, path, "\x00"+path)
	}
	return strings.ReplaceAll(word, "\x00", p.dir)
}

// end is the deletion of a pod: SIGTERM, and SIGKILL after its grace. Under Server.mu.
func (p *process) end(pod Object) {
	if p.deleted {
		return
	}
	p.deleted = true
	grace := time.Duration(number(pod["spec"].(Object)["terminationGracePeriodSeconds"])) * time.Second
	if most := p.s.knobs.grace; most > 0 {
		grace = min(grace, most)
	}
	pod["metadata"].(Object)["deletionTimestamp"] = time.Now().Add(grace).UTC().Format(time.RFC3339)
	if p.cmd != nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
	}
	time.AfterFunc(grace, func() {
		p.s.mu.Lock()
		defer p.s.mu.Unlock()
		p.kill()
	})
}

// kill ends the processes of a pod at once. Under Server.mu.
func (p *process) kill() {
	p.deleted = true
	if p.cmd != nil {
		killTree(p.cmd.Process.Pid)
	}
}

// Kill ends process 1 of the pod of an index from outside, as a crash does, and the agent below it.
func (s *Server) Kill(job string, index int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pods := range s.objects {
		for name, o := range pods {
			p := s.pods[text(o, "metadata", "uid")]
			if p == nil || p.cmd == nil || !strings.HasPrefix(name, fmt.Sprintf("%s-%d-", job, index)) {
				continue
			}
			killTree(p.cmd.Process.Pid)
			return true
		}
	}
	return false
}

// killTree ends a process and its children, which are in sessions of their own, as the end of a
// container does.
func killTree(pid int) {
	children, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range children {
		stat, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var child, parent int
		rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
		var state string
		fmt.Sscanf(string(stat), "%d", &child)
		fmt.Sscanf(rest, "%s %d", &state, &parent)
		if parent == pid {
			_ = syscall.Kill(-child, syscall.SIGKILL)
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	}
	_ = syscall.Kill(pid, syscall.SIGKILL)
}
