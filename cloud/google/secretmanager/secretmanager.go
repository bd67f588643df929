// Package secretmanager keeps a job's secrets in Google's Secret Manager: one secret for all of its variables, as JSON, which ends by itself.
//
// It refuses to know what the variables are for. Proved by the tests of driver/gcpbatch.
package secretmanager

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/drover-run/drover/cloud/google/rest"
	"github.com/drover-run/drover/fault"
)

// Manager keeps the secrets of a project.
type Manager struct {
	Caller  *rest.Caller
	Project string
}

func (m Manager) parent() string {
	return m.Caller.Address("secretmanager") + "/v1/projects/" + m.Project + "/secrets"
}

// Store makes a secret with values by variable, which Google deletes at a time. account may read it, and nothing else: "" is left out. One of
// the name gets a new version.
func (m Manager) Store(ctx context.Context, name string, values map[string]string, until time.Time, account string) error {
	in := map[string]any{"replication": map[string]any{"automatic": map[string]any{}}, "expireTime": until.UTC().Format(time.RFC3339), "labels": map[string]string{"drover": "agents"}}
	address := m.parent() + "?" + url.Values{"secretId": {name}}.Encode()
	if err := m.Caller.Do(ctx, rest.Call{Doing: "make a secret in Secret Manager", Method: http.MethodPost, URL: address, In: in}); err != nil && !errors.Is(err, rest.ErrExists) {
		return err
	}
	if account != "" {
		policy := map[string]any{"policy": map[string]any{"bindings": []any{map[string]any{"role": "roles/secretmanager.secretAccessor", "members": []string{"serviceAccount:" + account}}}}}
		if err := m.Caller.Do(ctx, rest.Call{Doing: "let the agents read their secret", Method: http.MethodPost, URL: m.parent() + "/" + name + ":setIamPolicy", In: policy}); err != nil {
			return err
		}
	}
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	version := map[string]any{"payload": map[string]any{"data": text}}
	return m.Caller.Do(ctx, rest.Call{Doing: "store a secret in Secret Manager", Method: http.MethodPost, URL: m.parent() + "/" + name + ":addVersion", In: version})
}

// Read gives the values of a secret.
func (m Manager) Read(ctx context.Context, name string) (values map[string]string, err error) {
	var out struct {
		Payload struct {
			Data []byte `json:"data"`
		} `json:"payload"`
	}
	if err := m.Caller.Do(ctx, rest.Call{Doing: "read the job's secret in Secret Manager", Method: http.MethodGet, URL: m.parent() + "/" + name + "/versions/latest:access", Out: &out}); err != nil {
		return nil, err
	}
	if json.Unmarshal(out.Payload.Data, &values) != nil { // its error would quote it
		return nil, fault.New(fault.Invalid, "", "read the job's secret in Secret Manager: it is not drover's")
	}
	return values, nil
}

// Remove deletes a secret. One that is not there is no error.
func (m Manager) Remove(ctx context.Context, name string) error {
	err := m.Caller.Do(ctx, rest.Call{Doing: "delete the secret in Secret Manager", Method: http.MethodDelete, URL: fmt.Sprintf("%s/%s", m.parent(), name)})
	if errors.Is(err, rest.ErrNotFound) {
		return nil
	}
	return err
}
