// Package stacktest is a fake of CloudFormation: the actions that package stack asks for, as AWS documents them. Each look at a stack
// that changes does one more step of its change. Nothing is claimed about AWS.
package stacktest

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// stackSpace is the XML namespace of CloudFormation's answers.
const stackSpace = "http://cloudformation.amazonaws.com/doc/2010-05-15/"

// stack is a stack of the fake of CloudFormation. Each look at a stack that changes does one more step of
// its change.
type stack struct {
	ID, Name, Status string
	Tags             []pair
	Parameters       []pair
	body             string
	deleteOnFailure  bool
	resources        []*resource // in the order in which they can be made
	steps            []func() error
	events           []event // newest last
	before           *stack  // as it was before the update that goes on
}

type pair struct{ Key, Value string }

// resource is one of a stack. Its description is the template's.
type resource struct {
	id, status, physical string
	Type                 string
	Properties           map[string]any
	DependsOn            any
}

type event struct{ resource, physical, status, reason string }

// Stacks is CloudFormation in a region of an account. New makes one.
type Stacks struct {
	// Count counts a request for an action, and says whether the user may make it. Nil: all may be made.
	Count func(action string) bool
	// Taken says why a resource of a type cannot be made with such properties; "": it can. Nil: all can.
	Taken func(kind string, properties map[string]any) string
	// Show has other services know a resource that was made or changed, and gives the name by which they know it; "": the
	// fake makes one. Hide is its opposite. Nil: none has to know.
	Show func(kind string, properties map[string]any) (physical string)
	Hide func(kind, physical string)

	mu      sync.Mutex
	all     []*stack
	changes int               // that may still happen; -1: all
	hurry   bool              // each look does all steps
	taken   bool              // all names are those of other stacks
	others  string            // what each stack has as its template, as if another command had just changed it
	fails   map[string]string // why the creation or change of a resource fails, by its logical ID
	keeps   map[string]string // likewise of its deletion
}

// New is CloudFormation without stacks.
func New() *Stacks {
	return &Stacks{changes: -1, fails: map[string]string{}, keeps: map[string]string{}}
}

// Answer answers the actions that package stack asks for.
func (f *Stacks) Answer(w http.ResponseWriter, body []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	form, err := url.ParseQuery(string(body))
	action := form.Get("Action")
	var result any
	if err == nil {
		if f.Count != nil && !f.Count(action) {
			action = "denied"
		}
		switch action {
		case "DescribeStacks":
			result, err = f.describe(form.Get("StackName"))
		case "DescribeStackResources":
			result, err = f.describeResources(form.Get("StackName"))
		case "DescribeStackEvents":
			result, err = f.describeEvents(form.Get("StackName"))
		case "GetTemplate":
			result, err = f.template(form.Get("StackName"))
		case "CreateStack":
			result, err = f.create(form)
		case "UpdateStack":
			result, err = f.update(form)
		case "DeleteStack":
			result, err = struct{}{}, f.delete(form.Get("StackName"))
		case "denied":
			err = refuse("AccessDenied|User: arn:aws:iam::" + account + ":user/ann is not authorized to perform it")
		default:
			err = refuse("%s is not of this fake", action)
		}
	}
	w.Header().Set("Content-Type", "text/xml")
	if err != nil {
		code, status := "ValidationError", http.StatusBadRequest
		if c, message, ok := strings.Cut(err.Error(), "|"); ok {
			code, err = c, refuse("%s", message)
		}
		if code == "AccessDenied" {
			status = http.StatusForbidden
		}
		w.WriteHeader(status)
		writeXML(w, "ErrorResponse", "Error", struct{ Type, Code, Message string }{"Sender", code, err.Error()})
		return
	}
	writeXML(w, action+"Response", action+"Result", result)
}

func writeXML(w http.ResponseWriter, outer, inner string, v any) {
	e := xml.NewEncoder(w) // the client sees a short answer
	o, i := xml.StartElement{Name: xml.Name{Space: stackSpace, Local: outer}}, xml.StartElement{Name: xml.Name{Local: inner}}
	_ = e.EncodeToken(o)
	_ = e.EncodeElement(v, i)
	_ = e.EncodeToken(o.End())
	_ = e.Flush()
}

