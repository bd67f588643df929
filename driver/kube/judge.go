package kube

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	xterm "golang.org/x/term"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/pod"
	"github.com/drover-run/drover/driver/kube/words"
	"github.com/drover-run/drover/fault"
)

// terminal says whether a person is at this process.
func terminal() bool {
	return xterm.IsTerminal(int(os.Stdin.Fd())) && xterm.IsTerminal(int(os.Stdout.Fd()))
}

// judge gives the state of one pod's agent.
func (v view) judge(p api.Pod) driver.Member {
	m := driver.Member{Code: -1, Where: p.Metadata.Name}
	if p.Spec.NodeName != "" {
		m.Where = p.Spec.NodeName
	}
	agent, prepare := containerOf(p.Status.ContainerStatuses, agentContainer), containerOf(p.Status.InitContainerStatuses, initContainer)
	taken, isTaken := api.Find(p.Status.Conditions, conditionTaken)
	deleted := !p.Metadata.DeletionTimestamp.IsZero()
	switch t := agent.State.Terminated; {
	case t != nil:
		return v.judgeEnd(m, *t, taken, isTaken, deleted)
	case p.Status.Phase == "Failed" || p.Status.Phase == "Succeeded":
		return v.judgeUnbegun(m, p, prepare, taken, isTaken)
	case deleted && time.Now().After(p.Metadata.DeletionTimestamp): // the end of its grace
		m.State, m.Reason = driver.Taken, fmt.Sprintf("node %s is silent since %s", p.Spec.NodeName, p.Metadata.DeletionTimestamp.Local().Format("15:04"))
		return m
	case agent.State.Running != nil:
		m.State = driver.Running
		if deleted {
			m.Reason = "its pod is to go"
		}
		return m
	}
	if v.stop {
		m.State, m.Reason = driver.Ended, "stopped before it began"
		return m
	}
	if v.gaveUp() != "" {
		m.State, m.Reason, m.Hint = driver.Ended, v.neverUp().Reason, v.neverUp().Hint
		return m
	}
	w := waitsFor(p, v.events)
	m.State, m.Reason, m.Hint = driver.Waiting, w.reason, w.hint
	return m
}

// judgeEnd is judge for an agent that has begun and ended.
func (v view) judgeEnd(m driver.Member, t api.Terminated, taken api.Condition, isTaken, deleted bool) driver.Member {
	said, ok := pod.ReadMessage(t.Message)
	if m.Tail = said.Tail; !ok {
		m.Tail = t.Message // what the container wrote last
	}
	switch {
	case ok && said.Stopped:
		m.State, m.Code, m.Reason = driver.Ended, said.Code, said.Reason
		if !said.Unbegun {
			m.Reason = "stopped: " + said.Reason
		}
	case isTaken:
		m.State, m.Reason = driver.Taken, takenWords(taken)
	case t.Reason == "OOMKilled":
		m.State, m.Reason, m.Hint = driver.Lost, "the pod needed more memory than its limit", "Ask for more: --memory."
	case t.Reason == "StartError" || t.ExitCode == 128 && !ok:
		m.State, m.Reason = driver.Ended, "never came up: "+words.OneLine(t.Message)
	case ok && said.Lost:
		m.State, m.Reason = driver.Lost, "its agent died without reporting why, or was killed: "+said.Reason
	case ok && said.Warned && said.Code == fault.ExitLater:
		m.State, m.Code, m.Reason = driver.Taken, said.Code, "its pod was deleted"
	case ok:
		m.State, m.Code, m.Reason = driver.Ended, said.Code, said.Reason
	case deleted || t.ExitCode >= 128:
		m.State, m.Reason = driver.Lost, fmt.Sprintf("it died without reporting why, or was killed: exit status %d", t.ExitCode)
	default:
		m.State, m.Code, m.Reason = driver.Ended, t.ExitCode, fmt.Sprintf("exit status %d", t.ExitCode)
	}
	return m
}

