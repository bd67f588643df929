// Package ec2test is a fake of EC2 and Auto Scaling, with CloudFormation, Secrets Manager, ECR and Service Quotas beside them: one region of one
// account. It refuses parameters that it does not know, and what the API references exclude. A machine is a process tree of
// this machine that runs its real user data with a real shell, with a metadata service of its own; it sees no programs but a few tools, and stand-ins of
// shutdown, systemd and Docker, so that nothing of it reaches the machine below.
//
// What AWS does was taken from its documentation and never seen here; what this server does is no claim about AWS.
package ec2test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-run/drover/cloud/amazon/quota/quotatest"
	"github.com/drover-run/drover/cloud/amazon/registry/registrytest"
	"github.com/drover-run/drover/cloud/amazon/secret/secrettest"
	"github.com/drover-run/drover/driver/stack/stacktest"
)

// Region is that of the fake.
const Region = "eu-west-1"

// PlacementGroup is the one placement group of an account.
const PlacementGroup = "near"

// roleKey is the key of machines' credentials, where a test says none.
const roleKey = "ASIAROLE"

// Server is the fake.
type Server struct {
	Stacks *stacktest.Stacks    // of CloudFormation
	Images *registrytest.Server // of ECR
	Quotas *quotatest.Quotas
	http   *httptest.Server
	dir    string
	bin    string         // the programs that machines see
	all    sync.WaitGroup // processes
	docker []string       // variables that lead to a real Docker for machines; empty: the stand-in
	own    []string       // programs that give a machine files of its own; empty: it has those of the machine below
	role   [2]string      // key and secret of machines' credentials

	mu        sync.Mutex
	groups    map[string]*group
	templates map[string]*template
	machines  []*machine
	requests  map[string]int
	secrets   secrettest.Secrets
	ahead     time.Duration // of the virtual clock
	knobs     knobs
	over      bool // the test has ended
}

// knobs are how the server misbehaves.
type knobs struct {
	lose     map[string]int // so many answers of an operation are lost; -1: all
	throttle int            // so many requests are refused as too many
	refuse   string         // why no machine is launched; "": they are
	late     int            // so many lists of machines lack those that are new
	dead     bool           // machines run nothing
	denied   string         // an operation that the user may not do
	left     int            // requests until hook is called; 0: never
	hook     func()
}

// New starts a fake without groups; it ends with the test.
func New(t *testing.T) *Server {
	s := &Server{Stacks: stacktest.New(), Images: registrytest.New(t), Quotas: quotatest.New(nil, func(string) string { return "ec2" }), dir: t.TempDir(),
		groups: map[string]*group{}, templates: map[string]*template{}, requests: map[string]int{}, secrets: secrettest.Secrets{}, role: [2]string{roleKey, "of the role"}, knobs: knobs{lose: map[string]int{}}}
	var err error
	if s.bin, err = makeTools(s.dir); err != nil {
		t.Fatal(err)
	}
	s.http = httptest.NewServer(s)
	t.Cleanup(func() {
		s.mu.Lock()
		s.over = true
		for _, m := range s.machines {
			m.kill()
		}
		s.mu.Unlock()
		s.all.Wait()
		s.http.Close()
	})
	return s
}

// URL is the fake's address, for each of its services.
func (s *Server) URL() string { return s.http.URL }

// endpoints are the variables that name the fake's services.
func (s *Server) endpoints() (all []string) {
	for _, service := range []string{"EC2", "AUTO_SCALING", "SECRETS_MANAGER", "CLOUDFORMATION", "ECR", "SERVICE_QUOTAS"} {
		all = append(all, "AWS_ENDPOINT_URL_"+service+"="+s.http.URL)
	}
	return all
}

// Environ are the variables with which this machine reaches the fake.
func (s *Server) Environ() map[string]string {
	all := map[string]string{"AWS_REGION": Region, "AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "testtest", "AWS_EC2_METADATA_DISABLED": "true"}
	for _, v := range s.endpoints() {
		name, value, _ := strings.Cut(v, "=")
		all[name] = value
	}
	return all
}

func (s *Server) turn(change func(*knobs)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.knobs)
}

// Lose has so many requests for an operation be done, and their answers be lost; -1: all.
func (s *Server) Lose(operation string, n int) { s.turn(func(k *knobs) { k.lose[operation] = n }) }

// After calls hook when so many requests have been done, also those of machines.
func (s *Server) After(n int, hook func()) { s.turn(func(k *knobs) { k.left, k.hook = n, hook }) }

// Throttle refuses so many requests as too many.
func (s *Server) Throttle(n int) { s.turn(func(k *knobs) { k.throttle = n }) }

// Late has so many lists of machines lack those that were launched since.
func (s *Server) Late(n int) { s.turn(func(k *knobs) { k.late = n }) }

// BreakAMI has machines run nothing.
func (s *Server) BreakAMI() { s.turn(func(k *knobs) { k.dead = true }) }

// MendAMI has machines run their user data again.
func (s *Server) MendAMI() { s.turn(func(k *knobs) { k.dead = false }) }

// Deny has AWS refuse an operation to this user; "": none.
func (s *Server) Deny(operation string) { s.turn(func(k *knobs) { k.denied = operation }) }

// Refuse has no machine be launched, for a reason in AWS's words; "": they are again.
func (s *Server) Refuse(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.knobs.refuse = reason
	for _, g := range s.groups {
		s.reconcile(g)
	}
}

// Requests is how often an operation was asked for.
func (s *Server) Requests(operation string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[operation]
}

// Secrets is how many secrets there are.
func (s *Server) Secrets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.secrets)
}

// refusal is an answer that refuses a request.
type refusal struct{ code, text string }

func (r refusal) Error() string { return r.code + ": " + r.text }

