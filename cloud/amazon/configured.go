package amazon

import (
	"cmp"
	"context"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/smithy-go/logging"

	"github.com/drover-run/drover/cloud"
)

const (
	listHint   = "Try aws configure list-profiles."
	configHint = "Look at ~/.aws/config and the AWS_ variables: env | grep ^AWS_."
	signInHint = "Sign in with aws sso login or aws configure, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
)

// Configured says what the files and the environment of this machine have of an account, in
// the order in which Open's Credentials look. It sends nothing, looks up no name, and starts
// no program that gives credentials. The credentials that it finds may have been revoked.
func Configured(ctx context.Context, o Options) cloud.Configured {
	f := finder{o: o, now: time.Now, firmware: cloud.FirmwareSays}
	if o.Clock != nil {
		f.now = o.Clock.Now
	}
	return f.configured(ctx)
}

// finder looks for an account.
type finder struct {
	o        Options
	now      func() time.Time
	firmware func(string) string

	env     config.EnvConfig
	profile string
	found   cloud.Configured
}

func (f *finder) configured(ctx context.Context) cloud.Configured {
	if f.o.File != "" {
		return f.ofFile()
	}
	var err error
	if f.env, err = config.NewEnvConfig(); err != nil {
		return cloud.Configured{Missing: "the environment cannot be read: " + err.Error(), Fix: configHint}
	}
	f.profile = cmp.Or(f.o.Profile, f.env.SharedConfigProfile, "default")
	shared, err := config.LoadSharedConfigProfile(ctx, f.profile, f.files)
	var none config.SharedConfigProfileNotExistError
	switch {
	case errors.As(err, &none) && (f.profile != "default" || f.o.Profile != ""):
		return cloud.Configured{Missing: fmt.Sprintf("there is no profile %q in ~/.aws", none.Profile), Fix: listHint}
	case err != nil && !errors.As(err, &none):
		return cloud.Configured{Missing: "the profile " + f.profile + " cannot be read: " + err.Error(), Fix: configHint}
	}
	switch named := f.o.Profile != ""; {
	case !named && f.env.Credentials.HasKeys():
		f.found.As = "the user of AWS_ACCESS_KEY_ID"
	case !named && f.env.WebIdentityTokenFilePath != "":
		f.byWebIdentity(f.env.WebIdentityTokenFilePath, f.env.RoleARN)
	default:
		f.byProfile(&shared)
	}
	f.found.Region = cmp.Or(f.o.Region, f.env.Region, shared.Region)
	if f.found.OK() && f.found.Region == "" && !f.onInstance() { // on an instance, the metadata has a region
		f.missing("there is no region", "Say where: aws configure set region REGION"+f.profileFlag()+", or export AWS_REGION=REGION.")
	}
	return f.found
}

// files are the files that the environment names, as Open reads them.
func (f *finder) files(o *config.LoadSharedConfigOptions) {
	o.Logger = logging.Nop{}
	if file := f.env.SharedCredentialsFile; file != "" {
		o.CredentialsFiles = []string{file}
	}
	if file := f.env.SharedConfigFile; file != "" {
		o.ConfigFiles = []string{file}
	}
}

func (f *finder) missing(what, fix string) { f.found.As, f.found.Missing, f.found.Fix = "", what, fix }

func (f *finder) profileFlag() string {
	if f.profile == "default" {
		return ""
	}
	return " --profile " + f.profile
}

func (f *finder) ofFile() cloud.Configured {
	file, err := (fileProvider{f.o.File}).read()
	if err != nil {
		return cloud.Configured{Missing: "the credential cannot be read: " + err.Error(), Fix: "Hand it over once more."}
	}
	return cloud.Configured{As: "the session that was handed over", Region: cmp.Or(f.o.Region, file.Region)}
}

// byProfile follows what one profile says.
func (f *finder) byProfile(c *config.SharedConfig) {
	f.found.As = "the profile " + f.profile
	switch {
	case c.Source != nil:
		f.byProfile(c.Source)
	case c.Credentials.HasKeys(), c.LoginSession != "", c.CredentialProcess != "":
	case c.CredentialSource == "Environment" && !f.env.Credentials.HasKeys():
		f.missing("the profile "+f.profile+" is a role for the keys of the environment, which has none", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
	case c.CredentialSource == "Environment":
	case c.CredentialSource == "Ec2InstanceMetadata":
		f.byInstance()
	case c.CredentialSource == "EcsContainer":
		f.byContainer()
	case c.WebIdentityTokenFile != "":
		f.byWebIdentity(c.WebIdentityTokenFile, c.RoleARN)
	case c.SSOSession != nil:
		f.bySignIn(c.SSOSession.Name)
	case c.SSOStartURL != "":
		f.bySignIn(c.SSOStartURL)
	case f.env.ContainerCredentialsRelativePath != "" || f.env.ContainerCredentialsEndpoint != "":
		f.byContainer()
	default:
		f.byInstance()
	}
	if f.found.OK() && c.RoleARN != "" {
		f.found.As = "the role " + c.RoleARN
	}
}

func (f *finder) byWebIdentity(file, role string) {
	if _, err := os.Stat(file); err != nil {
		f.missing("the token of the role "+role+" is not there: "+err.Error(), "Look at AWS_WEB_IDENTITY_TOKEN_FILE, and at web_identity_token_file in ~/.aws/config.")
		return
	}
	f.found.As = "the role " + role
}

func (f *finder) byContainer() {
	if f.env.ContainerCredentialsRelativePath == "" && f.env.ContainerCredentialsEndpoint == "" {
		f.missing("the profile "+f.profile+" is a role for a container's credentials, and this is no such container", configHint)
		return
	}
	f.found.As = "this container's role"
}

func (f *finder) byInstance() {
	switch {
	case strings.EqualFold(os.Getenv("AWS_EC2_METADATA_DISABLED"), "true"):
		f.missing("the environment and profiles hold no credentials for AWS, and AWS_EC2_METADATA_DISABLED forbids to ask for this machine's role", signInHint)
	case !f.onInstance():
		f.missing("the environment and profiles hold no credentials for AWS, and this machine is no instance of EC2", signInHint)
	default:
		f.found.As = "the role of this instance, if it has one"
	}
}

// onInstance says whether this machine is EC2's, by its firmware: the alternative would be a
// request to a metadata server.
func (f *finder) onInstance() bool {
	return f.firmware("sys_vendor") == "Amazon EC2" || f.firmware("bios_vendor") == "Amazon EC2" ||
		strings.HasSuffix(f.firmware("bios_version"), "amazon") // instances on Xen
}

// bySignIn looks at what aws sso login has left for a session, or for a start page.
func (f *finder) bySignIn(key string) {
	name := sha1.Sum([]byte(key))
	home, _ := os.UserHomeDir() // "": it is not found
	text, err := os.ReadFile(filepath.Join(home, ".aws", "sso", "cache", hex.EncodeToString(name[:])+".json"))
	var token struct {
		AccessToken, RefreshToken string
		ExpiresAt                 time.Time
	}
	fix := "Sign in: aws sso login" + f.profileFlag() + "."
	switch {
	case err != nil || json.Unmarshal(text, &token) != nil || token.AccessToken == "":
		f.missing("the profile "+f.profile+" is not signed in", fix)
	case token.RefreshToken == "" && f.now().After(token.ExpiresAt):
		f.missing("the sign-in of the profile "+f.profile+" has ended", fix)
	}
}
