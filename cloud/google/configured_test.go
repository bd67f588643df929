package google

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/cloudtest"
)

const account = "agents@p-1.iam.gserviceaccount.com"

var configurations = map[string]struct {
	env     map[string]string
	files   map[string]string // below the home
	account string
	product string // of the firmware
	want    cloud.Configured
}{
	"nothing": {want: cloud.Configured{Missing: "there are no application default credentials for Google Cloud, and this machine is none of Google's", Fix: SignInHint}},
	"a key file": {files: map[string]string{"key.json": `{"type":"service_account","client_email":"` + account + `","project_id":"p-1","private_key":"sesame"}`},
		env: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "key.json"}, want: cloud.Configured{As: account, Project: "p-1"}},
	"a file that is not there": {env: map[string]string{"GOOGLE_APPLICATION_CREDENTIALS": "none.json"}, product: "Google Compute Engine",
		want: cloud.Configured{Missing: "the credentials for Google Cloud cannot be read: open HOME/none.json: no such file or directory",
			Fix: "Look at HOME/none.json, which GOOGLE_APPLICATION_CREDENTIALS names, or unset it and run gcloud auth application-default login."}},
	"a file that is none": {files: map[string]string{".config/gcloud/application_default_credentials.json": `{"token":"sesame"`},
		want: cloud.Configured{Missing: "the credentials for Google Cloud cannot be read: HOME/.config/gcloud/application_default_credentials.json holds none", Fix: SignInHint}},
	"gcloud's": {files: map[string]string{".config/gcloud/application_default_credentials.json": `{"type":"authorized_user","refresh_token":"sesame","quota_project_id":"payer"}`},
		want: cloud.Configured{As: "the account of gcloud's application default credentials", Project: "payer"}},
	"a project that the environment names": {files: map[string]string{".config/gcloud/application_default_credentials.json": `{"type":"authorized_user","quota_project_id":"payer"}`},
		env: map[string]string{"GOOGLE_CLOUD_PROJECT": "p-2"}, want: cloud.Configured{As: "the account of gcloud's application default credentials", Project: "p-2"}},
	"a machine of Google's": {product: "Google Compute Engine", want: cloud.Configured{As: "this machine's account, if it has one"}},
	"a metadata server that the environment names": {env: map[string]string{"GCE_METADATA_HOST": "metadata.invalid"},
		want: cloud.Configured{As: "this machine's account, if it has one"}},
	"an account of gcloud's": {account: account, files: map[string]string{".config/gcloud/legacy_credentials/" + account + "/adc.json": `{"type":"authorized_user"}`},
		want: cloud.Configured{As: account}},
	"an account of the machine's": {account: account, product: "Google", want: cloud.Configured{As: account}},
	"an account that is nowhere": {account: account, want: cloud.Configured{Missing: "gcloud is not signed in as " + account + ", and this machine is none of Google's",
		Fix: "Sign this machine in as it: gcloud auth login " + account + ", or gcloud auth activate-service-account " + account + " --key-file=FILE."}},
}

// tell asks each configuration as Configured does, on a machine made for it.
func tell(t *testing.T, check func(name string, got, want cloud.Configured)) {
	t.Helper()
	for name, c := range configurations {
		home := t.TempDir()
		for _, name := range []string{"GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_CLOUD_PROJECT", "GCE_METADATA_HOST", "CLOUDSDK_CONFIG"} {
			t.Setenv(name, "")
		}
		t.Setenv("HOME", home)
		for name, text := range c.files {
			path := filepath.Join(home, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for name, value := range c.env {
			if strings.HasSuffix(value, ".json") {
				value = filepath.Join(home, value)
			}
			t.Setenv(name, value)
		}
		got := Source{Account: c.account}.configured(func(string) string { return c.product })
		got.Missing, got.Fix = strings.ReplaceAll(got.Missing, home, "HOME"), strings.ReplaceAll(got.Fix, home, "HOME")
		check(name, got, c.want)
	}
}

func TestAnAccountThatIsNotConfiguredIsSaidWithTheCommandToType(t *testing.T) {
	tell(t, func(name string, got, want cloud.Configured) {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if got.OK() != (got.Fix == "") || strings.Contains(fmt.Sprint(got), "sesame") {
			t.Errorf("%s: %+v", name, got)
		}
	})
}

// A list of targets asks each of them, also on a machine behind a network that swallows
// what is sent to a metadata server.
func TestToAskWhetherAnAccountIsConfiguredSendsNothing(t *testing.T) {
	cloudtest.Silent(t, func(context.Context) {
		tell(t, func(string, cloud.Configured, cloud.Configured) {})
		Source{}.Configured()
	})
}
