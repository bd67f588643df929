package env

import (
	"context"
	"os"
	"strings"

	"github.com/drover-run/drover/internal/env/tools"
)

// pipSettings hands on what the caller told pip, which uv does not read:
// variables, because an index's address may hold a password and other users
// see arguments; and the few arguments that have no variable.
// What the caller says to uv itself wins.
func (b *builder) pipSettings(ctx context.Context) (environ, args []string) {
	var settings map[string]string
	for _, python := range []string{b.plan.self.Base, b.plan.self.Executable} {
		// pip itself merges its files and variables: it knows them all.
		out, err := tools.Answer(ctx, b.plan.caller.Dir, b.buildEnviron(), python, "-m", "pip", "config", "list")
		if err == nil {
			settings = parsePipConfig(out)
			break
		}
	}
	return translate(settings, b.plan.caller.Environ)
}

// translate turns pip's settings into uv's.
func translate(pip map[string]string, caller []string) (environ, args []string) {
	given := func(names ...string) bool {
		for _, n := range names {
			if tools.Variable(caller, n) != "" {
				return true
			}
		}
		return false
	}
	set := func(value, name string, others ...string) {
		if value != "" && !given(append(others, name)...) {
			environ = append(environ, name+"="+value)
		}
	}
	set(pip["index-url"], "UV_DEFAULT_INDEX", "UV_INDEX_URL")
	if extra := words(pip["extra-index-url"]); len(extra) > 0 {
		set(strings.Join(extra, " "), "UV_INDEX", "UV_EXTRA_INDEX_URL")
		// pip takes the best version of all indexes, and the author of the
		// setting for pip counts on it.
		set("unsafe-best-match", "UV_INDEX_STRATEGY")
	}
	set(strings.Join(present(words(pip["find-links"])), ","), "UV_FIND_LINKS")
	set(strings.Join(words(pip["trusted-host"]), " "), "UV_INSECURE_HOST")
	set(strings.Join(words(pip["constraint"]), " "), "UV_CONSTRAINT")
	set(pip["default-timeout"], "UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT")
	set(pip["timeout"], "UV_HTTP_TIMEOUT", "UV_REQUEST_TIMEOUT")
	set(pip["client-cert"], "SSL_CLIENT_CERT")
	set(pip["proxy"], "ALL_PROXY", "HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "all_proxy")
	set(pip["cert"], "SSL_CERT_FILE", "SSL_CERT_DIR")
	if pip["cert"] == "" && !given("SSL_CERT_FILE", "SSL_CERT_DIR", "UV_SYSTEM_CERTS", "UV_NATIVE_TLS") {
		// As pip does since 24.2: a company's own authority is in the system's store.
		environ = append(environ, "UV_SYSTEM_CERTS=1")
	}
	if on(pip["no-index"]) {
		args = append(args, "--no-index")
	}
	if on(pip["pre"]) {
		set("allow", "UV_PRERELEASE")
	}
	return environ, args
}

func words(s string) []string { return strings.Fields(strings.ReplaceAll(s, ",", " ")) }

func on(s string) bool {
	switch strings.ToLower(s) {
	case "1", "true", "yes", "on", "y", "t":
		return true
	}
	return false
}

// present leaves out folders that are not there: pip warns and goes on, uv stops.
func present(places []string) []string {
	var out []string
	for _, p := range places {
		path := strings.TrimPrefix(p, "file://")
		if _, err := os.Stat(path); err == nil || strings.Contains(path, "://") {
			out = append(out, p)
		}
	}
	return out
}

// A line of "pip config list": global.index-url='https://...'.
var settingAt = tools.Compiled(`^(:env:|[a-z-]+)\.([a-z-]+)=(.*)$`)

// parsePipConfig reads "pip config list" for the command install: its
// variables win over [install], and that over [global].
func parsePipConfig(out string) map[string]string {
	rank := map[string]int{"global": 1, "install": 2, ":env:": 3}
	values, from := map[string]string{}, map[string]int{}
	for _, line := range strings.Split(out, "\n") {
		m := settingAt().FindStringSubmatch(strings.TrimRight(line, "\r"))
		if m == nil || rank[m[1]] < max(from[m[2]], 1) {
			continue
		}
		values[m[2]], from[m[2]] = unquote(m[3]), rank[m[1]]
	}
	return values
}

// unquote reads a Python string literal as repr writes it; anything else is
// taken as it stands.
func unquote(s string) string {
	if len(s) < 2 || s[0] != s[len(s)-1] || s[0] != '\'' && s[0] != '"' {
		return s
	}
	escapes := map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', '\\': '\\', '\'': '\'', '"': '"'}
	var b strings.Builder
	s = s[1 : len(s)-1]
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			if c, ok := escapes[s[i+1]]; ok {
				b.WriteByte(c)
				i++
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
