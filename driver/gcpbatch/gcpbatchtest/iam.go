package gcpbatchtest

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"

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

// IAM is what a set-up changes of the project: service accounts, what is granted to them on the project and on buckets, and which interfaces are enabled.
type IAM struct {
	mu       *sync.Mutex       // the Server's
	accounts map[string]string // descriptions of service accounts that a user has made, by address
	policies map[string]*policy
	enabled  map[string]bool // interfaces
	changes  int             // that are still done; below 0: all
}

func newIAM(mu *sync.Mutex) *IAM {
	return &IAM{mu, map[string]string{}, map[string]*policy{}, map[string]bool{}, -1}
}

// serve does what a request asks for. The caller holds mu.
func (a *IAM) serve(service string, r *http.Request, body []byte) (any, error) {
	account, bucket := accountPath.FindStringSubmatch(r.URL.Path), bucketPath.FindStringSubmatch(r.URL.Path)
	changes := r.Method != http.MethodGet && !strings.HasSuffix(r.URL.Path, ":getIamPolicy") && service != "serviceusage"
	if changes && a.changes == 0 {
		return nil, refuse(403, "PERMISSION_DENIED", "no more changes")
	}
	if changes && a.changes > 0 {
		a.changes--
	}
	switch project := "/v1/projects/" + Project; {
	case service == "serviceusage" && r.URL.Path == project+"/services:batchEnable":
		var in struct{ ServiceIds []string }
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
		}
		for _, id := range in.ServiceIds {
			a.enabled[id] = true
		}
		return map[string]any{"name": "operations/enable", "done": false}, nil
	case service == "serviceusage" && r.URL.Path == "/v1/operations/enable":
		return map[string]any{"name": "operations/enable", "done": true}, nil
	case service == "iam" && account != nil:
		return a.account(r, account[1], body)
	case service == "cloudresourcemanager" && r.URL.Path == project+":getIamPolicy":
		return a.policy(service), nil
	case service == "cloudresourcemanager" && r.URL.Path == project+":setIamPolicy":
		var in struct{ Policy policy }
		return a.set(service, body, &in, &in.Policy)
	case service == "storage" && bucket != nil && r.Method == http.MethodGet:
		return a.policy(bucket[1]), nil
	case service == "storage" && bucket != nil && r.Method == http.MethodPut:
		var in policy
		return a.set(bucket[1], body, &in, &in)
	}
	return nil, refuse(404, "NOT_FOUND", "the fake has no %s of %s", r.URL.Path, service)
}

// account serves service accounts.
func (a *IAM) account(r *http.Request, email string, body []byte) (any, error) {
	words, there := a.accounts[email]
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
		if _, there := a.accounts[email]; there {
			return nil, refuse(409, "ALREADY_EXISTS", "Service account %s already exists within project projects/%s.", in.AccountID, Project)
		}
		a.accounts[email] = in.ServiceAccount.Description
	case !there:
		return nil, refuse(404, "NOT_FOUND", "Unknown service account")
	case r.Method == http.MethodDelete:
		delete(a.accounts, email)
		return map[string]any{}, nil
	default:
		return map[string]any{"email": email, "description": words}, nil
	}
	return map[string]any{"email": email}, nil
}

// policy is that of the project or a bucket: at first with what others have there.
func (a *IAM) policy(of string) *policy {
	if a.policies[of] == nil {
		a.policies[of] = &policy{Version: 1, Etag: nextEtag(""), Bindings: []binding{{Role: "roles/owner", Members: []string{"user:owner@example.com"}}}}
		if of == "cloudresourcemanager" {
			a.policies[of].AuditConfigs = json.RawMessage(`[{"service":"allServices"}]`)
		}
	}
	return a.policies[of]
}

// set replaces a policy that has not changed since it was read.
func (a *IAM) set(of string, body []byte, in any, p *policy) (any, error) {
	if err := json.Unmarshal(body, in); err != nil {
		return nil, refuse(400, "INVALID_ARGUMENT", "%v", err)
	}
	was := a.policy(of)
	conditional := slices.ContainsFunc(p.Bindings, func(b binding) bool { return b.Condition != nil })
	switch {
	case p.Etag != was.Etag:
		return nil, refuse(409, "ABORTED", "There were concurrent policy changes. Please retry the whole read-modify-write with exponential backoff.")
	case conditional && p.Version != 3:
		return nil, refuse(400, "INVALID_ARGUMENT", "The specified policy version does not know conditions.")
	}
	for _, b := range p.Bindings {
		for _, m := range b.Members {
			if email, ours := strings.CutPrefix(m, "serviceAccount:"); ours && a.accounts[email] == "" {
				return nil, refuse(400, "INVALID_ARGUMENT", "Service account %s does not exist.", email)
			}
		}
	}
	p.Etag = nextEtag(was.Etag)
	a.policies[of] = p
	return p, nil
}

// nextEtag is that of a policy after another change: base64, as Google's are.
func nextEtag(etag string) string {
	text, _ := base64.StdEncoding.DecodeString(etag) // "": the first
	return base64.StdEncoding.EncodeToString(append(text, '1'))
}

// CutOff lets n more changes of a set-up be made; below 0: all.
func (a *IAM) CutOff(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.changes = n
}

// Occupy makes a service account that drover has not made.
func (a *IAM) Occupy(email string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.accounts[email] = "somebody else's"
}

// Interfere changes a policy, as another administrator does at the same time.
func (a *IAM) Interfere(of string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.policy(of)
	p.Etag = nextEtag(p.Etag)
}

// Accounts are the service accounts that a user has made.
func (a *IAM) Accounts() (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for email := range a.accounts {
		all = append(all, email)
	}
	return all
}

// Granted is what is granted on the project, "cloudresourcemanager", or a bucket, as "ROLE MEMBER" or "ROLE MEMBER if EXPRESSION".
func (a *IAM) Granted(of string) (all []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, b := range a.policy(of).Bindings {
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
func (a *IAM) Enabled(id string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.enabled[id]
}
