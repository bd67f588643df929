package gcpbatch

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// Setup makes what agents of a project need: a service account, its roles in the project of Google Cloud, and its grants on the bucket. None of it costs anything.
type Setup struct{ engine *engine }

var _ driver.Setup = (*Setup)(nil)

// interfaces are those of Google that jobs and their set-up need.
var interfaces = []string{"batch.googleapis.com", "compute.googleapis.com", "iam.googleapis.com", "logging.googleapis.com", "secretmanager.googleapis.com"}

// accountID is the service account of a project with its store, before the @.
func accountID(project, store string) string {
	store, _, _ = strings.Cut(store, "?")
	sum := sha256.Sum256(fmt.Append(nil, Name, "\x00", store, "\x00", project))
	return "drover-" + hex.EncodeToString(sum[:6])
}

// accountWords say of a service account for which project and store it was made.
func accountWords(project, store string) string {
	store, _, _ = strings.Cut(store, "?")
	words := "drover: agents of project " + project + " with " + store
	return words[:min(len(words), 256)]
}

// findAccount is the service account that a set-up has made for a project with its store; "": there is none, or the caller may not look.
func (e *engine) findAccount(ctx context.Context, at site, project, store string) (string, error) {
	if project == "" {
		return "", nil
	}
	u := setupOf{caller: e.caller(), at: at, project: project, store: store}
	words, err := u.readAccount(ctx)
	switch {
	case errors.Is(err, rest.ErrNotFound), err != nil && fault.KindOf(err) == fault.Denied, err == nil && words != accountWords(project, store):
		return "", nil
	}
	return u.email(), err
}

// setupOf is the set-up of a scope.
type setupOf struct {
	caller         *rest.Caller
	at             site
	project, store string
	bucket         string
	grants         []binding // on the bucket
}

// binding is what IAM grants to members.
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

// policy is all that is granted on something. What drover does not know of it stays as it is.
type policy struct {
	Version      int             `json:"version"`
	Bindings     []binding       `json:"bindings"`
	Etag         string          `json:"etag,omitempty"`
	AuditConfigs json.RawMessage `json:"auditConfigs,omitempty"`
}

// same says whether two bindings are of one role on one condition.
func same(a, b binding) bool {
	if a.Role != b.Role || (a.Condition == nil) != (b.Condition == nil) {
		return false
	}
	return a.Condition == nil || a.Condition.Expression == b.Condition.Expression
}

func (p policy) has(b binding) bool {
	return slices.ContainsFunc(p.Bindings, func(o binding) bool { return same(o, b) && slices.Contains(o.Members, b.Members[0]) })
}

// add grants b, beside what is granted.
func (p *policy) add(b binding) {
	if p.has(b) {
		return
	}
	p.Version = 3 // that which knows conditions
	for i, o := range p.Bindings {
		if same(o, b) {
			p.Bindings[i].Members = append(slices.Clone(o.Members), b.Members...)
			return
		}
	}
	p.Bindings = append(p.Bindings, b)
}

// drop takes all away that a member is granted by itself.
func (p *policy) drop(member string) {
	p.Version = 3
	for i := range p.Bindings {
		p.Bindings[i].Members = slices.DeleteFunc(p.Bindings[i].Members, func(m string) bool { return m == member })
	}
	p.Bindings = slices.DeleteFunc(p.Bindings, func(b binding) bool { return len(b.Members) == 0 })
}

func (u setupOf) email() string {
	project := u.at.project
	if domain, name, ok := strings.Cut(project, ":"); ok {
		project = name + "." + domain
	}
	return accountID(u.project, u.store) + "@" + project + ".iam.gserviceaccount.com"
}

func (u setupOf) member() string { return "serviceAccount:" + u.email() }

// roles are the account's in the project.
func (u setupOf) roles() (all []binding) {
	for _, r := range roles[driver.Agents] {
		all = append(all, binding{Role: r.role, Members: []string{u.member()}})
	}
	return all
}

// grantForm is the form in which a bucket of Google says what is to be granted on it.
var grantForm = regexp.MustCompile(`^gcloud storage buckets add-iam-policy-binding gs://(\S+) --member=\S+ --role=(roles/[A-Za-z.]+) --condition=(?:None|'title=([^,']+),expression=([^']+)')$`)

