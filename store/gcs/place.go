package gcs

import (
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

const (
	scheme = "gs://"
	home   = "https://storage.googleapis.com"
	// maxPrefix leaves store.MaxKey below the 1,024 bytes of a name, slash included.
	maxPrefix = 1024 - store.MaxKey - 1
)

const placeHint = "Write it as gs://BUCKET/PREFIX: `--store gs://my-bucket/drover`."

// place is what a store's URL names.
type place struct {
	name     string // of the bucket
	prefix   string // before every key; ends in a slash unless it is empty
	endpoint string // a server's scheme and host
	given    Options
}

// parse reads gs://bucket/prefix?account=...&anonymous=true&endpoint=...&project=...;
// what the URL says wins over what o says. The prefix is held to the rules of a
// key: what is below it then is too, and the whole fits into a name.
func parse(text string, o Options) (place, error) {
	refuse := func(why string, args ...any) (place, error) {
		return place{}, fault.New(fault.Invalid, placeHint, "open store %q: "+why, append([]any{store.Shown(text)}, args...)...)
	}
	path, query, _ := strings.Cut(text, "?")
	rest, ok := strings.CutPrefix(path, scheme)
	name, prefix, _ := strings.Cut(rest, "/")
	if !ok || !isBucketName(name) {
		return refuse("no name of a bucket")
	}
	p := place{name: name, given: o}
	if prefix = strings.TrimSuffix(prefix, "/"); prefix != "" {
		if err := store.CheckKey(prefix); err != nil {
			// Not the error itself: it quotes the prefix, which may hold a second URL.
			return refuse("the prefix may be %d bytes of A-Z a-z 0-9 . _ - between single slashes, and no part of it begins with a dot", maxPrefix-1)
		}
		if len(prefix) >= maxPrefix {
			return refuse("its prefix is longer than %d bytes", maxPrefix-1)
		}
		p.prefix = prefix + "/"
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return refuse("its query is not valid: %v", err)
	}
	for name, all := range values {
		switch value := all[len(all)-1]; name {
		case "account":
			p.given.Account = value
		case "anonymous":
			p.given.Anonymous = value != "false"
		case "endpoint":
			p.given.Endpoint = value
		case "project":
			p.given.Project = value
		default:
			return refuse("there is no option %q; there are account, anonymous, endpoint and project", store.Shown(name))
		}
	}
	return p, p.completeOptions()
}

// completeOptions finds out the rest here, and refuses what cannot be meant.
func (p *place) completeOptions() (err error) {
	if a := p.given.Account; a != "" && (p.given.Anonymous || !IsAccount(a)) {
		return fault.New(fault.Invalid, "Write it as ?account=NAME@PROJECT.iam.gserviceaccount.com, without anonymous.", "open store %s%s: %q is not a Google account", scheme, p.name, a)
	}
	if p.given.Endpoint == "" {
		p.given.Endpoint = os.Getenv("STORAGE_EMULATOR_HOST")
		p.given.Anonymous = p.given.Anonymous || p.given.Endpoint != ""
	}
	p.endpoint, err = parseEndpoint(p.given.Endpoint)
	return err
}

// IsAccount says whether a text may be the address of a user or a service account.
func IsAccount(s string) bool {
	name, domain, ok := strings.Cut(s, "@")
	plain := func(s string) bool {
		return s != "" && len(s) <= 128 && s[0] != '.' && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-") == ""
	}
	return ok && plain(name) && plain(domain)
}

// isBucketName lets through what Google may have: 3 to 63 of [a-z0-9_.-], longer
// with dots, a letter or digit at both ends.
func isBucketName(s string) bool {
	if len(s) < 3 || len(s) > 222 {
		return false
	}
	plain := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for i := range len(s) {
		if !plain(s[i]) && !strings.ContainsRune("_.-", rune(s[i])) {
			return false
		}
	}
	return plain(s[0]) && plain(s[len(s)-1])
}

func parseEndpoint(s string) (string, error) {
	if s == "" {
		return home, nil
	}
	whole := s
	if !strings.Contains(s, "://") {
		whole = "http://" + s // as Google's clients read STORAGE_EMULATOR_HOST
	}
	u, err := url.Parse(whole)
	if err != nil || u.Host == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" ||
		u.Scheme != "http" && u.Scheme != "https" {
		return "", fault.New(fault.Invalid, "Write it as http://HOST:PORT: `export STORAGE_EMULATOR_HOST=http://127.0.0.1:4443`.",
			"open store: %q is not an endpoint", store.Shown(s))
	}
	return u.Scheme + "://" + u.Host, nil
}

// String is the place as it is typed after --store: with what leads another machine
// to the same one. It holds no secrets.
func (p place) String() string {
	text, sep := scheme+p.name+strings.TrimSuffix("/"+p.prefix, "/"), "?"
	add := func(name, value string) {
		if value != "" {
			// Slashes and colons mean nothing in a query: people read this.
			value = strings.NewReplacer("%3A", ":", "%2F", "/", "%40", "@").Replace(url.QueryEscape(value))
			text, sep = text+sep+name+"="+value, "&"
		}
	}
	add("account", p.given.Account)
	if p.given.Anonymous && strings.HasPrefix(p.endpoint, "https:") { // no other is ever asked with credentials
		add("anonymous", "true")
	}
	if p.endpoint != home {
		add("endpoint", p.endpoint)
	}
	add("project", p.given.Project)
	return text
}

// As is the URL that opens the same place as an account of the opener's own machine;
// "": as that machine's default account.
func (b *Bucket) As(account string) string {
	p := b.place
	p.given.Account, p.given.Anonymous = account, false
	return p.String()
}

// Profile is the account that its URL or Options name; "": none.
func (b *Bucket) Profile() string { return b.given.Account }

// objectURL is the address of key.
func (p place) objectURL(key string) string {
	return p.endpoint + "/storage/v1/b/" + p.name + "/o/" + url.PathEscape(p.prefix+key)
}

// uploadURL is the address that takes new objects.
func (p place) uploadURL(q url.Values) string {
	return p.endpoint + "/upload/storage/v1/b/" + p.name + "/o?" + q.Encode()
}

func (p place) describeRequest(verb, key string) string {
	return fmt.Sprintf("%s %s in %s", verb, key, p)
}
