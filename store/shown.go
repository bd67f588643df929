package store

import (
	"regexp"
	"strings"
	"sync"
)

// Shown returns a URL of a bucket or server without the credentials in it, for errors,
// plans and listings, which end in logs and tickets. The URL need not be valid: most
// texts that reach Shown were refused because of a slip, such as & in place of ? before
// the query, or a second URL in the path.
//
// Everything from the first place where credentials may begin to the last @ becomes
// "...". They may begin after ://, after = in a query and at the start of the text, if a
// colon or an @ follows before the next separator; and in any later part of a path if a
// colon and then an @ follow. Percent-encoded separators count like plain ones. The values
// of account= and profile= may be e-mail addresses and are kept.
func Shown(url string) string {
	start, end := userinfo(url, false)
	if start < 0 {
		return url
	}
	return url[:start] + "..." + url[end:]
}

// HasUserinfo reports whether a user's name, key or password stands before the host of
// url, or of another URL inside it. A text for which it is true must not be stored. It
// is narrower than Shown, which also hides what only may be a password: an object may be
// named a:b@c, and http://host:80/photo@2x.png is an ordinary address.
func HasUserinfo(url string) bool {
	start, _ := userinfo(url, true)
	return start >= 0
}

// userinfo returns where the credentials in url begin, and the index of the @ that ends
// them; -1 if there are none. hostsOnly looks for them only behind a ://.
func userinfo(url string, hostsOnly bool) (start, end int) {
	if end = lastUserinfoEnd(url); end >= 0 {
		start = userinfoStart(url, hostsOnly)
	}
	if end < 0 || start < 0 || start > end {
		return -1, -1
	}
	return start, end
}

// accountParameter matches the query parameters with values that may hold an @.
var accountParameter = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)[?&](account|profile)=[a-z0-9._+-]+(@|%40)[a-z0-9.-]+(&|$)`)
})

// lastUserinfoEnd returns the index of the last @ that is not part of an account
// parameter, or -1.
func lastUserinfoEnd(url string) int {
	// Overwritten by as many bytes, so that indices stay valid.
	url = accountParameter().ReplaceAllStringFunc(url, func(s string) string { return strings.Repeat("&", len(s)) })
	return max(strings.LastIndexByte(url, '@'), strings.LastIndex(url, "%40"))
}

// userinfoStart returns the index at which credentials may begin, or -1.
func userinfoStart(url string, hostsOnly bool) int {
	begin := 0              // of the part between two separators
	authority := !hostsOnly // a colon or an @ alone marks credentials in this part
	colon := false          // the part has a colon
	before := [2]byte{0, 0} // the two characters before i, decoded
	for i := 0; i < len(url); {
		c, n := decodeAt(url, i)
		switch {
		case c == '@' && (authority || colon && !hostsOnly):
			return begin
		case c == ':' && authority && !beginsSchemeEnd(url, i+n) && !(hostsOnly && beginsPort(url[i+n:])):
			return begin
		case c == ':':
			colon = true
		case c == '/' || c == '?' || c == '&' || c == '=' || c == '#':
			authority = c == '=' && !hostsOnly || c == '/' && before == [2]byte{':', '/'}
			begin, colon = i+n, false
		}
		before = [2]byte{before[1], c}
		i += n
	}
	return -1
}

// beginsSchemeEnd reports whether the // of a :// begins at i.
func beginsSchemeEnd(url string, i int) bool {
	for range 2 {
		if i >= len(url) {
			return false
		}
		c, n := decodeAt(url, i)
		if c != '/' {
			return false
		}
		i += n
	}
	return true
}

// beginsPort reports whether text begins with a port's number and ends there, or goes on
// with a path or query.
func beginsPort(text string) bool {
	rest := strings.TrimLeft(text, "0123456789")
	return rest != text && (rest == "" || strings.ContainsRune("/?#&", rune(rest[0])))
}

// decodeAt returns the character at i and its length in the text: 3 if it is
// percent-encoded. Of encoded characters only separators are decoded.
func decodeAt(url string, i int) (c byte, n int) {
	if url[i] == '%' && i+3 <= len(url) {
		switch strings.ToUpper(url[i+1 : i+3]) {
		case "2F":
			return '/', 3
		case "3A":
			return ':', 3
		case "40":
			return '@', 3
		case "3D":
			return '=', 3
		case "26":
			return '&', 3
		case "3F":
			return '?', 3
		}
	}
	return url[i], 1
}
