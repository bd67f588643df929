package gcpbatchtest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver/gcpbatch/gcpbatchtest/discovery"
)

// services are those that the fake has, and has a discovery document of.
var services = []string{"batch", "secretmanager", "iam", "cloudresourcemanager", "serviceusage", "storage", "compute", "logging"}

// permissions are what the methods need; one that is not here needs none. Source: "Roles and permissions" of each service in IAM's reference, 2026-11. That
// cancel needs what delete does is assumed: there is no permission of its name.
var permissions = map[string]string{
	"batch.projects.locations.jobs.create":                "batch.jobs.create",
	"batch.projects.locations.jobs.get":                   "batch.jobs.get",
	"batch.projects.locations.jobs.list":                  "batch.jobs.list",
	"batch.projects.locations.jobs.cancel":                "batch.jobs.delete",
	"batch.projects.locations.jobs.delete":                "batch.jobs.delete",
	"batch.projects.locations.jobs.taskGroups.tasks.list": "batch.tasks.list",
	"compute.regions.get":                                 "compute.regions.get",
	"logging.entries.list":                                "logging.logEntries.list",
	"secretmanager.projects.secrets.create":               "secretmanager.secrets.create",
	"secretmanager.projects.secrets.delete":               "secretmanager.secrets.delete",
	"secretmanager.projects.secrets.addVersion":           "secretmanager.versions.add",
	"secretmanager.projects.secrets.setIamPolicy":         "secretmanager.secrets.setIamPolicy",
	"secretmanager.projects.secrets.versions.access":      "secretmanager.versions.access",
	"iam.projects.serviceAccounts.get":                    "iam.serviceAccounts.get",
	"iam.projects.serviceAccounts.create":                 "iam.serviceAccounts.create",
	"iam.projects.serviceAccounts.delete":                 "iam.serviceAccounts.delete",
	"cloudresourcemanager.projects.getIamPolicy":          "resourcemanager.projects.getIamPolicy",
	"cloudresourcemanager.projects.setIamPolicy":          "resourcemanager.projects.setIamPolicy",
	"storage.buckets.getIamPolicy":                        "storage.buckets.getIamPolicy",
	"storage.buckets.setIamPolicy":                        "storage.buckets.setIamPolicy",
	"serviceusage.services.batchEnable":                   "serviceusage.services.enable",
	"serviceusage.operations.get":                         "serviceusage.operations.get",
}

// answer serves a request of a service, and holds it and its answer to the service's discovery document.
func (s *Server) answer(service string, r *http.Request, body []byte) (any, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	api := s.apis[service]
	if api == nil {
		return nil, refuse(404, "NOT_FOUND", "the fake has no %s", service)
	}
	m, err := api.Find(r)
	if err == nil {
		err = api.CheckRequest(m, body)
	}
	if err != nil {
		s.t.Errorf("a request is not as Google's document says: %v", err)
		return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
	}
	if err := s.admit(m, r); err != nil {
		return nil, err
	}
	out, err := s.serve(service, r, body)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(out)
	if err == nil {
		err = api.CheckAnswer(m, text)
	}
	if err != nil {
		s.t.Errorf("an answer of the fake is not as Google's document says: %v", err)
	}
	return json.RawMessage(text), err
}

// serve does what a request asks for. The caller holds mu.
func (s *Server) serve(service string, r *http.Request, body []byte) (any, error) {
	switch service {
	case "batch":
		return s.batch(r, body)
	case "secretmanager":
		return s.secret(r, body)
	case "logging":
		return s.entries(body)
	case "compute":
		return s.region(r)
	}
	if strings.HasSuffix(r.URL.Path, ":testIamPermissions") {
		return s.held(body)
	}
	return s.IAM.serve(service, r, body)
}

// admit refuses a request that is not signed, one for which its account has no permission, and those that a knob refuses. It notes what was asked.
func (s *Server) admit(m discovery.Method, r *http.Request) error {
	who := map[string]string{"Bearer " + userToken: "user", "Bearer " + machineToken: "machine"}[r.Header.Get("Authorization")]
	s.requests[m.ID]++
	if call := who + " " + m.ID; !slices.Contains(s.calls, call) {
		s.calls = append(s.calls, call)
	}
	needed := permissions[m.ID]
	// machines have what reports, prints and pulls, and their own secret
	denied := who == "machine" && needed != "secretmanager.versions.access" || who == "user" && (slices.Contains(s.forbidden, needed) || needed == "secretmanager.versions.access")
	switch {
	case s.knobs.throttle > 0:
		s.knobs.throttle--
		return refuse(429, "RESOURCE_EXHAUSTED", "Quota exceeded for quota metric 'Mutate requests' and limit 'Mutate requests per minute' of service 'batch.googleapis.com'.")
	case s.knobs.denied != "" && strings.HasPrefix(m.ID, s.knobs.deniedOf):
		return refuse(403, "PERMISSION_DENIED", "%s", s.knobs.denied)
	case who == "":
		return refuse(401, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
	case denied:
		return refuse(403, "PERMISSION_DENIED", "Permission '%s' denied on resource (or it may not exist).", needed)
	}
	return nil
}

// held are the permissions that a user has of some.
func (s *Server) held(body []byte) (any, error) {
	var in struct{ Permissions []string }
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
	}
	have := slices.DeleteFunc(in.Permissions, func(p string) bool { return slices.Contains(s.forbidden, p) })
	if len(have) == 0 {
		return map[string]any{}, nil // Google leaves out what is empty
	}
	return map[string]any{"permissions": have}, nil
}

// Forbid takes a permission from the user, as batch.jobs.create; "": gives all back.
func (s *Server) Forbid(permission string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forbidden = append(s.forbidden, permission); permission == "" {
		s.forbidden = nil
	}
}

// Calls are the methods that were asked for, each once, as "user batch.projects.locations.jobs.get" or "machine ...".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Permission is what a method needs of its caller; "": nothing.
func Permission(method string) string { return permissions[method] }

// Requests is how many requests there were of methods with names that end so, as jobs.create; "": of all.
func (s *Server) Requests(method string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, count := range s.requests {
		if strings.HasSuffix(id, method) {
			n += count
		}
	}
	return n
}