// open reads a scope.
func (u *Setup) open(ctx context.Context, s driver.Scope) (o setupOf, err error) {
	if ctx.Err() != nil {
		return o, context.Cause(ctx)
	}
	at, err := parseSite(s.Detail)
	if err == nil {
		at, err = at.complete()
	}
	if err != nil {
		return o, err
	}
	if _, err := parseOptions(s.Args); err != nil { // those of jobs may stand beside
		return o, err
	}
	o = setupOf{caller: u.engine.caller(), at: at, project: s.Project, store: s.Store}
	for line := range strings.Lines(s.Rights) {
		m := grantForm.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			return o, fault.New(fault.Invalid, "Name a bucket: `--store gs://bucket/prefix`.", "set up Google Batch: its agents open no store in %s", s.Store)
		}
		b := binding{Role: m[2], Members: []string{o.member()}}
		if m[4] != "" {
			b.Condition = &condition{Title: m[3], Expression: m[4]}
		}
		o.bucket, o.grants = m[1], append(o.grants, b)
	}
	return o, nil
}

func (u setupOf) accounts() string {
	return u.caller.Address("iam") + "/v1/projects/" + u.at.project + "/serviceAccounts"
}

// readAccount gives the description of the service account.
func (u setupOf) readAccount(ctx context.Context) (words string, err error) {
	var out struct {
		Description string `json:"description"`
	}
	err = u.caller.Do(ctx, rest.Call{Doing: "look for the service account", Method: http.MethodGet, URL: u.accounts() + "/" + url.PathEscape(u.email()), Out: &out})
	return out.Description, err
}

// resource is what a policy is of, with its requests.
type resource struct{ doing, read, write, method string }

func (u setupOf) ofProject() resource {
	base := u.caller.Address("cloudresourcemanager") + "/v1/projects/" + u.at.project
	return resource{"the roles of project " + u.at.project, base + ":getIamPolicy", base + ":setIamPolicy", http.MethodPost}
}

func (u setupOf) ofBucket() resource {
	base := u.caller.Address("storage") + "/storage/v1/b/" + url.PathEscape(u.bucket) + "/iam"
	return resource{"the grants on gs://" + u.bucket, base + "?optionsRequestedPolicyVersion=3", base, http.MethodPut}
}

func (u setupOf) readPolicy(ctx context.Context, of resource) (p policy, err error) {
	call := rest.Call{Doing: "read " + of.doing, Method: http.MethodGet, URL: of.read, Out: &p}
	if of.method == http.MethodPost {
		call.Method, call.In = http.MethodPost, map[string]any{"options": map[string]any{"requestedPolicyVersion": 3}}
	}
	return p, u.caller.Do(ctx, call)
}

// changePolicy changes a policy that others may change at the same time: its etag tells.
func (u setupOf) changePolicy(ctx context.Context, of resource, change func(*policy)) error {
	const tries = 5
	for n := 1; ; n++ {
		p, err := u.readPolicy(ctx, of)
		if err != nil {
			return err
		}
		change(&p)
		var in any = p
		if of.method == http.MethodPost {
			in = map[string]any{"policy": p}
		}
		err = u.caller.Do(ctx, rest.Call{Doing: "change " + of.doing, Method: of.method, URL: of.write, In: in})
		if !errors.Is(err, rest.ErrExists) && !errors.Is(err, rest.ErrChanged) || n == tries {
			return err
		}
	}
}

// piece is one with how it is made and taken away.
type piece struct {
	driver.Piece
	make, take func(context.Context) error
}

// pieces gives those of the set-up, as they are.
func (u setupOf) pieces(ctx context.Context) ([]piece, error) {
	create := map[string]any{"accountId": accountID(u.project, u.store), "serviceAccount": map[string]any{"displayName": "drover agents", "description": accountWords(u.project, u.store)}}
	account := piece{Piece: driver.Piece{Kind: "service account", Name: u.email(), State: driver.PieceThere, Request: text(create)}}
	account.make = func(ctx context.Context) error {
		return u.caller.Do(ctx, rest.Call{Doing: "make the service account", Method: http.MethodPost, URL: u.accounts(), In: create})
	}
	account.take = func(ctx context.Context) error {
		return u.caller.Do(ctx, rest.Call{Doing: "delete the service account", Method: http.MethodDelete, URL: u.accounts() + "/" + url.PathEscape(u.email())})
	}
	switch words, err := u.readAccount(ctx); {
	case errors.Is(err, rest.ErrNotFound):
		account.State = driver.PieceMissing
	case err != nil:
		return nil, err
	case words != accountWords(u.project, u.store):
		account.State, account.Why = driver.PieceForeign, "drover has not made it: it says of itself "+cmp.Or(words, "nothing")
	}
	all := []piece{account}
	granted, err := u.granted(ctx, "roles in the project", u.at.project, u.ofProject(), u.roles())
	if err != nil {
		return nil, err
	}
	all = append(all, granted)
	if len(u.grants) > 0 {
		if granted, err = u.granted(ctx, "grants on the bucket", "gs://"+u.bucket, u.ofBucket(), u.grants); err != nil {
			return nil, err
		}
		all = append(all, granted)
	}
	return all, nil
}