func refuse(code, format string, args ...any) error {
	return refusal{code, fmt.Sprintf(format, args...)}
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body) // what is cut off is refused
	form, _ := url.ParseQuery(string(body) + "&" + r.URL.RawQuery)
	switch {
	case strings.HasPrefix(r.Header.Get("X-Amz-Target"), registrytest.Service):
		r.Body = io.NopCloser(bytes.NewReader(body))
		s.Images.ServeHTTP(w, r)
		return
	case quotatest.Asks(r):
		s.Quotas.Answer(w, body, false)
		return
	case form.Get("Version") != versionOfGroups && form.Get("Version") != versionOfMachines && secrettest.Operation(r) == "":
		s.Stacks.Answer(w, body)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if operation := secrettest.Operation(r); operation != "" {
		s.secrets.Answer(w, operation, body)
		return
	}
	operation := form.Get("Action")
	s.requests[operation]++
	out, err := s.answer(operation, form, r.Header.Get("Authorization"))
	if s.knobs.left--; s.knobs.left == 0 {
		s.all.Go(s.knobs.hook)
	}
	if n := s.knobs.lose[operation]; n != 0 {
		s.knobs.lose[operation] = max(n-1, -1)
		panic(http.ErrAbortHandler) // the connection ends without an answer
	}
	var no refusal
	switch {
	case errors.As(err, &no):
		status := http.StatusBadRequest
		if no.code == "AccessDenied" {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
		text := fmt.Sprintf("<Error><Code>%s</Code><Message>%s</Message></Error>", no.code, escape(no.text))
		if form.Get("Version") == versionOfMachines {
			fmt.Fprintf(w, "<Response><Errors>%s</Errors></Response>", text)
			return
		}
		fmt.Fprintf(w, "<ErrorResponse>%s</ErrorResponse>", text)
	case form.Get("Version") == versionOfMachines:
		fmt.Fprintf(w, "<%sResponse>%s</%sResponse>", operation, out, operation)
	default:
		fmt.Fprintf(w, "<%sResponse><%sResult>%s</%sResult></%sResponse>", operation, operation, out, operation, operation)
	}
}

func (s *Server) answer(operation string, form url.Values, signature string) (string, error) {
	switch {
	case s.knobs.throttle > 0:
		s.knobs.throttle--
		return "", refuse("Throttling", "Rate exceeded")
	case signature == "":
		return "", refuse("MissingAuthenticationToken", "Request is missing Authentication Token")
	case operation == s.knobs.denied, strings.Contains(signature, "Credential="+roleKey+"/") && operation != "TerminateInstanceInAutoScalingGroup" && operation != "PutScheduledUpdateGroupAction":
		return "", refuse("AccessDenied", "User is not authorized to perform: %s", operation)
	}
	do, known := operations[operation]
	if !known {
		return "", refuse("InvalidAction", "%s is not of this fake", operation)
	}
	for name := range form {
		if plain := number.ReplaceAllString(name, ""); plain != "Action" && plain != "Version" && !slices.Contains(strings.Fields(do.takes), plain) {
			return "", refuse("UnknownParameter", "The parameter %s is not recognized", name)
		}
	}
	return do.do(s, form)
}

// number is a place in a list, in the name of a parameter.
var number = regexp.MustCompile(`(\.member)?\.[0-9]+`)

const (
	versionOfGroups   = "2011-01-01"
	versionOfMachines = "2016-11-15"
)

// list gives the values of NAME.1, NAME.2 and so on, with a rest behind the number.
func list(form url.Values, name, rest string) (all []string) {
	for i := 1; form.Has(fmt.Sprint(name, ".", i, rest)); i++ {
		all = append(all, form.Get(fmt.Sprint(name, ".", i, rest)))
	}
	return all
}

// element is one element of XML, escaped.
func element(name, value string) string { return "<" + name + ">" + escape(value) + "</" + name + ">" }

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(s)
}

// credentials are what a machine's metadata service gives.
func (s *Server) credentials() string {
	text, _ := json.Marshal(map[string]string{"Code": "Success", "Type": "AWS-HMAC", "LastUpdated": "2026-11-29T00:00:00Z", "AccessKeyId": s.role[0], "SecretAccessKey": s.role[1], "Token": "", "Expiration": "2099-01-01T00:00:00Z"})
	return string(text)
}

// UseDocker gives machines a real Docker that listens at host, and credentials that a real store knows.
func (s *Server) UseDocker(t *testing.T, host, key, secret string) {
	t.Helper()
	path, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	s.docker, s.role = []string{"DOCKER=" + path, "DOCKER_HOST=" + host}, [2]string{key, secret}
}

// UseOwnFiles gives each machine the files of the machine below for its own, where an agent takes the whole machine, as with ec2/ami: what it changes
// is seen by no other. Machines have credentials that a real store knows. It needs root.
func (s *Server) UseOwnFiles(t *testing.T, key, secret string) {
	t.Helper()
	for _, tool := range []string{"unshare", "mount", "chroot"} {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Fatal(err)
		}
		s.own = append(s.own, path)
	}
	s.role = [2]string{key, secret}
}

// now is the virtual time. The caller holds mu.
func (s *Server) now() time.Time { return time.Now().Add(s.ahead) }

// Now is the virtual time.
func (s *Server) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now()
}

// Advance lets virtual time pass: scheduled actions that are due are carried out, and machines that ended an hour ago are forgotten.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ahead += d
	for _, g := range s.groups {
		if !g.endAt.IsZero() && !g.endAt.After(s.now()) {
			g.endAt, g.desired = time.Time{}, 0
			s.reconcile(g)
		}
	}
	s.machines = slices.DeleteFunc(s.machines, func(m *machine) bool { return m.state == "terminated" && s.now().Sub(m.ended) > time.Hour })
}
