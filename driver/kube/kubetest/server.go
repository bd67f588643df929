// Package kubetest is a fake of Kubernetes, for tests without a cluster: an API server, a Job
// controller and a kubelet in one process, with pods that are processes of this machine.
//
// It does what the driver relies on: names that are made once, labels, pages of lists, patches
// with a resourceVersion, owners, indexes with their counters, failure policies, quotas, evictions.
// What a real cluster does was recorded from one, and the same suite of the driver runs over both.
// It refuses what it does not know. Not every check of a real API server is here: what this fake
// accepts a real one may refuse.
package kubetest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Object is an object as JSON has it.
type Object = map[string]any

// Server is a fake cluster.
type Server struct {
	http *httptest.Server
	dir  string // of the pods

	mu      sync.Mutex
	objects map[string]map[string]Object // by "resource/namespace", then by name
	version int
	pods    map[string]*process // by uid, those that run
	counts  map[string]*count   // by the Job's uid and the index
	closed  bool
	running sync.WaitGroup
	knobs   knobs
}

// knobs are under Server.mu.
type knobs struct {
	backoff    time.Duration                          // before a pod is started in the place of another
	loseAnswer func(method, resource string) bool     // the request happens, its answer is lost
	refuse     func(method, resource string) *Refusal // instead of doing it; nil: it is done
	asked      func(method, resource, name string)    // each request
	grace      time.Duration                          // the most that a deleted pod gets; 0: what it asks for
	warnings   []string                               // of each object that is made or tried out
	old        bool                                   // it knows no back-off for each index
	held       bool                                   // pods are not scheduled
	denied     map[string]bool                        // what the user may not, as "patch pods"
	expired    bool                                   // the next look of a watch is told so
}

// Refusal is an answer that is no success.
type Refusal struct {
	Code    int
	Reason  string
	Message string
	After   int // seconds, of Retry-After; 0: none
}

// New starts a fake cluster with one node and the namespace train; it ends with the test.
func New(t *testing.T) *Server {
	s := &Server{dir: t.TempDir(), objects: map[string]map[string]Object{}, pods: map[string]*process{}, counts: map[string]*count{}, knobs: knobs{backoff: 50 * time.Millisecond}}
	s.http = httptest.NewServer(s)
	t.Cleanup(s.close)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put("nodes", "", Object{"metadata": Object{"name": "node-1", "labels": Object{"kubernetes.io/hostname": "node-1", "kubernetes.io/arch": "amd64", "node.kubernetes.io/instance-type": "m5.2xlarge"}},
		"status": Object{"allocatable": Object{"cpu": "8", "memory": "32Gi"}}})
	return s
}

