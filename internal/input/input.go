// Package input knows where the data of a job comes from: it reads what a user
// types after -i, finds files, folders and globs on this machine, fetches what
// has an https address, knows a bucket's when it sees one, and says which node gets
// which file.
//
// It refuses to know how data is stored, what it is for, and what another task has
// left: package bundle and the engine know that. Proved by its tests: tables of what
// may be typed, fuzz, the shell as oracle for globs, and servers that stop
// half-way, change their minds and lie.
package input

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Kind says where an input comes from.
type Kind int

// The kinds of inputs, by their job.Input.Path.
const (
	Local  Kind = iota // a file, folder or glob here, or file://: for Find
	Web                // https:// or http://: for Fetch
	Bucket             // s3:// or gs://: listed at submit, read by the agents
	Task               // task:NAME/model: for job.Input.TaskRef
)

// KindOf tells the kinds apart by the path alone: a folder that happens to be
// called "task:x" is typed "./task:x". A path of no known form is fault.Invalid.
func KindOf(text string) (Kind, error) {
	switch scheme := schemeOf(text); {
	case text == "":
		return Local, refuse(text, "Give a file or folder: -i NAME=PATH.", "it has no path")
	case strings.ContainsRune(text, 0):
		return Local, refuse(text, "Check the path.", "it holds a NUL byte")
	case scheme == "":
		return Local, nil
	case scheme == "task":
		return Task, checkTask(text)
	case scheme == "https" || scheme == "http":
		_, err := address(text)
		return Web, err
	case isBucket(scheme):
		return Bucket, checkBucket(text)
	case scheme == "file":
		_, err := fromFileURI(text)
		return Local, err
	default:
		return Local, refuse(text, "Use a file, folder or glob here, file://, https://, s3://, gs:// or task:NAME/model.", "drover does not know %s://", scheme)
	}
}

// schemeOf is what stands before "://", in lower case, or task before ":"; "" of
// a plain path.
func schemeOf(text string) string {
	scheme, rest, ok := strings.Cut(text, ":")
	if ok && scheme == "task" { // as job.Input.TaskRef has it
		return scheme
	}
	switch scheme = strings.ToLower(scheme); {
	case !ok || !strings.HasPrefix(rest, "//") || strings.Trim(scheme, "abcdefghijklmnopqrstuvwxyz0123456789+.-") != "":
		return ""
	}
	return scheme
}

func isBucket(scheme string) bool { return scheme == "s3" || scheme == "gs" }

// IsBucket says whether a text is the URL of a bucket, or of what is in one.
func IsBucket(text string) bool { return isBucket(schemeOf(text)) }

// checkBucket refuses what names no bucket; what its name may be its package knows.
func checkBucket(text string) error {
	scheme, rest, _ := strings.Cut(text, "://")
	name := rest[:len(rest)-len(strings.TrimLeft(rest, "abcdefghijklmnopqrstuvwxyz0123456789._-"))]
	below := strings.TrimPrefix(rest, name)
	switch {
	case store.HasUserinfo(text):
		// It would stand in the job's record, for all readers of the store.
		return refuse(text, "Leave out what is before the @: keys come from the environment or a profile.", "it holds a user's name or password")
	case scheme != strings.ToLower(scheme):
		return refuse(text, "Write "+strings.ToLower(scheme)+"://.", "a bucket's address begins in lower case")
	case name == "" || below != "" && below[0] != '/' && below[0] != '?':
		return refuse(text, "Write it as s3://bucket/folder or gs://bucket/folder.", "the bucket's name is missing")
	}
	return nil
}

// refuse says what is wrong with an input as it was typed. Of a web address
// only what is no secret is shown.
func refuse(text, hint, format string, args ...any) error {
	return fault.New(fault.Invalid, hint, "read input %q: "+format, append([]any{shown(text)}, args...)...)
}

// shown is a path for people: an address without what may be a secret in it.
func shown(text string) string {
	switch scheme := schemeOf(text); {
	case isBucket(scheme):
		return store.Shown(text)
	case scheme != "https" && scheme != "http":
		return text
	}
	scheme, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, more := strings.Cut(rest, "?")
	host, below, slash := strings.Cut(rest, "/")
	if i := strings.LastIndex(host, "@"); i >= 0 {
		host = "..." + host[i:]
	}
	if slash {
		host += "/" + below
	}
	if more && query != "" {
		host += "?..."
	}
	return scheme + "://" + host
}

// address reads a web address.
func address(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "https" && u.Scheme != "http":
		return nil, refuse(text, "Write it as https://HOST/FILE.", "it is not a web address")
	case u.User != nil:
		// It would stand in the job's record, for all that may read the store.
		return nil, refuse(text, "Download it first, and use -i FILE.", "it holds a user's name or password")
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// PathOf is the path that a file:// URI names, and any other text itself: also one of
// a URI that is none, or of another machine.
func PathOf(text string) string {
	if name, err := fromFileURI(text); err == nil {
		return name
	}
	return text
}

// fromFileURI is the absolute path that a file:// URI names.
func fromFileURI(text string) (string, error) {
	if schemeOf(text) != "file" {
		return "", refuse(text, "Write it as file:///FOLDER.", "it is not a file:// URI")
	}
	rest := text[len("file://"):]
	host, below, _ := strings.Cut(rest, "/")
	if host != "" && !strings.EqualFold(host, "localhost") {
		return "", refuse(text, "Write it as file:///FOLDER, with three slashes.", "it names the machine %q", host)
	}
	if strings.ContainsAny(below, "?#") {
		return "", refuse(text, "Write ? as %3F and # as %23.", "a path has no query")
	}
	name, err := url.PathUnescape(below)
	if err != nil || strings.ContainsRune(name, 0) {
		return "", refuse(text, "Write % as %25, and other bytes as % and two hex digits.", "it is not percent-encoded")
	}
	return path.Clean("/" + name), nil
}

// HasUserinfo reports whether a text is an address with a user's name or password in it:
// neither its host nor a bucket may be asked that way, and it may not be stored.
func HasUserinfo(text string) bool { return IsAddress(text) && store.HasUserinfo(text) }

// checkTask refuses what job.Input.TaskRef does, with what was likely meant.
func checkTask(text string) error {
	_, _, err := job.Input{Path: text}.TaskRef()
	if err == nil {
		return nil
	}
	parts := strings.Split(text[len("task:"):], "/")
	what := parts[len(parts)-1]
	hint := "Write it as task:NAME/model: " + strings.Join(job.Chains, ", ") + "."
	switch near := fault.Nearest(what, job.Chains); {
	case len(parts) == 3 && slices.Contains(job.Chains, parts[1]):
		hint = "For a folder of it write task:" + parts[0] + "/" + parts[1] + "::" + what + "."
	case near != "" && near != what:
		hint = "Did you mean " + near + "?"
	}
	return refuse(text, hint, "it is not something that a task leaves")
}
