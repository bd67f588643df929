package program

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/dir"
)

// openBucket opens what --store names; endpoint is where the server of a bucket
// is, if its url does not say so.
func openBucket(ctx context.Context, url, endpoint string) (b store.Bucket, near bool, err error) {
	b, at, err := openStore(ctx, url, endpoint, "", 0)
	return b, at != far, err
}

// reach is where a store is.
type reach int

const (
	far    reach = iota // a bucket's service
	served              // a folder that comes over a network
	here                // a folder of this machine
)

// openStore is openBucket with two more arguments. pass is the file of a credential that was
// handed over, "": none. patience is how long to try a server that has never answered, 0: the
// default of its package.
func openStore(ctx context.Context, url, endpoint, pass string, patience time.Duration) (b store.Bucket, at reach, err error) {
	path := strings.TrimPrefix(url, "file://")
	switch scheme, _, ok := strings.Cut(path, "://"); {
	case ok && (scheme == "s3" || scheme == "gs"):
		b, err := openService(ctx, url, serviceOptions{endpoint: endpoint, passFile: pass, patience: patience})
		if err != nil {
			return nil, far, err
		}
		return injectFaults(b), far, nil
	case ok:
		return nil, far, fault.New(fault.Invalid, "Name a folder or a bucket: `--store /data/drover`, `--store s3://bucket/prefix`, `--store gs://bucket/prefix`.",
			"open store: this drover knows no %s:// stores", scheme)
	}
	for _, scheme := range []string{"s3", "gs"} {
		if rest, ok := strings.CutPrefix(path, scheme+":"); ok {
			return nil, far, fault.New(fault.Invalid, "Write it as "+store.Shown(scheme+"://"+strings.TrimLeft(rest, "/"))+".", "open store: %q is neither a folder nor a bucket", store.Shown(url))
		}
	}
	path, err = filepath.Abs(path)
	if err != nil {
		return nil, far, err
	}
	folder, err := dir.Open(path, dir.OS)
	if err != nil {
		return nil, far, err
	}
	if at = here; folder.Shared() {
		at = served
	}
	return injectFaults(folder), at, nil
}

// ofMachine is the profile of agents that use the account of their machine.
const ofMachine = "machine"

// owner returns the account that owns a bucket of Amazon's, if it is the caller's, and refuses
// a bucket of another account.
func owner(ctx context.Context, url, endpoint string, say func(string)) (string, error) {
	if !strings.HasPrefix(url, "s3://") {
		return "", nil
	}
	opened, err := openService(ctx, url, serviceOptions{endpoint: endpoint})
	if err != nil {
		return "", err
	}
	b, ok := opened.(owned)
	if !ok {
		return "", nil
	}
	account, err := b.Account(ctx)
	if err != nil {
		say("requests do not name the bucket's owner: " + err.Error())
		return "", nil
	}
	if account == "" {
		return "", nil
	}
	return account, b.OwnedBy(ctx, account)
}

// serviceOptions are the options that all services of buckets have.
type serviceOptions struct {
	endpoint string
	passFile string        // of a credential that was handed over; "": none
	patience time.Duration // how long to try a server that has never answered; 0: the service's own choice
	foreign  bool          // keys that drover never makes are listed, read and written too
	unsigned func()        // not nil: requests without credentials are allowed, and it is called when they begin
}

// service is a bucket of a service (buckets.go).
type service interface {
	store.Bucket
	granting
}

// owned is a bucket that belongs to an account of its service.
type owned interface {
	Account(ctx context.Context) (string, error)
	OwnedBy(ctx context.Context, account string) error
}

// granting is a bucket that can make narrow credentials, and say which rights to grant.
type granting interface {
	Policy(store.Rights) string
	Pass(ctx context.Context, r store.Rights, role string) (store.Pass, error)
	As(profile string) string // its name when opened with that profile, or account, of the opener's machine
	Profile() string          // the profile with which it is open here; "": none
}

// granter opens the bucket that others are to get rights on; nil: such a store has no rights.
func granter(ctx context.Context, url, endpoint string) func() (granting, error) {
	if scheme, _, _ := strings.Cut(url, "://"); scheme != "s3" && scheme != "gs" {
		return nil
	}
	return func() (granting, error) { return openService(ctx, url, serviceOptions{endpoint: endpoint}) }
}