// change counts one change of the account, and refuses it where no more may happen.
func (f *Stacks) change() error {
	if f.changes == 0 {
		return refuse("AccessDenied|User: arn:aws:iam::" + account + ":user/ann is not authorized to do more")
	}
	if f.changes > 0 {
		f.changes--
	}
	return nil
}

// find finds a stack that is there by its name, and any stack by its ID.
func (f *Stacks) find(name string) (*stack, error) {
	for _, st := range f.all {
		if st.ID == name || st.Name == name && st.Status != "DELETE_COMPLETE" {
			return st, nil
		}
	}
	if f.taken {
		return &stack{ID: "arn:aws:cloudformation:" + region + ":" + account + ":stack/" + name + "/other", Name: name, Status: "CREATE_COMPLETE"}, nil
	}
	return nil, refuse("Stack with id %s does not exist", name)
}

// step does the next step of a stack's change.
func (f *Stacks) step(st *stack) error {
	for len(st.steps) > 0 {
		if err := f.change(); err != nil {
			return err
		}
		next := st.steps[0]
		st.steps = st.steps[1:]
		if err := next(); err != nil || !f.hurry {
			return err
		}
	}
	return nil
}

func (st *stack) note(resource, physical, status, reason string) {
	st.events = append(st.events, event{resource, physical, status, reason})
}

// set gives the stack a status, as an event.
func (st *stack) set(status, reason string) {
	st.Status = status
	st.note(st.Name, st.ID, status, reason)
}

type members[T any] struct {
	Member []T `xml:"member"`
}

func (f *Stacks) describe(name string) (any, error) {
	st, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if err := f.step(st); err != nil {
		return nil, err
	}
	type parameter struct{ ParameterKey, ParameterValue string }
	var parameters members[parameter]
	for _, p := range st.Parameters {
		parameters.Member = append(parameters.Member, parameter{p.Key, p.Value})
	}
	type shown struct {
		StackId, StackName, StackStatus, CreationTime string
		Tags                                          members[pair]
		Parameters                                    members[parameter]
	}
	return struct{ Stacks members[shown] }{members[shown]{[]shown{{st.ID, st.Name, st.Status, "2026-11-28T00:00:00Z", members[pair]{st.Tags}, parameters}}}}, nil
}

func (f *Stacks) describeResources(name string) (any, error) {
	st, err := f.find(name)
	if err != nil {
		return nil, err
	}
	type shown struct{ LogicalResourceId, PhysicalResourceId, ResourceType, ResourceStatus, Timestamp string }
	var all members[shown]
	for _, r := range st.resources {
		if r.status != "" {
			all.Member = append(all.Member, shown{r.id, r.physical, r.Type, r.status, "2026-11-28T00:00:00Z"})
		}
	}
	return struct{ StackResources members[shown] }{all}, nil
}

func (f *Stacks) describeEvents(name string) (any, error) {
	st, err := f.find(name)
	if err != nil {
		return nil, err
	}
	type shown struct{ LogicalResourceId, PhysicalResourceId, ResourceStatus, ResourceStatusReason string }
	var all members[shown]
	for _, e := range slices.Backward(st.events) {
		all.Member = append(all.Member, shown{e.resource, e.physical, e.status, e.reason})
	}
	return struct{ StackEvents members[shown] }{all}, nil
}

func (f *Stacks) template(name string) (any, error) {
	st, err := f.find(name)
	if err != nil {
		return nil, err
	}
	if f.others != "" {
		return struct{ TemplateBody string }{f.others}, nil
	}
	return struct{ TemplateBody string }{st.body}, nil
}

