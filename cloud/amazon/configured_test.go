package amazon

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/cloudtest"
)

// bare makes this a machine on which nothing is configured, and returns its home.
func bare(t *testing.T) (home string) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	home = t.TempDir()
	t.Setenv("HOME", home)
	for name, text := range map[string]string{"AWS_CONFIG_FILE": "config", "AWS_SHARED_CREDENTIALS_FILE": "credentials"} {
		t.Setenv(name, filepath.Join(home, text))
	}
	return home
}

// write makes a file below the home.
func write(t *testing.T, home, name, text string) {
	t.Helper()
	path := filepath.Join(home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// signedIn is what aws sso login leaves for a session.
func signedIn(t *testing.T, home, session, more string, until time.Time) {
	t.Helper()
	name := sha1.Sum([]byte(session))
	write(t, home, ".aws/sso/cache/"+hex.EncodeToString(name[:])+".json",
		fmt.Sprintf(`{"accessToken":"sesame","expiresAt":%q%s}`, until.UTC().Format(time.RFC3339), more))
}

const sso = "[sso-session corp]\nsso_start_url = https://x.invalid/start\nsso_region = eu-west-1\n" +
	"[profile work]\nsso_session = corp\nsso_account_id = 1\nsso_role_name = r\nregion = eu-west-1\n"

var configurations = map[string]struct {
	env      map[string]string
	config   string // of ~/.aws/config
	o        Options
	firmware map[string]string
	prepare  func(t *testing.T, home string)
	want     cloud.Configured
}{
	"nothing": {want: cloud.Configured{Missing: "the environment and profiles hold no credentials for AWS, and this machine is no instance of EC2", Fix: signInHint}},
	"keys of the environment": {env: map[string]string{"AWS_ACCESS_KEY_ID": "K", "AWS_SECRET_ACCESS_KEY": "S", "AWS_REGION": "eu-central-1"},
		want: cloud.Configured{As: "the user of AWS_ACCESS_KEY_ID", Region: "eu-central-1"}},
	"keys without a region": {env: map[string]string{"AWS_ACCESS_KEY_ID": "K", "AWS_SECRET_ACCESS_KEY": "S"},
		want: cloud.Configured{Missing: "there is no region", Fix: "Say where: aws configure set region REGION, or export AWS_REGION=REGION."}},
	"a profile": {config: "[profile train]\naws_access_key_id = K\naws_secret_access_key = S\nregion = us-west-2\n", env: map[string]string{"AWS_PROFILE": "train"},
		want: cloud.Configured{As: "the profile train", Region: "us-west-2"}},
	"a profile that is named comes before the environment": {config: "[profile train]\naws_access_key_id = K\naws_secret_access_key = S\n",
		env: map[string]string{"AWS_ACCESS_KEY_ID": "K", "AWS_SECRET_ACCESS_KEY": "S"}, o: Options{Profile: "train", Region: "us-west-2"},
		want: cloud.Configured{As: "the profile train", Region: "us-west-2"}},
	"a profile that is not there": {o: Options{Profile: "nosuch"},
		want: cloud.Configured{Missing: `there is no profile "nosuch" in ~/.aws`, Fix: "Try aws configure list-profiles."}},
	"a role of another profile": {config: "[default]\nregion = us-east-1\naws_access_key_id = K\naws_secret_access_key = S\n[profile admin]\nregion = us-east-1\nrole_arn = arn:aws:iam::1:role/admin\nsource_profile = default\n",
		o: Options{Profile: "admin"}, want: cloud.Configured{As: "the role arn:aws:iam::1:role/admin", Region: "us-east-1"}},
	"a role for keys that are not there": {config: "[profile admin]\nregion = us-east-1\nrole_arn = arn:aws:iam::1:role/admin\ncredential_source = Environment\n", o: Options{Profile: "admin"},
		want: cloud.Configured{Region: "us-east-1", Missing: "the profile admin is a role for the keys of the environment, which has none", Fix: "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."}},
	"a role for a container that this is none of": {config: "[profile admin]\nregion = us-east-1\nrole_arn = arn:aws:iam::1:role/admin\ncredential_source = EcsContainer\n", o: Options{Profile: "admin"},
		want: cloud.Configured{Region: "us-east-1", Missing: "the profile admin is a role for a container's credentials, and this is no such container", Fix: configHint}},
	"a program that gives them": {config: "[default]\nregion = us-east-1\ncredential_process = /bin/false\n", want: cloud.Configured{As: "the profile default", Region: "us-east-1"}},
	"never signed in": {config: sso, o: Options{Profile: "work"},
		want: cloud.Configured{Region: "eu-west-1", Missing: "the profile work is not signed in", Fix: "Sign in: aws sso login --profile work."}},
	"signed in": {config: sso, o: Options{Profile: "work"},
		prepare: func(t *testing.T, home string) { signedIn(t, home, "corp", "", time.Now().Add(time.Hour)) },
		want:    cloud.Configured{As: "the profile work", Region: "eu-west-1"}},
	"a sign-in that has ended": {config: sso, o: Options{Profile: "work"},
		prepare: func(t *testing.T, home string) { signedIn(t, home, "corp", "", time.Now().Add(-time.Hour)) },
		want:    cloud.Configured{Region: "eu-west-1", Missing: "the sign-in of the profile work has ended", Fix: "Sign in: aws sso login --profile work."}},
	"a sign-in that renews itself": {config: sso, o: Options{Profile: "work"},
		prepare: func(t *testing.T, home string) {
			signedIn(t, home, "corp", `,"refreshToken":"again"`, time.Now().Add(-time.Hour))
		},
		want: cloud.Configured{As: "the profile work", Region: "eu-west-1"}},
	"a pod's token that is not there": {env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/nonexistent/token", "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod", "AWS_REGION": "us-east-1"},
		want: cloud.Configured{Region: "us-east-1", Missing: "the token of the role arn:aws:iam::1:role/pod is not there: stat /nonexistent/token: no such file or directory",
			Fix: "Look at AWS_WEB_IDENTITY_TOKEN_FILE, and at web_identity_token_file in ~/.aws/config."}},
	"a pod's token": {env: map[string]string{"AWS_WEB_IDENTITY_TOKEN_FILE": "/dev/null", "AWS_ROLE_ARN": "arn:aws:iam::1:role/pod", "AWS_REGION": "us-east-1"},
		want: cloud.Configured{As: "the role arn:aws:iam::1:role/pod", Region: "us-east-1"}},
	"a container": {env: map[string]string{"AWS_CONTAINER_CREDENTIALS_FULL_URI": "http://creds.invalid/", "AWS_REGION": "us-east-1"},
		want: cloud.Configured{As: "this container's role", Region: "us-east-1"}},
	"an instance": {firmware: map[string]string{"sys_vendor": "Amazon EC2"}, want: cloud.Configured{As: "the role of this instance, if it has one"}},
	"an instance that may not be asked": {firmware: map[string]string{"sys_vendor": "Amazon EC2"}, env: map[string]string{"AWS_EC2_METADATA_DISABLED": "true"},
		want: cloud.Configured{Missing: "the environment and profiles hold no credentials for AWS, and AWS_EC2_METADATA_DISABLED forbids to ask for this machine's role", Fix: signInHint}},
	"a file that was handed over": {prepare: func(t *testing.T, home string) {
		write(t, home, "pass", `{"key":"k","secret":"s","region":"eu-north-1"}`)
	}, o: Options{File: "pass"},
		want: cloud.Configured{As: "the session that was handed over", Region: "eu-north-1"}},
	"a configuration that is none": {config: "[profile broken]\nsso_session = nosuch\nsso_account_id = 1\nsso_role_name = r\n", o: Options{Profile: "broken"},
		want: cloud.Configured{As: "", Missing: "the profile broken cannot be read: ", Fix: configHint}},
}

// tell asks each configuration as Configured does, on a machine made for it.
func tell(t *testing.T, ctx context.Context, check func(name string, got, want cloud.Configured)) {
	t.Helper()
	for name, c := range configurations {
		home := bare(t)
		write(t, home, "config", c.config)
		for name, value := range c.env {
			t.Setenv(name, value)
		}
		if c.prepare != nil {
			c.prepare(t, home)
		}
		if c.o.File != "" {
			c.o.File = filepath.Join(home, c.o.File)
		}
		f := finder{o: c.o, now: time.Now, firmware: func(name string) string { return c.firmware[name] }}
		got := f.configured(ctx)
		for name := range c.env {
			os.Unsetenv(name) // back at the end of the test
		}
		check(name, got, c.want)
	}
}

func TestAnAccountThatIsNotConfiguredIsSaidWithTheCommandToType(t *testing.T) {
	tell(t, t.Context(), func(name string, got, want cloud.Configured) {
		if strings.HasSuffix(want.Missing, ": ") && strings.HasPrefix(got.Missing, want.Missing) {
			got.Missing = want.Missing
		}
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
	cloudtest.Silent(t, func(ctx context.Context) {
		tell(t, ctx, func(string, cloud.Configured, cloud.Configured) {})
		bare(t)
		Configured(ctx, Options{})
		if _, err := Open(ctx, Options{}); err != nil {
			t.Error(err)
		}
	})
}
