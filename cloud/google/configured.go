package google

import (
	"cmp"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/drover-run/drover/cloud"
)

// Configured says what the files and the environment of this machine have of an account, in
// the order in which Token looks. It sends nothing and looks up no name. The credentials that
// it finds may have been revoked.
func (s Source) Configured() cloud.Configured { return s.configured(cloud.FirmwareSays) }

func (s Source) configured(firmware func(string) string) cloud.Configured {
	home, _ := os.UserHomeDir() // "": nothing is found
	file, as := os.Getenv("GOOGLE_APPLICATION_CREDENTIALS"), "the account of GOOGLE_APPLICATION_CREDENTIALS"
	named := file != ""
	switch {
	case s.Account != "":
		file, as, named = accountFile(s.Account), s.Account, false
	case !named: // oauth2 looks there, whatever CLOUDSDK_CONFIG says
		file, as = filepath.Join(home, ".config", "gcloud", "application_default_credentials.json"), "the account of gcloud's application default credentials"
	}
	project := os.Getenv("GOOGLE_CLOUD_PROJECT")
	text, err := os.ReadFile(file)
	var in struct {
		Type    string `json:"type"`
		Project string `json:"project_id"`
		Payer   string `json:"quota_project_id"`
		Email   string `json:"client_email"`
	}
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named && onGoogle(firmware):
		return cloud.Configured{As: cmp.Or(s.Account, "this machine's account, if it has one"), Project: project}
	case errors.Is(err, fs.ErrNotExist) && !named && s.Account == "":
		return cloud.Configured{Project: project, Missing: "there are no application default credentials for Google Cloud, and this machine is none of Google's", Fix: s.signInHint()}
	case errors.Is(err, fs.ErrNotExist) && !named:
		return cloud.Configured{Project: project, Missing: "gcloud is not signed in as " + s.Account + ", and this machine is none of Google's", Fix: s.signInHint()}
	case err != nil:
		return cloud.Configured{Project: project, Missing: "the credentials for Google Cloud cannot be read: " + err.Error(), Fix: s.signInHint()}
	case json.Unmarshal(text, &in) != nil || in.Type == "": // an error of JSON would quote it
		return cloud.Configured{Project: project, Missing: "the credentials for Google Cloud cannot be read: " + file + " holds none", Fix: s.signInHint()}
	}
	return cloud.Configured{As: cmp.Or(in.Email, as), Project: cmp.Or(project, in.Project, in.Payer)}
}

// onGoogle says whether this machine has a metadata server, by its environment and its
// firmware: the alternative would be a request to that server.
func onGoogle(firmware func(string) string) bool {
	return os.Getenv("GCE_METADATA_HOST") != "" || strings.HasPrefix(firmware("product_name"), "Google")
}
