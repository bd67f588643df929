package s3

import (
	"net/url"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// maxPrefix leaves room for the longest key in S3's 1,024 bytes, and a slash.
const maxPrefix = 1024 - store.MaxKey - 1

const placeHint = "Write it as s3://bucket/prefix, or s3://bucket/prefix?endpoint=http://host:9000 for a server that is not Amazon's."

// place is what a store's URL names.
type place struct {
	bucket string
	prefix string // "" or "team/project/"
	given  Options
}

// parse reads s3://bucket/prefix?endpoint=...&region=...&profile=...&owner=...&anonymous=true
// into a place; where the URL and o differ, the URL counts.
func parse(text string, o Options) (place, error) {
	refuse := func(why string, args ...any) (place, error) {
		return place{}, fault.New(fault.Invalid, placeHint, "open store %q: "+why, append([]any{store.Shown(text)}, args...)...)
	}
	u, err := url.Parse(text)
	before, _, _ := strings.Cut(text, "?")
	switch {
	case strings.Contains(before, "@"): // a key may hold what ends a host's name
		return refuse("a URL holds no keys: they come from the environment or a profile")
	case err != nil || u.Scheme != "s3":
		return refuse("not an s3:// URL")
	case u.Fragment != "" || u.Port() != "":
		return refuse("a bucket has neither port nor fragment; a server is named by endpoint")
	case !isBucket(u.Host):
		return refuse("%q is not a bucket's name", u.Host)
	case strings.HasSuffix(u.Host, "--x-s3"):
		return refuse("the listing of a directory bucket is not sorted, and drover reads logs in order: use a general purpose bucket")
	}
	p := place{bucket: u.Host, given: o}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		if err := store.CheckKey(prefix); err != nil || len(prefix) > maxPrefix-1 {
			return refuse("the prefix may be %d bytes of A-Z a-z 0-9 . _ - between single slashes, and no part of it begins with a dot", maxPrefix-1)
		}
		p.prefix = prefix + "/"
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return refuse("its query is not valid: %v", err)
	}
	for name, values := range query {
		value := values[len(values)-1]
		switch name {
		case "endpoint":
			p.given.Endpoint = value
		case "region":
			p.given.Region = value
		case "profile":
			p.given.Profile = value
		case "owner":
			p.given.Owner = value
		case "anonymous":
			p.given.Anonymous = value != "false"
		default:
			return refuse("there is no option %q; there are endpoint, region, profile, owner and anonymous", store.Shown(name))
		}
	}
	if why := p.given.whatIsWrong(); why != "" {
		return refuse("%s", why)
	}
	return p, nil
}

// whatIsWrong says which options contradict each other or are invalid.
func (o Options) whatIsWrong() string {
	if o.Endpoint != "" {
		u, err := url.Parse(o.Endpoint)
		switch {
		case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
			return "the endpoint is not an http:// or https:// URL"
		case u.User != nil || u.RawQuery != "" || u.Fragment != "":
			return "the endpoint may hold a scheme, a host and a port, and no keys"
		}
	}
	if o.Owner != "" && (len(o.Owner) != 12 || strings.Trim(o.Owner, "0123456789") != "") {
		return "the owner is an account's number of 12 digits"
	}
	if o.Anonymous && o.Profile != "" {
		return "it is either anonymous or with a profile"
	}
	return ""
}

// isBucket is wider than Amazon's rule of today: other servers, and buckets from
// before it, have longer names with capitals and underscores.
func isBucket(name string) bool {
	return len(name) >= 3 && len(name) <= 255 && name[0] != '.' && name[0] != '-' &&
		strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == "" &&
		!strings.Contains(name, "..")
}

// displayURL is the place as a user types it: with all that another machine needs to find the
// same place, and without what is particular to this machine or the default.
func (p place) displayURL(endpoint string) string {
	text := "s3://" + p.bucket
	if p.prefix != "" {
		text += "/" + strings.TrimSuffix(p.prefix, "/")
	}
	sep := "?"
	add := func(name, value string) {
		if value != "" {
			// Slashes and colons mean nothing in a query: people read this.
			value = strings.NewReplacer("%3A", ":", "%2F", "/").Replace(url.QueryEscape(value))
			text, sep = text+sep+name+"="+value, "&"
		}
	}
	if p.given.Anonymous {
		add("anonymous", "true")
	}
	add("endpoint", endpoint)
	add("owner", p.given.Owner)
	add("profile", p.given.Profile)
	add("region", p.given.Region)
	return text
}

// objectName is the object's name in the bucket.
func (p place) objectName(key string) *string { return aws.String(p.prefix + key) }