// judgeUnbegun is judge for a pod that ended before its agent had begun.
func (v view) judgeUnbegun(m driver.Member, p api.Pod, prepare api.Container, taken api.Condition, isTaken bool) driver.Member {
	t := prepare.State.Terminated
	switch {
	case v.stop:
		m.State, m.Reason = driver.Ended, "stopped before it began"
	case isTaken:
		m.State, m.Reason = driver.Taken, takenWords(taken)
	case p.Status.Reason == "Evicted":
		m.State, m.Reason, m.Hint = driver.Lost, words.OneLine(p.Status.Message), "Ask for more: --disk."
	case t != nil && t.ExitCode != 0:
		m.State, m.Code, m.Reason, m.Tail = driver.Ended, t.ExitCode, fmt.Sprintf("never came up: its pod could not be prepared: exit status %d", t.ExitCode), t.Message
		if t.Message != "" {
			m.Reason += ": " + words.OneLine(t.Message)
		}
	default:
		m.State, m.Reason = driver.Lost, strings.TrimSuffix("its pod ended before the agent had started: "+words.OneLine(p.Status.Message), ": ")
	}
	return m
}

// takenWords say why Kubernetes has ended a pod.
func takenWords(c api.Condition) string {
	why := map[string]string{
		"EvictionByEvictionAPI": "it was evicted", "DeletionByTaintManager": "its node was tainted",
		"PreemptionByScheduler": "a pod of higher priority took its place", "TerminationByKubelet": "its node ended it", "DeletionByPodGC": "its node is gone",
	}[c.Reason]
	if why == "" {
		why = c.Reason
	}
	if c.Message == "" {
		return "Kubernetes took it: " + why
	}
	return "Kubernetes took it: " + why + ": " + words.OneLine(c.Message)
}

func containerOf(all []api.Container, name string) api.Container {
	i := slices.IndexFunc(all, func(c api.Container) bool { return c.Name == name })
	if i < 0 {
		return api.Container{}
	}
	return all[i]
}

// wait is what something waits for.
type wait struct {
	reason, hint string // in Kubernetes' own words, and what to do about it
	// stuck says that it takes a person: Kubernetes tries again for ever, and nothing changes by
	// itself
	stuck bool
}

// stuck is a wait for a person.
func stuck(text string) wait {
	reason, hint := words.Explain(text)
	return wait{reason, hint, !strings.Contains(text, "exceeded quota")}
}

// startsOn are the words for a pod that has a node, and nothing more to tell.
func startsOn(p api.Pod) string { return "its pod starts on " + p.Spec.NodeName }

// waitsFor says what a pod waits for. events are those of a pod that says nothing itself.
func waitsFor(p api.Pod, events []api.Event) wait {
	for _, c := range p.Status.Conditions {
		if c.Type == "PodScheduled" && c.Status == "False" && c.Message != "" {
			reason, hint := words.Explain(c.Message)
			return wait{reason: reason, hint: hint}
		}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := c.State.Waiting; w != nil && w.Reason != "PodInitializing" && w.Reason != "ContainerCreating" {
			return stuck(waitingWords(w.Reason, w.Message))
		}
	}
	if e := newestStep(p, events); strings.HasPrefix(e.Reason, "Failed") {
		return stuck(e.Message)
	} else if e.Reason == "Pulling" {
		return wait{reason: words.OneLine(e.Message)}
	}
	if p.Spec.NodeName != "" {
		return wait{reason: startsOn(p)}
	}
	return wait{reason: "its pod has no node yet"}
}

// newestStep is the last step of a pod's start that its events tell, or its failure: each pod fails
// to mount for a moment what is made after its Job.
func newestStep(p api.Pod, events []api.Event) (newest api.Event) {
	for _, e := range events {
		isStep := strings.HasPrefix(e.Reason, "Failed") || slices.Contains([]string{"Pulling", "Pulled", "Created", "Started"}, e.Reason)
		if isStep && e.About.Name == p.Metadata.Name && !e.Last.Before(newest.Last) {
			newest = e
		}
	}
	return newest
}

// waitingWords say why a container does not start. Kubernetes calls an image that cannot be pulled
// by turns by two names.
func waitingWords(reason, message string) string {
	if reason == "ErrImagePull" || reason == "ImagePullBackOff" {
		if i := strings.LastIndex(message, "ErrImagePull: "); i >= 0 {
			message = message[i+len("ErrImagePull: "):]
		}
		return "the image cannot be pulled: " + message
	}
	return strings.TrimSuffix(reason+": "+message, ": ")
}
