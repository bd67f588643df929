package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// The resources that the driver works with, as they stand in a path after the namespace's group.
const (
	Jobs            = "jobs"
	Pods            = "pods"
	ConfigMaps      = "configmaps"
	Secrets         = "secrets"
	Events          = "events"
	ResourceQuotas  = "resourcequotas"
	LimitRanges     = "limitranges"
	page            = 500 // objects of a list at once
	allNodes        = "/api/v1/nodes"
	reviewOwnRights = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
)

// path is that of a resource in a namespace; "" as the name means all of them.
func path(resource, namespace, name string) string {
	group := "/api/v1"
	if resource == Jobs {
		group = "/apis/batch/v1"
	}
	p := group + "/namespaces/" + url.PathEscape(namespace) + "/" + resource
	if name != "" {
		p += "/" + url.PathEscape(name)
	}
	return p
}

// Get reads one object.
func (c *Client) Get(ctx context.Context, resource, namespace, name string, v any) error {
	_, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path(resource, namespace, name)}, v)
	return err
}

// Create makes an object, of which the server's form is decoded into v. A refusal with
// http.StatusConflict says that there is one of the name.
func (c *Client) Create(ctx context.Context, resource, namespace string, object, v any) error {
	_, err := c.Do(ctx, Request{Method: http.MethodPost, Path: path(resource, namespace, ""), Body: object}, v)
	return err
}

// TryOut has the server check an object as if it were to be made, with its policies, and gives
// the warnings and the form that it would have.
func (c *Client) TryOut(ctx context.Context, resource, namespace string, object, v any) (warnings []string, err error) {
	return c.Do(ctx, Request{Method: http.MethodPost, Path: path(resource, namespace, ""), Query: url.Values{"dryRun": {"All"}}, Body: object}, v)
}

// Merge changes an object by a merge patch.
func (c *Client) Merge(ctx context.Context, resource, namespace, name string, patch, v any) error {
	_, err := c.Do(ctx, Request{Method: http.MethodPatch, Path: path(resource, namespace, name), Patch: MergePatch, Body: patch}, v)
	return err
}

// AddOwner makes an object go when the last of its owners does, owner among them.
func (c *Client) AddOwner(ctx context.Context, resource, namespace, name string, owner Owner) error {
	patch := map[string]any{"metadata": map[string]any{"ownerReferences": []Owner{owner}}}
	_, err := c.Do(ctx, Request{Method: http.MethodPatch, Path: path(resource, namespace, name), Patch: StrategicPatch, Body: patch}, nil)
	return err
}

// Delete deletes the object with this uid, and in the background what it owns. An object that is
// not there, or another one of the name, is not an error.
func (c *Client) Delete(ctx context.Context, resource, namespace, name, uid string) error {
	options := map[string]any{"propagationPolicy": "Background", "preconditions": map[string]string{"uid": uid}}
	_, err := c.Do(ctx, Request{Method: http.MethodDelete, Path: path(resource, namespace, name), Body: options}, nil)
	if IsCode(err, http.StatusNotFound) || IsCode(err, http.StatusConflict) {
		return nil
	}
	return err
}

// ListAll reads all objects of a resource with the labels of a selector, page by page.
func ListAll[T any](ctx context.Context, c *Client, resource, namespace string, query url.Values) (all []T, version string, err error) {
	return listPages[T](ctx, c, path(resource, namespace, ""), query)
}

func listPages[T any](ctx context.Context, c *Client, path string, query url.Values) (all []T, version string, err error) {
	q := url.Values{}
	for k, v := range query {
		q[k] = v
	}
	q.Set("limit", strconv.Itoa(page))
	for {
		var l List[T]
		if _, err := c.Do(ctx, Request{Method: http.MethodGet, Path: path, Query: q}, &l); err != nil {
			return nil, "", err
		}
		all, version = append(all, l.Items...), l.Metadata.ResourceVersion
		if l.Metadata.Continue == "" {
			return all, version, nil
		}
		q.Set("continue", l.Metadata.Continue)
	}
}

// Nodes reads the cluster's machines.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	all, _, err := listPages[Node](ctx, c, allNodes, nil)
	return all, err
}

// Log reads the end of a container's output, at most so many lines and bytes.
func (c *Client) Log(ctx context.Context, namespace, pod, container string, lines, bytes int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	q := url.Values{"container": {container}, "tailLines": {strconv.Itoa(lines)}, "limitBytes": {strconv.Itoa(bytes)}}
	body, err := c.Open(ctx, path(Pods, namespace, pod)+"/log", q)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return readUpTo(body, bytes)
}

// Rules are the rights of the caller in a namespace.
type Rules struct {
	Incomplete bool   `json:"incomplete"`
	Resource   []Rule `json:"resourceRules"`
}

// Rule grants verbs on resources.
type Rule struct {
	Verbs         []string `json:"verbs"`
	APIGroups     []string `json:"apiGroups"`
	Resources     []string `json:"resources"`
	ResourceNames []string `json:"resourceNames,omitempty"`
}

// OwnRules asks for the caller's own rights, which every user may.
func (c *Client) OwnRules(ctx context.Context, namespace string) (Rules, error) {
	review := map[string]any{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": map[string]string{"namespace": namespace}}
	var answer struct{ Status Rules }
	_, err := c.Do(ctx, Request{Method: http.MethodPost, Path: reviewOwnRights, Body: review}, &answer)
	return answer.Status, err
}

// Version is the server's, such as 1.36.
type Version struct {
	Major string `json:"major"`
	Minor string `json:"minor"` // may end in a plus
}

// Version asks for the server's version.
func (c *Client) Version(ctx context.Context) (v Version, err error) {
	_, err = c.Do(ctx, Request{Method: http.MethodGet, Path: "/version"}, &v)
	return v, err
}