// granted is the piece of some bindings.
func (u setupOf) granted(ctx context.Context, kind, name string, of resource, all []binding) (g piece, err error) {
	p, err := u.readPolicy(ctx, of)
	if err != nil {
		return g, err
	}
	g.Piece = driver.Piece{Kind: kind, Name: name, State: driver.PieceThere, Request: text(all)}
	for _, b := range all {
		if !p.has(b) {
			g.State = driver.PieceMissing
		}
	}
	g.make = func(ctx context.Context) error {
		return u.changePolicy(ctx, of, func(p *policy) {
			for _, b := range all {
				p.add(b)
			}
		})
	}
	g.take = func(ctx context.Context) error {
		return u.changePolicy(ctx, of, func(p *policy) { p.drop(u.member()) })
	}
	return g, nil
}

// text is a request as text.
func text(v any) string {
	body, _ := json.MarshalIndent(v, "", "  ") // strings and maps of them
	return string(body)
}

// Describe gives the account, its roles and its grants.
func (u *Setup) Describe(ctx context.Context, s driver.Scope) (all []driver.Piece, err error) {
	o, err := u.open(ctx, s)
	if err != nil {
		return nil, err
	}
	pieces, err := o.pieces(ctx)
	for _, p := range pieces {
		all = append(all, p.Piece)
	}
	return all, err
}

// Apply enables Google's interfaces, and makes what is missing. Interfaces stay enabled: others may use them.
func (u *Setup) Apply(ctx context.Context, s driver.Scope, made func(driver.Piece)) error {
	o, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	all, err := o.pieces(ctx)
	if err != nil {
		return err
	}
	if i := slices.IndexFunc(all, func(p piece) bool { return p.State == driver.PieceForeign }); i >= 0 {
		return fault.New(fault.Invalid, "Delete it, or name your own: `--target-arg service-account=NAME@PROJECT.iam.gserviceaccount.com`.", "set up Google Batch: %s %s: %s", all[i].Kind, all[i].Name, all[i].Why)
	}
	if !slices.ContainsFunc(all, func(p piece) bool { return p.State == driver.PieceMissing }) {
		return nil
	}
	if err := o.enable(ctx); err != nil {
		return err
	}
	for _, p := range all {
		if p.State != driver.PieceMissing {
			continue
		}
		if err := p.make(ctx); err != nil {
			return err
		}
		made(p.Piece)
	}
	return nil
}

// enable enables Google's interfaces for the project, and waits for that.
func (u setupOf) enable(ctx context.Context) error {
	base := u.caller.Address("serviceusage") + "/v1/"
	var out struct {
		Name string `json:"name"`
		Done bool   `json:"done"`
	}
	const doing = "enable Google's interfaces"
	err := u.caller.Do(ctx, rest.Call{Doing: doing, Method: http.MethodPost, URL: base + "projects/" + u.at.project + "/services:batchEnable", In: map[string]any{"serviceIds": interfaces}, Out: &out})
	const looks = 60
	for range looks {
		if err != nil || out.Done {
			return err
		}
		if err := cloud.System.Sleep(ctx, enableLook); err != nil {
			return err
		}
		err = u.caller.Do(ctx, rest.Call{Doing: doing, Method: http.MethodGet, URL: base + out.Name, Out: &out})
	}
	return fault.New(fault.Lost, "Type the command again.", "%s: it takes longer than %s", doing, looks*enableLook)
}

// enableLook is how often it is asked whether interfaces are enabled. A variable for tests.
var enableLook = 2 * time.Second

// Destroy takes the grants, the roles and the account away.
func (u *Setup) Destroy(ctx context.Context, s driver.Scope, gone func(driver.Piece)) error {
	o, err := u.open(ctx, s)
	if err != nil {
		return err
	}
	all, err := o.pieces(ctx)
	if err != nil {
		return err
	}
	if all[0].State == driver.PieceForeign {
		return nil
	}
	for _, p := range slices.Backward(all) {
		if p.State != driver.PieceThere {
			continue
		}
		if err := p.take(ctx); err != nil {
			return err
		}
		gone(p.Piece)
	}
	return nil
}
