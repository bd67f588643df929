package kubetest

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The annotations of the Job controller.
const (
	annotationIndex   = "batch.kubernetes.io/job-completion-index"
	annotationFailed  = "batch.kubernetes.io/job-index-failure-count"
	annotationIgnored = "batch.kubernetes.io/job-index-ignored-failure-count"
)

// reconcile is the Job controller and the scheduler: it starts the pods that are missing, and
// writes what the Jobs have come to. Under s.mu.
func (s *Server) reconcile() {
	if s.closed {
		return
	}
	s.collectGarbage()
	for key, jobs := range s.objects {
		if resource, namespace, _ := strings.Cut(key, "/"); resource == "jobs" {
			for _, j := range jobs {
				s.reconcileJob(namespace, j)
			}
		}
	}
	s.refreshVolumes()
}

// collectGarbage takes away what was made with owners that are gone by then.
func (s *Server) collectGarbage() {
	there := map[string]bool{}
	for _, held := range s.objects {
		for _, o := range held {
			there[text(o, "metadata", "uid")] = true
		}
	}
	for key, held := range s.objects {
		resource, namespace, _ := strings.Cut(key, "/")
		for name, o := range held {
			owners, _ := o["metadata"].(Object)["ownerReferences"].([]any)
			if len(owners) > 0 && !slices.ContainsFunc(owners, func(o any) bool { return there[text(o.(Object), "uid")] }) {
				s.drop(resource, namespace, name)
			}
		}
	}
}

// count is what became of the pods of one index.
type count struct {
	failed, ignored int
	active          bool
	done, given     bool // succeeded; given up
	next            time.Time
}

func (s *Server) reconcileJob(namespace string, j Object) {
	spec := j["spec"].(Object)
	completions, parallelism := number(spec["completions"]), number(spec["parallelism"])
	status, _ := j["status"].(Object)
	if status == nil {
		status = Object{}
		j["status"] = status
	}
	active := 0
	for _, p := range s.podsOf(namespace, j) {
		if phase := text(p, "status", "phase"); phase == "Pending" || phase == "Running" {
			active++
		}
	}
	var done, given []int
	for i := range completions {
		c := s.countOf(j, i)
		switch {
		case c.done:
			done = append(done, i)
		case c.given:
			given = append(given, i)
		case c.active || spec["suspend"] == true:
		case active >= parallelism:
		case time.Now().Before(c.next):
			time.AfterFunc(time.Until(c.next)+time.Millisecond, func() {
				s.mu.Lock()
				defer s.mu.Unlock()
				s.reconcile()
			})
		default:
			s.startPod(namespace, j, i, c)
			active++
		}
	}
	if parallelism == 0 || spec["suspend"] == true {
		for _, p := range s.podsOf(namespace, j) {
			if phase := text(p, "status", "phase"); phase == "Pending" || phase == "Running" {
				s.drop("pods", namespace, text(p, "metadata", "name"))
			}
		}
	}
	status["active"] = active
	status["completedIndexes"], status["failedIndexes"] = ranges(done), ranges(given)
	switch {
	case len(done) == completions:
		status["conditions"] = []Object{{"type": "Complete", "status": "True"}}
	case len(done)+len(given) == completions:
		status["conditions"] = []Object{{"type": "Failed", "status": "True", "reason": "FailedIndexes"}}
	}
}

// countOf is what became of the pods of an index.
func (s *Server) countOf(j Object, i int) *count {
	key := fmt.Sprintf("%s/%d", text(j, "metadata", "uid"), i)
	if s.counts[key] == nil {
		s.counts[key] = &count{}
	}
	return s.counts[key]
}

func (s *Server) podsOf(namespace string, j Object) (all []Object) {
	uid := text(j, "metadata", "uid")
	for _, p := range s.objects["pods/"+namespace] {
		owners, _ := p["metadata"].(Object)["ownerReferences"].([]any)
		if slices.ContainsFunc(owners, func(o any) bool { return text(o.(Object), "uid") == uid }) {
			all = append(all, p)
		}
	}
	return all
}

