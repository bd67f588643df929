package tools

import (
	"strings"
	"testing"
)

func TestMaskHidesPasswordsInAddresses(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"Looking in indexes: https://me:PW@host/simple, https://you:PW@other/simple": "Looking in indexes: https://***@host/simple, https://***@other/simple",
		"git+https://TOKEN@host/x.git":      "git+https://***@host/x.git",
		"https://host/simple and me@host":   "https://host/simple and me@host",
		"https://me:P@W@host/x":             "https://***@host/x",
		"https://host:8080/a/photo@2x.png":  "https://host:8080/a/photo@2x.png",
		"no address, and me@host":           "no address, and me@host",
		"https://pypi.org/simple/pkg@1.2.3": "https://pypi.org/simple/pkg@1.2.3",
	} {
		if got := Mask(line); got != want {
			t.Errorf("%q is logged as %q, want %q", line, got, want)
		}
	}
}

// FuzzMaskHidesPasswords: a password in the address of an index is in no line that is logged.
func FuzzMaskHidesPasswords(f *testing.F) {
	f.Add("Looking in indexes: https://", "user", "host/simple", "")
	f.Add("ERROR: git+https://", "oauth2", "gitlab.com/x.git", " failed")
	const password = "pAssw0rdpAssw0rd"
	f.Fuzz(func(t *testing.T, before, user, host, after string) {
		if !strings.HasSuffix(before, "://") || strings.ContainsAny(user, "/ \t\n\r\v\f@") || strings.ContainsAny(user, "\u0085\u00a0") || host == "" || strings.Contains(before+user+host+after, password) {
			return
		}
		line := before + user + ":" + password + "@" + host + after
		if strings.Contains(Mask(line), password) {
			t.Errorf("%q is logged as %q", line, Mask(line))
		}
	})
}
