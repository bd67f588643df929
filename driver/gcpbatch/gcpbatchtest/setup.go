package gcpbatchtest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver/gcpbatch/batchapi"
)

// policy is what is granted on the project or a bucket.
type policy struct {
	Version      int             `json:"version"`
	Bindings     []binding       `json:"bindings,omitempty"`
	Etag         string          `json:"etag"`
	AuditConfigs json.RawMessage `json:"auditConfigs,omitempty"`
}

type binding struct {
	Role      string     `json:"role"`
	Members   []string   `json:"members"`
	Condition *condition `json:"condition,omitempty"`
}

type condition struct {
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Expression  string `json:"expression"`
}

// accountOf is the service account of a job's machines.
func accountOf(in batchapi.Job) string {
	if in.AllocationPolicy.ServiceAccount == nil {
		return ""
	}
	return in.AllocationPolicy.ServiceAccount.Email
}

var (
	accountPath = regexp.MustCompile(`^/v1/projects/` + Project + `/serviceAccounts(?:/(.+))?$`)
	accountForm = regexp.MustCompile(`^[a-z][a-z0-9-]{4,28}[a-z0-9]$`)
	bucketPath  = regexp.MustCompile(`^/storage/v1/b/([^/]+)/iam$`)
)

// setup serves what a set-up needs beside Google Batch: service accounts, policies, and the enabling of interfaces. The caller holds mu.
func (s *Server) setup(service string, r *http.Request, body []byte) (any, error) {
	account, bucket := accountPath.FindStringSubmatch(r.URL.Path), bucketPath.FindStringSubmatch(r.URL.Path)
	changes := r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, ":getIamPolicy") && !strings.HasSuffix(r.URL.Path, ":testIamPermissions") && service != "serviceusage"
	if changes && s.knobs.changes == 0 {
		return nil, refuse(403, "PERMISSION_DENIED", "no more changes")
	}
	if changes && s.knobs.changes > 0 {
		s.knobs.changes--
	}
	switch project := "/v1/projects/" + Project; {
	case service == "serviceusage" && r.URL.Path == project+"/services:batchEnable":
		var in struct{ ServiceIds []string }
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
		}
		for _, id := range in.ServiceIds {
			s.enabled[id] = true
		}
		return map[string]any{"name": "operations/enable", "done": false}, nil
	case service == "serviceusage" && r.URL.Path == "/v1/operations/enable":
		return map[string]any{"name": "operations/enable", "done": true}, nil
	case service == "iam" && account != nil:
		return s.account(r, account[1], body)
	case service == "cloudresourcemanager" && r.URL.Path == project+":getIamPolicy":
		return s.policy(service), nil
	case service == "cloudresourcemanager" && r.URL.Path == project+":testIamPermissions":
		return s.held(body)
	case service == "cloudresourcemanager" && r.URL.Path == project+":setIamPolicy":
		var in struct{ Policy policy }
		return s.set(service, body, &in, &in.Policy)
	case service == "storage" && bucket != nil && r.Method == http.MethodGet:
		return s.policy(bucket[1]), nil
	case service == "storage" && bucket != nil && r.Method == http.MethodPut:
		var in policy
		return s.set(bucket[1], body, &in, &in)
	}
	return nil, refuse(404, "NOT_FOUND", "the fake has no %s of %s", r.URL.Path, service)
}

// account serves service accounts.
func (s *Server) account(r *http.Request, email string, body []byte) (any, error) {
	words, there := s.accounts[email]
	switch {
	case r.Method == http.MethodPost && email == "":
		var in struct {
			AccountID      string `json:"accountId"`
			ServiceAccount struct{ DisplayName, Description string }
		}
		if err := json.Unmarshal(body, &in); err != nil || !accountForm.MatchString(in.AccountID) || len(in.ServiceAccount.Description) > 256 {
			return nil, refuse(400, "INVALID_ARGUMENT", "account %q: %v", in.AccountID, err)
		}
		email = in.AccountID + "@" + Project + ".iam.gserviceaccount.com"
		if _, there := s.accounts[email]; there {
			return nil, refuse(409, "ALREADY_EXISTS", "Service account %s already exists within project projects/%s.", in.AccountID, Project)
		}
		s.accounts[email] = in.ServiceAccount.Description
	case !there:
		return nil, refuse(404, "NOT_FOUND", "Unknown service account")
	case r.Method == http.MethodDelete:
		delete(s.accounts, email)
		return map[string]any{}, nil
	default:
		return map[string]any{"email": email, "description": words}, nil
	}
	return map[string]any{"email": email}, nil
}

// policy is that of the project or a bucket: at first with what others have there.
func (s *Server) policy(of string) *policy {
	if s.policies[of] == nil {
		s.policies[of] = &policy{Version: 1, Etag: nextEtag(""), Bindings: []binding{{Role: "roles/owner", Members: []string{"user:owner@example.com"}}}}
		if of == "cloudresourcemanager" {
			s.policies[of].AuditConfigs = json.RawMessage(`[{"service":"allServices"}]`)
		}
	}
	return s.policies[of]
}

// set replaces a policy that has not changed since it was read.
func (s *Server) set(of string, body []byte, in any, p *policy) (any, error) {
	if err := json.Unmarshal(body, in); err != nil {
		return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
	}
	was := s.policy(of)
	conditional := slices.ContainsFunc(p.Bindings, func(b binding) bool { return b.Condition != nil })
	switch {
	case p.Etag != was.Etag:
		return nil, refuse(409, "ABORTED", "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff.")
	case conditional && p.Version != 3:
		return nil, refuse(400, "INVALID_ARGUMENT", "The specified policy version does not know conditions.")
	}
	for _, b := range p.Bindings {
		for _, m := range b.Members {
			if email, ours := strings.CutPrefix(m, "serviceAccount:"); ours && s.accounts[email] == "" {
				return nil, refuse(400, "INVALID_ARGUMENT", "Service account %s does not exist.", email)
			}
		}
	}
	p.Etag = nextEtag(was.Etag)
	s.policies[of] = p
	return p, nil
}

// nextEtag is that of a policy after another change: base64, as Google's are.
func nextEtag(etag string) string {
	text, _ := base64.StdEncoding.DecodeString(etag) // "": the first
	return base64.StdEncoding.EncodeToString(append(text, '1'))
}

// CutOff lets n more changes of a set-up be made; below 0: all.
func (s *Server) CutOff(n int) { s.turn(func(k *knobs) { k.changes = n }) }

// OccupyAccount makes a service account that drover has not made.
func (s *Server) OccupyAccount(email string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.accounts[email] = "somebody else's"
}

// Interfere changes a policy, as another administrator does at the same time.
func (s *Server) Interfere(of string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.policy(of)
	p.Etag = nextEtag(p.Etag)
}

// Accounts are the service accounts that a user has made.
func (s *Server) Accounts() (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for email := range s.accounts {
		all = append(all, email)
	}
	return all
}

// Granted is what is granted on the project, "cloudresourcemanager", or a bucket, as "ROLE MEMBER" or "ROLE MEMBER if EXPRESSION".
func (s *Server) Granted(of string) (all []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.policy(of).Bindings {
		for _, m := range b.Members {
			line := b.Role + " " + m
			if b.Condition != nil {
				line += " if " + b.Condition.Expression
			}
			all = append(all, line)
		}
	}
	return all
}

// Enabled says whether an interface is enabled.
func (s *Server) Enabled(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.enabled[id]
}
