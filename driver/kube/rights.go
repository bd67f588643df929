package kube

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/fault"
)

// right is what a submitter must be granted on a resource of its namespace.
type right struct {
	group    string
	resource string
	verbs    []string
	// helps says that agents are started without it too
	helps bool
	why   string
}

// rights are all that this driver asks for. Of secrets it reads none.
var rights = []right{
	{group: "batch", resource: "jobs", verbs: []string{"create", "get", "list", "patch", "delete"}, why: "agents are the pods of Jobs"},
	{resource: "pods", verbs: []string{"list", "patch"}, why: "to see agents, and to have them stop soon"},
	{resource: "pods", verbs: []string{"watch"}, helps: true, why: "to ask less while agents work"},
	{resource: "configmaps", verbs: []string{"create", "get", "patch"}, why: "what pods are told, and drover's program"},
	{resource: "secrets", verbs: []string{"create", "patch"}, why: "secrets of jobs: drover reads none"},
	{resource: "events", verbs: []string{"list"}, helps: true, why: "to say what pods wait for"},
	{resource: "resourcequotas", verbs: []string{"list"}, helps: true, why: "to say before what a quota refuses"},
	{resource: "limitranges", verbs: []string{"list"}, helps: true, why: "to say before what limits refuse"},
	{resource: "pods", verbs: []string{"get"}, helps: true, why: "for drover attach, which is kubectl exec"},
	{resource: "pods/exec", verbs: []string{"create"}, helps: true, why: "for drover attach, which is kubectl exec"},
}

// policy is the Role of submitters and its binding, as YAML for kubectl apply. Agents need nothing
// in the cluster.
func policy(f driver.Config, whose driver.Party, s driver.Scope) (string, error) {
	if whose != driver.Submitters {
		return "", fault.New(fault.Invalid, "Print what people must be granted: `drover doctor --on kube --policy submitters`.", "print policy: agents on Kubernetes ask the cluster for nothing")
	}
	at, err := parseSite(s.Detail)
	if err != nil {
		return "", err
	}
	if config, err := readConfig(""); err == nil {
		if full, err := at.resolve(config); err == nil {
			at = full
		}
	}
	if at.namespace == "" {
		at.namespace = "default"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# kubectl apply -f FILE, as an administrator of the namespace %[1]s.
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: drover-submitter, namespace: %[1]s}
rules:
`, at.namespace)
	for _, r := range rights {
		fmt.Fprintf(&b, "- {apiGroups: [%q], resources: [%s], verbs: [%s]} # %s\n", r.group, r.resource, strings.Join(r.verbs, ", "), r.why)
	}
	fmt.Fprintf(&b, `---
# Instead of NAME: the user, as kubectl auth whoami says it; or kind Group with the name of a group.
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: drover-submitter, namespace: %s}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: drover-submitter}
subjects: [{apiGroup: rbac.authorization.k8s.io, kind: User, name: NAME}]
`, at.namespace)
	return b.String(), nil
}

// checkRights asks the API server which of the rights the user lacks: for drover to start agents
// at all, and for the rest. Where the server does not know all rules, as with an authorizer of a
// provider, nothing counts as lacking.
func checkRights(ctx context.Context, c *api.Client, s site) (needed, helpful []string, err error) {
	rules, whole, err := c.Rules(ctx, s.namespace)
	if api.IsCode(err, http.StatusForbidden) {
		return nil, nil, nil // a cluster that keeps even that to itself
	}
	if err != nil || !whole {
		return nil, nil, err
	}
	for _, r := range rights {
		var lacks []string
		for _, verb := range r.verbs {
			if !slices.ContainsFunc(rules, func(rule api.Rule) bool { return rule.Allows(r.group, r.resource, verb) }) {
				lacks = append(lacks, verb)
			}
		}
		if len(lacks) == 0 {
			continue
		}
		text := strings.Join(lacks, ", ") + " " + r.resource
		if r.helps {
			helpful = append(helpful, text+" ("+r.why+")")
		} else {
			needed = append(needed, text)
		}
	}
	return needed, helpful, nil
}

// grant is the next step for a user without some rights.
func (s site) grant() string {
	return "Have an administrator of the namespace apply what this prints: `drover doctor --on kube/" + s.namespace + "@" + s.context + " --policy submitters`."
}
