package gcpbatch

import (
	"context"
	"net/http"
	"slices"

	"github.com/drover-run/drover/cloud/google/rest"
)

// asked are the permissions of a caller that are looked at, with the role of roles that has each. Nothing starts without those of Google Batch. What is granted on a
// service account by itself the project does not tell. Source: "Roles and permissions", IAM, 2026-11.
var asked = []struct{ permission, role string }{
	{"batch.jobs.create", editorRole}, {"batch.jobs.delete", editorRole}, {"batch.jobs.get", editorRole}, {"batch.jobs.list", editorRole}, {"batch.tasks.list", editorRole},
	{"secretmanager.secrets.create", secretsRole}, {"secretmanager.secrets.delete", secretsRole}, {"secretmanager.secrets.setIamPolicy", secretsRole}, {"secretmanager.versions.add", secretsRole},
	{"logging.logEntries.list", "roles/logging.viewer"}, {"compute.regions.get", "roles/compute.viewer"},
}

const (
	editorRole  = "roles/batch.jobsEditor"
	secretsRole = "roles/secretmanager.admin"
)

// lacks are the permissions that the caller does not have in a project: must are some without which nothing starts. hint is the command that grants the
// first of them. All are empty where Google does not tell.
func (e *engine) lacks(ctx context.Context, at site) (must, may []string, hint string) {
	ctx, cancel := context.WithTimeout(ctx, besideTime)
	defer cancel()
	caller := e.caller()
	var in, out struct {
		Permissions []string `json:"permissions"`
	}
	for _, a := range asked {
		in.Permissions = append(in.Permissions, a.permission)
	}
	if caller.Do(ctx, rest.Call{Doing: "look at permissions", Method: http.MethodPost, URL: caller.Address("cloudresourcemanager") + "/v1/projects/" + at.project + ":testIamPermissions", In: in, Out: &out}) != nil {
		return nil, nil, ""
	}
	for _, a := range asked {
		if slices.Contains(out.Permissions, a.permission) {
			continue
		}
		if hint == "" {
			hint = "Have an owner of the project run `gcloud projects add-iam-policy-binding " + at.project + " --member=user:YOU --role=" + a.role + "`."
		}
		if a.role == editorRole {
			must = append(must, a.permission)
		} else {
			may = append(may, a.permission)
		}
	}
	return must, may, hint
}