// startPod makes the pod of an index.
func (s *Server) startPod(namespace string, j Object, i int, c *count) {
	template := clone(j["spec"].(Object)["template"].(Object))
	meta := template["metadata"].(Object)
	name := fmt.Sprintf("%s-%d-%05d", text(j, "metadata", "name"), i, s.version)
	meta["name"] = name
	annotations, _ := meta["annotations"].(Object)
	if annotations == nil {
		annotations = Object{}
		meta["annotations"] = annotations
	}
	annotations[annotationIndex], annotations[annotationFailed] = strconv.Itoa(i), strconv.Itoa(c.failed)
	if c.ignored > 0 {
		annotations[annotationIgnored] = strconv.Itoa(c.ignored)
	}
	meta["labels"].(Object)[annotationIndex] = strconv.Itoa(i)
	meta["ownerReferences"] = []any{Object{"apiVersion": "batch/v1", "kind": "Job", "name": text(j, "metadata", "name"), "uid": text(j, "metadata", "uid")}}
	pod := Object{"metadata": meta, "spec": template["spec"], "status": Object{"phase": "Pending"}}
	s.dropReplaced(namespace, j, i)
	s.put("pods", namespace, pod)
	c.active = true
	if s.knobs.held {
		pod["status"].(Object)["conditions"] = []any{Object{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available: 1 Insufficient cpu."}}
		return
	}
	pod["spec"].(Object)["nodeName"] = "node-1"
	s.run(namespace, pod, func(o Object, code int) bool {
		s.judge(j, i, o, code)
		return !c.done && !c.given && s.objects["jobs/"+namespace][text(j, "metadata", "name")] != nil
	})
}

// dropReplaced takes away the deleted pods of an index. The Job controller keeps each until its
// replacement is there, because the next pod's counters are computed from those of the last one.
func (s *Server) dropReplaced(namespace string, j Object, i int) {
	for _, p := range s.podsOf(namespace, j) {
		if text(p, "metadata", "deletionTimestamp") != "" && text(p, "metadata", "labels", annotationIndex) == strconv.Itoa(i) {
			s.drop("pods", namespace, text(p, "metadata", "name"))
		}
	}
}

// judge is the failure policy: what the end of a pod means for its index. Under s.mu.
func (s *Server) judge(j Object, i int, pod Object, code int) {
	c := s.countOf(j, i)
	c.active, c.next = false, time.Now().Add(s.knobs.backoff)
	if code == 0 {
		c.done = true
		return
	}
	switch action(j, pod, code) {
	case "Ignore":
		c.ignored++
	case "FailIndex":
		c.given = true
	default:
		c.failed++
		if limit, ok := j["spec"].(Object)["backoffLimitPerIndex"]; ok && c.failed > number(limit) {
			c.given = true
		}
	}
}

// action is that of the first rule that applies.
func action(j, pod Object, code int) string {
	policy, _ := j["spec"].(Object)["podFailurePolicy"].(Object)
	rules, _ := policy["rules"].([]any)
	for _, r := range rules {
		rule := r.(Object)
		if conditions, ok := rule["onPodConditions"].([]any); ok && len(conditions) > 0 {
			if hasCondition(pod, text(conditions[0].(Object), "type")) {
				return text(rule, "action")
			}
			continue
		}
		codes := rule["onExitCodes"].(Object)
		values, _ := codes["values"].([]any)
		in := slices.ContainsFunc(values, func(v any) bool { return number(v) == code })
		if in == (text(codes, "operator") == "In") {
			return text(rule, "action")
		}
	}
	return "Count"
}

func hasCondition(pod Object, name string) bool {
	conditions, _ := pod["status"].(Object)["conditions"].([]any)
	return slices.ContainsFunc(conditions, func(c any) bool { return text(c.(Object), "type") == name })
}

// evict ends a pod as draining a node does.
func (s *Server) evict(a address) (Object, *Refusal) {
	o := s.objects["pods/"+a.namespace][a.name]
	if o == nil {
		return nil, notFound(a)
	}
	status := o["status"].(Object)
	conditions, _ := status["conditions"].([]any)
	status["conditions"] = append(conditions, Object{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"})
	s.drop("pods", a.namespace, a.name)
	return Object{"kind": "Status"}, nil
}

// Evict is the Eviction API for the newest pod of an index.
func (s *Server) Evict(job string, index int) *Refusal {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.reconcile()
	for key, pods := range s.objects {
		for name, p := range pods {
			if strings.HasPrefix(key, "pods/") && strings.HasPrefix(name, fmt.Sprintf("%s-%d-", job, index)) && s.pods[text(p, "metadata", "uid")] != nil {
				_, no := s.evict(address{"pods", strings.TrimPrefix(key, "pods/"), name, ""})
				return no
			}
		}
	}
	return &Refusal{Code: http.StatusNotFound}
}

// number is a number of JSON.
func number(v any) int {
	switch n := v.(type) {
	case float64:
		return int(n)
	case int:
		return n
	}
	return 0
}

// ranges writes sorted indexes as a Job's status does: "0-2,5".
func ranges(all []int) string {
	var parts []string
	for i := 0; i < len(all); {
		k := i
		for k+1 < len(all) && all[k+1] == all[k]+1 {
			k++
		}
		if k == i {
			parts = append(parts, strconv.Itoa(all[i]))
		} else {
			parts = append(parts, fmt.Sprintf("%d-%d", all[i], all[k]))
		}
		i = k + 1
	}
	return strings.Join(parts, ",")
}
