package store_test

import (
	"strings"
	"testing"

	"github.com/drover-run/drover/store"
)

func TestShownHidesCredentialsWhereverASlipPutThem(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"s3://AKIA:PW@bucket/x":                            "s3://...@bucket/x",
		"s3://AKIA:P/W@bucket/x":                           "s3://...@bucket/x",
		"s3://b/p&endpoint=http://u:PW@h":                  "s3://b/p&endpoint=http://...@h",
		"s3://b/p?endpoint=http://u:PW@h:9000&region=x":    "s3://b/p?endpoint=http://...@h:9000&region=x",
		"s3://b?endpoint=http%3A%2F%2Fu%3APW%40h":          "s3://b?endpoint=http%3A%2F%2F...%40h",
		"s3://b?endpoint=u:PW@h:9000":                      "s3://b?endpoint=...@h:9000",
		"gs://b/x/https://u:PW@h":                          "gs://b/x/https://...@h",
		"gs://b/x/https:/u:PW@h":                           "gs://b/x/https:/...@h",
		"s3:/u:PW@b":                                       "...@b",
		"s3://u:PW@h/x?endpoint=http://v:PW@g":             "s3://...@g",
		"https://PW@h/x":                                   "https://...@h/x",
		"gs://b?endpoint=http://u:PW@h:1&account=me@p.com": "gs://b?endpoint=http://...@h:1&account=me@p.com",
		"u:PW@h":     "...@h",
		"u:P?W@h":    "...@h",
		"s3://b/p":   "s3://b/p",
		"s3://b/a@c": "s3://b/a@c", // an object of that name
		"s3://b/2024:01/c?endpoint=http://h:1&region=r":     "s3://b/2024:01/c?endpoint=http://h:1&region=r",
		"gs://b/x?account=me@p.iam.gserviceaccount.com":     "gs://b/x?account=me@p.iam.gserviceaccount.com",
		"gs://b?endpoint=http://127.0.0.1:44&account=a@b.c": "gs://b?endpoint=http://127.0.0.1:44&account=a@b.c",
		"": "",
	} {
		if got := store.Shown(url); got != want {
			t.Errorf("Shown(%q) = %q, want %q", url, got, want)
		}
	}
}

func TestHasUserinfoFindsCredentialsButNoNamesOfObjects(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"s3://AKIA:PW@b/x", "s3://b/p&endpoint=http://u:PW@h", "gs://b/x/https://u:PW@h", "https://token@h/x", "s3://b?endpoint=http%3A%2F%2Fu%3APW%40h"} {
		if !store.HasUserinfo(url) {
			t.Errorf("%q: no credentials found", url)
		}
	}
	for _, url := range []string{"", "s3://b/a:b@c", "s3://b/me@x/y", "gs://b?account=me@p.com", "s3://b?profile=me@corp", "https://h:80/photo@2x.png", "http://h:80?a@b", "file:///a:b@c", "me@host"} {
		if store.HasUserinfo(url) {
			t.Errorf("%q: credentials found", url)
		}
	}
}

// FuzzShownHidesPasswords: a password before the host of any URL in a text, however the
// rest of the text looks, is not in what is shown.
func FuzzShownHidesPasswords(f *testing.F) {
	f.Add("s3://", "AKIA", "bucket/prefix", "")
	f.Add("s3://bucket/p?endpoint=http://", "user", "host:9000", "&region=x")
	f.Add("s3://bucket/p&endpoint=http://", "user", "host:9000", "")
	f.Add("gs://bucket/x/https://", "user", "host", "?account=me@project.com")
	f.Add("https://", "u", "h/x", "?q=1")
	const password = "pAssw0rdpAssw0rd"
	f.Fuzz(func(t *testing.T, before, user, host, after string) {
		if !strings.HasSuffix(before, "://") || strings.ContainsAny(user, "/?@#") || host == "" || strings.Contains(before+user+host+after, password) {
			return
		}
		url := before + user + ":" + password + "@" + host + after
		if strings.Contains(store.Shown(url), password) {
			t.Errorf("%q is shown as %q", url, store.Shown(url))
		}
	})
}