// rights are the means by which agents and other users open such a store.
func rights(ctx context.Context, url, endpoint string, who cli.Agents) (cli.Rights, error) {
	open := granter(ctx, url, endpoint)
	if open == nil {
		return cli.Rights{}, nil
	}
	if p := who.Profile; p != "" && p != ofMachine && strings.HasPrefix(url, "gs:") && !isAccount(p) {
		return cli.Rights{}, fault.New(fault.Invalid, "Name an account, `--agent-profile NAME@PROJECT.iam.gserviceaccount.com`, or `--agent-profile machine`.",
			"open %s as %q: it is not a Google account", url, p)
	}
	own := sync.OnceValues(open) // most commands do not need it, and to read a configuration takes time
	r := cli.Rights{Policy: func(r store.Rights) (string, error) {
		b, err := own()
		if err != nil {
			return "", err
		}
		return b.Policy(r), nil
	}}
	r.Passes.Machine = func() (string, error) {
		b, err := own()
		if err != nil {
			return "", err
		}
		return b.As(""), nil
	}
	if who.Profile == "" {
		r.Passes.Make = ofCaller(own, who.Role)
		return r, nil
	}
	b, err := own()
	if err != nil {
		return r, err
	}
	if who.Profile == ofMachine {
		r.Passes.Store = b.As("")
		return r, nil
	}
	r.Passes = drover.Passes{Machine: r.Passes.Machine, Store: b.As(who.Profile), Make: ofProfile(granter(ctx, b.As(who.Profile), ""), who)}
	return r, nil
}

// ofCaller makes short-lived credentials from the user's own credential.
func ofCaller(own func() (granting, error), role string) func(context.Context, store.Rights, bool) (drover.Pass, error) {
	return func(ctx context.Context, r store.Rights, images bool) (drover.Pass, error) {
		b, err := own()
		if err != nil {
			return drover.Pass{}, err
		}
		if p := b.Profile(); p != "" && !images {
			return drover.Pass{Note: "agents open it as " + p + " of their machine"}, nil
		}
		p, err := b.Pass(ctx, r, role)
		if err != nil {
			return drover.Pass{}, err
		}
		return drover.Pass{File: p.File, Until: p.Until, Note: ofPass(p)}, nil
	}
}

// ofProfile makes credentials from a profile that was named for agents. The profile is read
// on their machine; agents in images see none of that machine's files, so for them it is read
// here.
func ofProfile(open func() (granting, error), who cli.Agents) func(context.Context, store.Rights, bool) (drover.Pass, error) {
	return func(ctx context.Context, r store.Rights, images bool) (drover.Pass, error) {
		note := "agents open it as " + who.Profile
		if !images {
			return drover.Pass{Note: note + " of their machine"}, nil
		}
		b, err := open()
		if err != nil {
			return drover.Pass{}, err
		}
		p, err := b.Pass(ctx, r, who.Role)
		return drover.Pass{File: p.File, Until: p.Until, Note: note}, err
	}
}

// shortPass: many jobs run longer, so the user is told that a credential ends sooner than that.
const shortPass = 2 * time.Hour

// ofPass says in half a line what agents are given.
func ofPass(p store.Pass) string {
	what := "your own key"
	switch {
	case p.File == nil:
		return ""
	case p.Wide && !p.Until.IsZero():
		what = "a session that may do all that you may, until " + p.Until.Local().Format(time.DateTime)
		fallthrough
	case p.Wide:
		return "agents are given " + what + ", as nothing narrower is to be had (" + p.Why + "): " + cmp.Or(p.Fix, "see docs/how-to/rights.md")
	}
	note := "agents are given a session for this task alone, until " + p.Until.Local().Format(time.DateTime)
	if time.Until(p.Until) < shortPass {
		note += "; it is renewed while a command is attached"
	}
	return note
}

// found says which clouds this machine has credentials for, by the files that the clouds' own
// tools read first. Only the test of the store shows whether they work.
func found() (lines []string) {
	there := func(env, inHome string) bool {
		home, err := os.UserHomeDir()
		if os.Getenv(env) != "" || err != nil {
			return os.Getenv(env) != ""
		}
		_, err = os.Stat(filepath.Join(home, inHome))
		return err == nil
	}
	if there("AWS_ACCESS_KEY_ID", ".aws/credentials") || there("AWS_PROFILE", ".aws/config") {
		lines = append(lines, "s3://bucket/prefix, as you are signed in to AWS here; another server's: s3://bucket/prefix?endpoint=http://host:9000")
	}
	if there("GOOGLE_APPLICATION_CREDENTIALS", ".config/gcloud/application_default_credentials.json") {
		lines = append(lines, "gs://bucket/prefix, as you are signed in to Google Cloud here")
	}
	return lines
}

// openPlace opens a bucket that is not drover's own, with any names in it.
func openPlace(ctx context.Context, place, endpoint string, say func(string)) (store.Bucket, error) {
	unsigned := func() { say("no credentials found: " + place + " is asked without, as a public bucket") }
	switch scheme, _, _ := strings.Cut(place, "://"); scheme {
	case "s3", "gs":
		b, err := openService(ctx, place, serviceOptions{endpoint: endpoint, foreign: true, unsigned: unsigned})
		if err != nil {
			return nil, err
		}
		return injectFaults(b), nil
	}
	b, _, err := openBucket(ctx, place, "")
	return b, err
}
