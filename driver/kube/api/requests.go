package api

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
)

// The resources that the driver works with, as they stand in a path after the namespace's group.
const (
	Jobs           = "jobs"
	Pods           = "pods"
	ConfigMaps     = "configmaps"
	Secrets        = "secrets"
	Events         = "events"
	ResourceQuotas = "resourcequotas"
	LimitRanges    = "limitranges"
	LocalQueues    = "localqueues" // of Kueue, where it is installed
)

// groups are the paths of the resources that are not in the core group.
var groups = map[string]string{Jobs: "/apis/batch/v1", LocalQueues: "/apis/kueue.x-k8s.io/v1beta1"}

// page is how many objects of a list are read at once.
const page = 500

// path is that of a resource in a namespace; "" as the name means all of them.
func path(resource, namespace, name string) string {
	p := cmp.Or(groups[resource], "/api/v1") + "/namespaces/" + url.PathEscape(namespace) + "/" + resource
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
func ListAll[T any](ctx context.Context, c *Client, resource, namespace string, query url.Values) (all []T, err error) {
	all, _, err = ListFrom[T](ctx, c, resource, namespace, query)
	return all, err
}

// ListFrom is ListAll that gives the version from which Watch goes on.
func ListFrom[T any](ctx context.Context, c *Client, resource, namespace string, query url.Values) (all []T, version string, err error) {
	return listPages[T](ctx, c, path(resource, namespace, ""), query)
}

// watchTime is how long one request of a watch lasts, in seconds.
const watchTime = "570"

// Watch calls changed for each change of the objects that a list would have, after a version, until
// the server ends the request. last is the version from which the next one goes on. An *Error says
// that it cannot: the version is too old, or the user may not watch.
func (c *Client) Watch(ctx context.Context, resource, namespace string, query url.Values, version string, changed func()) (last string, err error) {
	q := url.Values{"watch": {"1"}, "allowWatchBookmarks": {"true"}, "timeoutSeconds": {watchTime}, "resourceVersion": {version}}
	for k, v := range query {
		q[k] = v
	}
	resp, err := c.send(ctx, Request{Method: http.MethodGet, Path: path(resource, namespace, ""), Query: q})
	if err != nil {
		return version, err
	}
	defer resp.Body.Close()
	for events := json.NewDecoder(resp.Body); ; {
		var e struct {
			Type   string `json:"type"`
			Object struct {
				Metadata Meta   `json:"metadata"`
				Code     int    `json:"code"`
				Reason   string `json:"reason"`
				Message  string `json:"message"`
			} `json:"object"`
		}
		if events.Decode(&e) != nil {
			return version, nil // the request has come to its end, or the connection has
		}
		switch o := e.Object; e.Type {
		case "ERROR":
			return version, &Error{Code: o.Code, Reason: o.Reason, Message: o.Message, Verb: "watch", Kind: resource}
		case "BOOKMARK":
			version = o.Metadata.ResourceVersion
		default:
			version = o.Metadata.ResourceVersion
			changed()
		}
	}
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
		all = append(all, l.Items...)
		if l.Metadata.Continue == "" {
			return all, l.Metadata.ResourceVersion, nil
		}
		q.Set("continue", l.Metadata.Continue)
	}
}

// Nodes reads the cluster's machines.
func (c *Client) Nodes(ctx context.Context) ([]Node, error) {
	all, _, err := listPages[Node](ctx, c, "/api/v1/nodes", nil)
	return all, err
}

// Rules are what the user may do in a namespace. whole is false where the server does not know all
// of it.
func (c *Client) Rules(ctx context.Context, namespace string) (rules []Rule, whole bool, err error) {
	type review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       struct {
			Namespace string `json:"namespace"`
		} `json:"spec"`
		Status struct {
			ResourceRules []Rule `json:"resourceRules"`
			Incomplete    bool   `json:"incomplete"`
		} `json:"status"`
	}
	r := review{APIVersion: "authorization.k8s.io/v1", Kind: "SelfSubjectRulesReview"}
	r.Spec.Namespace = namespace
	_, err = c.Do(ctx, Request{Method: http.MethodPost, Path: "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews", Body: r}, &r)
	return r.Status.ResourceRules, !r.Status.Incomplete, err
}