// readForm reads what CreateStack and UpdateStack have in common.
func (st *stack) readForm(form url.Values) error {
	var t struct {
		AWSTemplateFormatVersion, Description string
		Parameters                            map[string]struct{ Type, Default, Description string }
		Resources                             map[string]*resource
	}
	st.body = form.Get("TemplateBody")
	if len(st.body) > 51_200 {
		return refuse("1 validation error detected: templateBody has more than 51200 bytes")
	}
	if err := decodeStrictly([]byte(st.body), &t); err != nil {
		return refuse("Template format error: %v", err)
	}
	st.Parameters = nil
	for i := 1; form.Has(fmt.Sprintf("Parameters.member.%d.ParameterKey", i)); i++ {
		at := fmt.Sprintf("Parameters.member.%d.", i)
		if _, known := t.Parameters[form.Get(at+"ParameterKey")]; !known {
			return refuse("Parameters: [%s] do not exist in the template", form.Get(at+"ParameterKey"))
		}
		st.Parameters = append(st.Parameters, pair{form.Get(at + "ParameterKey"), form.Get(at + "ParameterValue")})
	}
	roles := false
	before := st.resources
	st.resources = nil
	for _, id := range inOrder(t.Resources) {
		r := t.Resources[id]
		r.id = id
		if i := slices.IndexFunc(before, func(b *resource) bool { return b.id == id }); i >= 0 {
			r.status, r.physical = before[i].status, before[i].physical
		}
		roles = roles || strings.HasPrefix(r.Type, "AWS::IAM::")
		st.resources = append(st.resources, r)
	}
	if roles && form.Get("Capabilities.member.1") != "CAPABILITY_IAM" {
		return refuse("InsufficientCapabilitiesException|Requires capabilities : [CAPABILITY_IAM]")
	}
	return nil
}