// Kubeconfig writes a kubeconfig for the cluster into a file, and gives its path.
func (s *Server) Kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"fake",
"clusters":[{"name":"fake","cluster":{"server":%q}}],"users":[{"name":"ann","user":{"token":"of-ann"}}],
"contexts":[{"name":"fake","context":{"cluster":"fake","user":"ann","namespace":"train"}}]}`, s.http.URL)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// URL is the address of the API server.
func (s *Server) URL() string { return s.http.URL }

// turn changes the knobs.
func (s *Server) turn(change func(*knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.knobs)
}

// Refuse has each request answered by refuse, where that gives a refusal.
func (s *Server) Refuse(refuse func(method, resource string) *Refusal) {
	s.turn(func(k *knobs) { k.refuse = refuse })
}

// LoseAnswers has requests happen without an answer, for which lose is true.
func (s *Server) LoseAnswers(lose func(method, resource string) bool) {
	s.turn(func(k *knobs) { k.loseAnswer = lose })
}

// Watch has each request told.
func (s *Server) Watch(asked func(method, resource, name string)) {
	s.turn(func(k *knobs) { k.asked = asked })
}

// BackOff has another pod started this long after the end of one.
func (s *Server) BackOff(d time.Duration) { s.turn(func(k *knobs) { k.backoff = d }) }

// ShortenGraces has deleted pods killed after this time at most.
func (s *Server) ShortenGraces(most time.Duration) { s.turn(func(k *knobs) { k.grace = most }) }

// Warn has the server warn of each object that is made or tried out.
func (s *Server) Warn(warnings ...string) { s.turn(func(k *knobs) { k.warnings = warnings }) }

// Age makes it a server of Kubernetes 1.28, which drops what it does not know.
func (s *Server) Age() { s.turn(func(k *knobs) { k.old = true }) }

// Hold keeps pods from being scheduled.
func (s *Server) Hold() { s.turn(func(k *knobs) { k.held = true }) }

// Deny takes a right away, such as to patch pods.
func (s *Server) Deny(verb, resource string) {
	s.turn(func(k *knobs) {
		k.denied = maps.Clone(k.denied)
		if k.denied == nil {
			k.denied = map[string]bool{}
		}
		k.denied[verb+" "+resource] = true
	})
}

// verbOf is what a request does, as a Role names it.
func verbOf(r *http.Request, a address) string {
	verb := map[string]string{http.MethodPost: "create", http.MethodPatch: "patch", http.MethodDelete: "delete"}[r.Method]
	switch {
	case verb != "":
		return verb
	case r.URL.Query().Get("watch") != "":
		return "watch"
	case a.name == "":
		return "list"
	}
	return "get"
}

// rules are what the user may do, as the API server tells it.
func (s *Server) rules() Object {
	all := []any{}
	for group, resources := range map[string][]string{"batch": {"jobs"}, "": {"pods", "pods/exec", "configmaps", "secrets", "events", "resourcequotas", "limitranges"}} {
		for _, resource := range resources {
			var verbs []string
			for _, verb := range []string{"create", "get", "list", "watch", "patch", "delete"} {
				if !s.knobs.denied[verb+" "+resource] {
					verbs = append(verbs, verb)
				}
			}
			all = append(all, Object{"apiGroups": []string{group}, "resources": []string{resource}, "verbs": verbs})
		}
	}
	return Object{"status": Object{"resourceRules": all}}
}

// Objects are all objects of a resource, whatever their namespace.
func (s *Server) Objects(resource string) (all []Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, held := range s.objects {
		if strings.HasPrefix(key, resource+"/") {
			for _, o := range held {
				all = append(all, clone(o))
			}
		}
	}
	return all
}

// Put makes an object, or replaces it.
func (s *Server) Put(resource, namespace string, o Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(resource, namespace, o)
	s.reconcile()
}

// Remove deletes an object, and what it owns.
func (s *Server) Remove(resource, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(resource, namespace, name)
}

func (s *Server) close() {
	s.mu.Lock()
	s.closed = true
	for _, p := range s.pods {
		p.kill()
	}
	s.mu.Unlock()
	s.running.Wait()
	s.http.Close()
}

// address is what a request is about.
type address struct{ resource, namespace, name, sub string }

func parse(path string) address {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	switch {
	case len(parts) > 2 && parts[0] == "apis":
		parts = parts[3:]
	case len(parts) > 1 && parts[0] == "api":
		parts = parts[2:]
	}
	var a address
	if len(parts) > 2 && parts[0] == "namespaces" {
		a.namespace, parts = parts[1], parts[2:]
	}
	parts = append(parts, "", "", "")
	a.resource, a.name, a.sub = parts[0], parts[1], parts[2]
	return a
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a := parse(r.URL.Path)
	s.mu.Lock()
	k := s.knobs
	s.mu.Unlock()
	if k.asked != nil {
		k.asked(r.Method, a.resource, a.name)
	}
	if k.refuse != nil {
		if no := k.refuse(r.Method, a.resource); no != nil {
			answer(w, nil, no)
			return
		}
	}
	if r.URL.Query().Get("watch") != "" && !k.denied["watch "+a.resource] {
		s.watch(w, r, a)
		return
	}
	s.mu.Lock()
	o, no := s.handle(r, a)
	if no == nil {
		s.reconcile()
	}
	s.mu.Unlock()
	if k.loseAnswer != nil && k.loseAnswer(r.Method, a.resource) {
		panic(http.ErrAbortHandler)
	}
	answer(w, o, no)
}

func answer(w http.ResponseWriter, o Object, no *Refusal) {
	w.Header().Set("Content-Type", "application/json")
	if all, ok := o[warnings].([]string); ok {
		for _, text := range all {
			w.Header().Add("Warning", "299 - "+strconv.Quote(text))
		}
		delete(o, warnings)
	}
	if no != nil {
		if no.After > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(no.After))
		}
		w.WriteHeader(no.Code)
		o = Object{"kind": "Status", "reason": no.Reason, "message": no.Message}
	}
	_ = json.NewEncoder(w).Encode(o)
}

func notFound(a address) *Refusal {
	return &Refusal{Code: http.StatusNotFound, Reason: "NotFound", Message: fmt.Sprintf("%s %q not found", a.resource, a.name)}
}

func conflict(a address) *Refusal {
	return &Refusal{Code: http.StatusConflict, Reason: "AlreadyExists", Message: fmt.Sprintf("%s %q already exists", a.resource, a.name)}
}

// handle does what a request asks. Under s.mu.
func (s *Server) handle(r *http.Request, a address) (Object, *Refusal) {
	var body Object
	if r.Body != nil && r.Method != http.MethodGet {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil && r.ContentLength != 0 {
			return nil, &Refusal{Code: http.StatusBadRequest, Reason: "BadRequest", Message: err.Error()}
		}
	}
	if verb := verbOf(r, a); s.knobs.denied[verb+" "+a.resource] {
		return nil, &Refusal{Code: http.StatusForbidden, Reason: "Forbidden", Message: fmt.Sprintf(`%s is forbidden: User "ann" cannot %s resource %q`, a.resource, verb, a.resource)}
	}
	switch {
	case a.resource == "selfsubjectrulesreviews":
		return s.rules(), nil
	case a.sub == "eviction":
		return s.evict(a)
	case r.Method == http.MethodPost:
		return s.create(a, body, r.URL.Query().Get("dryRun") != "")
	case r.Method == http.MethodPatch:
		return s.patch(a, body, r.Header.Get("Content-Type"))
	case r.Method == http.MethodDelete:
		return s.remove(a, body)
	case a.resource == "localqueues" && s.objects["localqueues/"+a.namespace] == nil: // no Kueue
		return nil, &Refusal{Code: http.StatusNotFound, Reason: "NotFound", Message: "the server could not find the requested resource"}
	case a.name != "":
		o := s.objects[a.resource+"/"+a.namespace][a.name]
		if o == nil {
			return nil, notFound(a)
		}
		return clone(o), nil
	}
	return s.list(a, r.URL.Query().Get("labelSelector"), r.URL.Query().Get("limit"), r.URL.Query().Get("continue"))
}

// list gives a page, in the order of names.
func (s *Server) list(a address, selector, limit, after string) (Object, *Refusal) {
	held := s.objects[a.resource+"/"+a.namespace]
	var names []string
	for name, o := range held {
		if name > after && selected(o, selector) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	meta, items := Object{}, []Object{}
	for _, name := range names {
		items = append(items, clone(held[name]))
	}
	meta["resourceVersion"] = versionOf(items)
	if n, _ := strconv.Atoi(limit); n > 0 && len(names) > n {
		items = items[:n]
		meta["continue"] = names[n-1]
	}
	return Object{"metadata": meta, "items": items}, nil
}

func selected(o Object, selector string) bool {
	for _, part := range strings.Split(selector, ",") {
		key, value, ok := strings.Cut(part, "=")
		if ok && text(o, "metadata", "labels", key) != value {
			return false
		}
	}
	return true
}

// create makes an object, unless it is a trial.
func (s *Server) create(a address, o Object, trial bool) (Object, *Refusal) {
	a.name = text(o, "metadata", "name")
	if a.namespace != theNamespace {
		return nil, &Refusal{Code: http.StatusNotFound, Reason: "NotFound", Message: fmt.Sprintf("namespaces %q not found", a.namespace)}
	}
	if s.objects[a.resource+"/"+a.namespace][a.name] != nil {
		return nil, conflict(a)
	}
	if s.knobs.old && a.resource == "jobs" {
		delete(o["spec"].(Object), "backoffLimitPerIndex")
	}
	if !trial {
		s.put(a.resource, a.namespace, o)
	}
	o = clone(o)
	o[warnings] = s.knobs.warnings
	return o, nil
}

// theNamespace is the only one.
const theNamespace = "train"

// warnings is the key under which an answer has what goes into its headers.
const warnings = "_warnings"

// put stores an object, with what an API server adds to it.
func (s *Server) put(resource, namespace string, o Object) {
	s.version++
	meta := o["metadata"].(Object)
	if text(meta, "uid") == "" {
		meta["uid"] = fmt.Sprintf("uid-%d", s.version)
		meta["creationTimestamp"] = time.Now().UTC().Format(time.RFC3339)
	}
	meta["resourceVersion"] = strconv.Itoa(s.version)
	if namespace != "" {
		meta["namespace"] = namespace
	}
	key := resource + "/" + namespace
	if s.objects[key] == nil {
		s.objects[key] = map[string]Object{}
	}
	s.objects[key][text(meta, "name")] = o
}

// patch changes an object by a merge patch. A strategic one adds owners to those that there are.
func (s *Server) patch(a address, change Object, kind string) (Object, *Refusal) {
	o := s.objects[a.resource+"/"+a.namespace][a.name]
	if o == nil {
		return nil, notFound(a)
	}
	if want := text(change, "metadata", "resourceVersion"); want != "" && want != text(o, "metadata", "resourceVersion") {
		return nil, &Refusal{Code: http.StatusConflict, Reason: "Conflict", Message: "the object has been modified"}
	}
	if o["immutable"] == true && change["data"] != nil {
		return nil, &Refusal{Code: http.StatusUnprocessableEntity, Reason: "Invalid", Message: "field is immutable when `immutable` is set"}
	}
	if strings.Contains(kind, "strategic") {
		mine, _ := o["metadata"].(Object)["ownerReferences"].([]any)
		more, _ := change["metadata"].(Object)["ownerReferences"].([]any)
		for _, owner := range more {
			if !slices.ContainsFunc(mine, func(m any) bool { return text(m.(Object), "uid") == text(owner.(Object), "uid") }) {
				mine = append(mine, owner)
			}
		}
		change = Object{"metadata": Object{"ownerReferences": mine}}
	}
	merge(o, change)
	s.put(a.resource, a.namespace, o)
	return clone(o), nil
}

// remove deletes an object, and in the background what it owns alone.
func (s *Server) remove(a address, options Object) (Object, *Refusal) {
	o := s.objects[a.resource+"/"+a.namespace][a.name]
	if o == nil {
		return nil, notFound(a)
	}
	if want := text(options, "preconditions", "uid"); want != "" && want != text(o, "metadata", "uid") {
		return nil, &Refusal{Code: http.StatusConflict, Reason: "Conflict", Message: "the UID in the precondition does not match"}
	}
	s.drop(a.resource, a.namespace, a.name)
	return Object{"kind": "Status"}, nil
}

// drop takes an object away. A pod that runs goes once its process has ended.
func (s *Server) drop(resource, namespace, name string) {
	o := s.objects[resource+"/"+namespace][name]
	if resource == "pods" {
		if p := s.pods[text(o, "metadata", "uid")]; p != nil {
			p.end(o)
			return
		}
	}
	delete(s.objects[resource+"/"+namespace], name)
	uid := text(o, "metadata", "uid")
	for key, held := range s.objects {
		for child, c := range held {
			owners, _ := c["metadata"].(Object)["ownerReferences"].([]any)
			left := slices.DeleteFunc(slices.Clone(owners), func(m any) bool { return text(m.(Object), "uid") == uid })
			if len(left) == len(owners) {
				continue
			}
			if len(left) > 0 {
				c["metadata"].(Object)["ownerReferences"] = left
				continue
			}
			resource, namespace, _ := strings.Cut(key, "/")
			s.drop(resource, namespace, child)
		}
	}
}

// merge is a merge patch: null takes a field away.
func merge(o, change Object) {
	for k, v := range change {
		inner, isObject := v.(Object)
		held, wasObject := o[k].(Object)
		switch {
		case v == nil:
			delete(o, k)
		case isObject && wasObject:
			merge(held, inner)
		default:
			o[k] = v
		}
	}
}

// text is the text at a path of an object; "" if there is none.
func text(o Object, path ...string) string {
	for i, part := range path {
		if i == len(path)-1 {
			v, _ := o[part].(string)
			return v
		}
		next, ok := o[part].(Object)
		if !ok {
			return ""
		}
		o = next
	}
	return ""
}

func clone(o Object) (c Object) {
	b, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(b, &c)
	}
	if err != nil {
		panic(err) // it came from JSON
	}
	return c
}