// inOrder gives IDs of resources, each after those that it refers to.
func inOrder(all map[string]*resource) (order []string) {
	var ids []string
	for id := range all {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for len(order) < len(ids) {
		before := len(order)
		for _, id := range ids {
			text, _ := json.Marshal(map[string]any{"p": all[id].Properties, "d": all[id].DependsOn}) // it came from JSON
			ready := !slices.ContainsFunc(ids, func(other string) bool {
				return other != id && !slices.Contains(order, other) && strings.Contains(string(text), `"`+other+`"`)
			})
			if ready && !slices.Contains(order, id) {
				order = append(order, id)
			}
		}
		if len(order) == before {
			return ids // a circle
		}
	}
	return order
}

func (f *Stacks) create(form url.Values) (any, error) {
	name := form.Get("StackName")
	if _, err := f.find(name); err == nil {
		return nil, refuse("AlreadyExistsException|Stack [%s] already exists", name)
	}
	st := &stack{ID: fmt.Sprintf("arn:aws:cloudformation:%s:%s:stack/%s/%d", region, account, name, len(f.all)), Name: name, deleteOnFailure: form.Get("OnFailure") == "DELETE"}
	for i := 1; form.Has(fmt.Sprintf("Tags.member.%d.Key", i)); i++ {
		tag := pair{form.Get(fmt.Sprintf("Tags.member.%d.Key", i)), form.Get(fmt.Sprintf("Tags.member.%d.Value", i))}
		if !tagForm.MatchString(tag.Key) || !tagForm.MatchString(tag.Value) || len(tag.Value) > 256 {
			return nil, refuse("tag %v is not valid", tag)
		}
		st.Tags = append(st.Tags, tag)
	}
	if err := st.readForm(form); err != nil {
		return nil, err
	}
	if err := f.change(); err != nil {
		return nil, err
	}
	f.all = append(f.all, st)
	st.set("CREATE_IN_PROGRESS", "User Initiated")
	for _, r := range st.resources {
		st.steps = append(st.steps, func() error { return f.makeResource(st, r) })
	}
	st.steps = append(st.steps, func() error { st.set("CREATE_COMPLETE", ""); return nil })
	return struct{ StackId string }{st.ID}, nil
}

// makeResource makes one resource of a stack; where it fails the stack goes back.
func (f *Stacks) makeResource(st *stack, r *resource) error {
	reason := f.fails[r.id]
	if reason == "" && f.Taken != nil && r.status == "" {
		reason = f.Taken(r.Type, r.Properties)
	}
	if reason != "" {
		r.status = "CREATE_FAILED"
		st.note(r.id, "", "CREATE_FAILED", reason)
		f.goBack(st)
		return nil
	}
	r.physical = st.Name + "-" + r.id + "-0A1B"
	r.status = "CREATE_COMPLETE"
	st.note(r.id, r.physical, r.status, "")
	f.show(st, r)
	return nil
}

// goBack ends a change that has failed.
func (f *Stacks) goBack(st *stack) {
	if st.Status == "UPDATE_IN_PROGRESS" {
		st.set("UPDATE_ROLLBACK_IN_PROGRESS", "The following resource(s) failed")
		st.steps = []func() error{func() error {
			st.body, st.Parameters, st.resources = st.before.body, st.before.Parameters, st.before.resources
			st.set("UPDATE_ROLLBACK_COMPLETE", "")
			return nil
		}}
		return
	}
	if !st.deleteOnFailure {
		st.set("ROLLBACK_IN_PROGRESS", "The following resource(s) failed to create")
		st.steps = []func() error{func() error { st.set("ROLLBACK_COMPLETE", ""); return nil }}
		return
	}
	f.beginDelete(st, "The following resource(s) failed to create. Delete requested by user.")
}

// show has the fake's other services know what a stack has made.
func (f *Stacks) show(st *stack, r *resource) {
	if f.Show == nil {
		return
	}
	if id := f.Show(r.Type, st.resolve(r.Properties).(map[string]any)); id != "" {
		r.physical = id
	}
}

// hide is its opposite.
func (f *Stacks) hide(r *resource) {
	if f.Hide != nil {
		f.Hide(r.Type, r.physical)
	}
}

// resolve puts values in the place of references.
func (st *stack) resolve(v any) any {
	physical := func(id string) string {
		if i := slices.IndexFunc(st.resources, func(r *resource) bool { return r.id == id }); i >= 0 {
			return st.resources[i].physical
		}
		return "?" + id
	}
	switch v := v.(type) {
	case []any:
		var all []any
		for _, e := range v {
			all = append(all, st.resolve(e))
		}
		return all
	case map[string]any:
		if id, ok := v["Ref"].(string); ok && len(v) == 1 {
			return physical(id)
		}
		if of, ok := v["Fn::GetAtt"].([]any); ok {
			id, _ := of[0].(string)
			if of[1] == "Arn" {
				return "arn:aws:iam::" + account + ":role/" + physical(id)
			}
			return physical(id)
		}
		if text, ok := v["Fn::Sub"].(string); ok {
			return strings.NewReplacer("${AWS::Partition}", "aws", "${AWS::Region}", region, "${AWS::AccountId}", account).Replace(text)
		}
		all := map[string]any{}
		for name, e := range v {
			all[name] = st.resolve(e)
		}
		return all
	}
	return v
}

func (f *Stacks) update(form url.Values) (any, error) {
	st, err := f.find(form.Get("StackName"))
	if err != nil {
		return nil, err
	}
	if !strings.HasSuffix(st.Status, "_COMPLETE") || st.Status == "ROLLBACK_COMPLETE" {
		return nil, refuse("Stack:%s is in %s state and can not be updated.", st.ID, st.Status)
	}
	body, parameters, before := st.body, st.Parameters, st.resources
	texts := map[string]string{}
	for _, r := range st.resources {
		text, _ := json.Marshal(r) // it came from JSON
		texts[r.id] = string(text)
	}
	next := *st
	if err := next.readForm(form); err != nil {
		return nil, err
	}
	if next.body == body && slices.Equal(next.Parameters, parameters) {
		return nil, refuse("No updates are to be performed.")
	}
	if err := f.change(); err != nil {
		return nil, err
	}
	was := *st
	*st = next
	st.before = &was
	st.set("UPDATE_IN_PROGRESS", "User Initiated")
	for _, r := range st.resources {
		text, _ := json.Marshal(r) // as above
		switch {
		case texts[r.id] == "":
			st.steps = append(st.steps, func() error { return f.makeResource(st, r) })
		case texts[r.id] != string(text):
			st.steps = append(st.steps, func() error {
				if reason := f.fails[r.id]; reason != "" {
					st.note(r.id, r.physical, "UPDATE_FAILED", reason)
					f.goBack(st)
					return nil
				}
				r.status = "UPDATE_COMPLETE"
				f.show(st, r)
				return nil
			})
		}
	}
	for _, r := range before {
		if !slices.ContainsFunc(st.resources, func(n *resource) bool { return n.id == r.id }) {
			st.steps = append(st.steps, func() error { f.hide(r); return nil })
		}
	}
	st.steps = append(st.steps, func() error { st.set("UPDATE_COMPLETE", ""); return nil })
	return struct{ StackId string }{st.ID}, nil
}

func (f *Stacks) delete(name string) error {
	st, err := f.find(name)
	if err != nil || st.Status == "DELETE_COMPLETE" {
		return nil // as AWS does
	}
	if st.Status == "UPDATE_IN_PROGRESS" {
		return refuse("Stack [%s] cannot be deleted while in status %s", st.Name, st.Status)
	}
	if err := f.change(); err != nil {
		return err
	}
	if st.Status != "DELETE_IN_PROGRESS" {
		f.beginDelete(st, "User Initiated")
	}
	return nil
}

func (f *Stacks) beginDelete(st *stack, reason string) {
	st.set("DELETE_IN_PROGRESS", reason)
	st.steps = nil
	for _, r := range slices.Backward(st.resources) {
		if r.physical == "" || r.status == "DELETE_COMPLETE" {
			continue
		}
		st.steps = append(st.steps, func() error {
			if why := f.keeps[r.id]; why != "" {
				r.status = "DELETE_FAILED"
				st.note(r.id, r.physical, r.status, why)
				st.set("DELETE_FAILED", "The following resource(s) failed to delete: ["+r.id+"].")
				st.steps = nil
				return nil
			}
			r.status = "DELETE_COMPLETE"
			f.hide(r)
			return nil
		})
	}
	st.steps = append(st.steps, func() error { st.set("DELETE_COMPLETE", ""); return nil })
}

// turn changes how the fake behaves.
func (f *Stacks) turn(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// CutOff lets n more changes of stacks happen, and refuses later ones; -1: none is refused.
func (f *Stacks) CutOff(n int) { f.turn(func() { f.changes = n }) }

// Hurry has each look at a stack do all of its change.
func (f *Stacks) Hurry() { f.turn(func() { f.hurry = true }) }

// FailResource has the creation or change of a stack's resource fail for a reason; "": it does not.
func (f *Stacks) FailResource(id, reason string) { f.turn(func() { f.fails[id] = reason }) }

// KeepResource has the deletion of a stack's resource fail for a reason; "": it does not.
func (f *Stacks) KeepResource(id, reason string) { f.turn(func() { f.keeps[id] = reason }) }

// ChangeAgain has each stack have this template, as if another command had changed it after each change.
func (f *Stacks) ChangeAgain(template string) { f.turn(func() { f.others = template }) }

// Occupy has each name that no stack has be that of a stack which something else has made.
func (f *Stacks) Occupy(taken bool) { f.turn(func() { f.taken = taken }) }

// Names are those of the stacks that there are.
func (f *Stacks) Names() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, st := range f.all {
		if st.Status != "DELETE_COMPLETE" {
			all = append(all, st.Name)
		}
	}
	return all
}

// Template is the newest template of a stack.
func (f *Stacks) Template(name string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	st, err := f.find(name)
	if err != nil {
		return ""
	}
	return st.body
}

// The account and region of the fake.
const (
	account = "123456789012"
	region  = "eu-west-1"
)

// tagForm is the form of tags.
var tagForm = regexp.MustCompile(`^[\pL\pN _.:/=+@-]*$`)

// refusal is an error of CloudFormation's: its code before a bar, or ValidationError without one.
type refusal struct{ text string }

func (r refusal) Error() string { return r.text }

func refuse(format string, args ...any) error { return refusal{fmt.Sprintf(format, args...)} }

func decodeStrictly(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	return d.Decode(v)
}
