package redact

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"
	"unicode/utf8"
)

const (
	// pieceSize is where a long secret is cut, so that no pattern is longer than
	// a few KB. It is a multiple of the 57 and of the 48 bytes that make a line of
	// wrapped base64, and of the 3 that make a group, so all pieces of an encoded
	// secret look alike. Pieces overlap by a group: no seam shows.
	pieceSize = 912
	group     = 3
	leastTail = 64 // a last piece is no shorter than this: it could be any word
	// leastLine is how long a line of a secret must be to be looked for by itself.
	leastLine = 16
)

// form is a secret as some program may write it.
type form struct {
	text string
	// loose has, for each byte of text, the bit that tells a capital from a small letter
	// where both are found, as in hexadecimal, and 0 elsewhere. text has small letters
	// there. It is "" where every byte is found as it is.
	loose string
}

// matchesBeginning reports whether b, which is not longer than the form, is its beginning.
func (f form) matchesBeginning(b []byte) bool {
	if f.loose == "" {
		return f.text[:len(b)] == string(b)
	}
	for i, c := range b {
		if c|f.loose[i] != f.text[i] {
			return false
		}
	}
	return true
}

// firstSpellings returns the first n bytes of the form in all their spellings.
func (f form) firstSpellings(n int) []string {
	all := []string{f.text[:n]}
	for i := 0; f.loose != "" && i < n; i++ {
		for _, s := range all[:len(all):len(all)] {
			if f.loose[i] != 0 {
				all = append(all, s[:i]+string(s[i]&^f.loose[i])+s[i+1:])
			}
		}
	}
	return all
}

const caseBit = 'a' - 'A'

// hexDigits are what stands for a byte or a character by its number, behind a mark.
var hexDigits = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`%(?:25)*[0-9a-fA-F]{2}|\\x[0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|=[0-9A-F]{2}`)
})

// loosened is a form that is found with letters of either case in the digits behind %, \x,
// \u and =.
func loosened(text string) form {
	spans := hexDigits().FindAllStringIndex(text, -1)
	if spans == nil {
		return form{text: text}
	}
	small, loose := []byte(text), make([]byte, len(text))
	for _, at := range spans {
		for i := at[0] + 1; i < at[1]; i++ {
			loosen(small, loose, i)
		}
	}
	return form{string(small), string(loose)}
}

// caseless is a form that is found in letters of either case.
func caseless(text string) form {
	small, loose := []byte(text), make([]byte, len(text))
	for i := range small {
		loosen(small, loose, i)
	}
	return form{string(small), string(loose)}
}

func loosen(small, loose []byte, i int) {
	if c := small[i] | caseBit; c >= 'a' && c <= 'z' && c != 'u' {
		small[i], loose[i] = c, caseBit
	}
}

// patterns gives all that is looked for of one secret: its pieces and its lines,
// each in all forms. Space around it is no part of it, as programs strip that.
func patterns(secret string) []form {
	parts := pieces(secret)
	for _, line := range strings.Split(strings.ReplaceAll(secret, `\n`, "\n"), "\n") { // \n: a key inside JSON
		line = strings.TrimSpace(line)
		if len(line) >= leastLine && line != secret && !strings.HasPrefix(line, "-----") {
			parts = append(parts, pieces(line)...)
		}
	}
	var all []form
	for _, part := range parts {
		all = append(all, forms(part)...)
	}
	slices.SortFunc(all, func(a, b form) int { return cmp.Or(cmp.Compare(a.text, b.text), cmp.Compare(a.loose, b.loose)) })
	return slices.Compact(all)
}

func pieces(text string) []string {
	var all []string
	for len(text) > pieceSize+leastTail {
		all = append(all, text[:pieceSize+group])
		text = text[pieceSize:]
	}
	return append(all, text)
}

// forms gives text as programs commonly write it. Many are the same; all are at
// least as long as text, but for base64 at least as long as 7 of 6 bytes.
func forms(text string) []form {
	all := []form{{text: text}, {text: reversed(text)}, caseless(hex.EncodeToString([]byte(text)))}
	for _, between := range []string{":", " ", "-", ",", ", ", ", 0x", ",0x", " 0x", "\\x", "%"} {
		begin := strings.TrimLeft(between, ", ")
		if len(begin) == 1 && begin != "%" { // 0x, \x and % stand before each byte, others only between two
			begin = ""
		}
		all = append(all, caseless(begin+bytewise(text, between)))
	}
	for _, encoded := range encodings(text) {
		all = append(all, loosened(encoded))
	}
	return all
}

// bytewise is text in hexadecimal, with its bytes apart.
func bytewise(text, between string) string {
	var b strings.Builder
	for i, c := range []byte(text) {
		if i > 0 {
			b.WriteString(between)
		}
		fmt.Fprintf(&b, "%02x", c)
	}
	return b.String()
}

// encodings gives text as programs commonly write it, but for hexadecimal.
func encodings(text string) (all []string) {
	for _, e := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding} {
		padded := e.EncodeToString([]byte(text))
		all = append(all, padded, strings.TrimRight(padded, "="))
		for before := range group {
			all = append(all, core(e, before, text))
		}
	}
	for _, width := range []int{76, 64} { // base64(1) and MIME; openssl and PEM
		c := core(base64.StdEncoding, 0, text)
		all = append(all, wrapped(c, width, "\n"), wrapped(c, width, "\r\n"))
	}
	all = append(all, percents(text)...)
	all = append(all, quotes(text)...)
	if utf8.ValidString(text) { // of other bytes these make question marks
		all = append(all, jsons(text)...)
		all = append(all, wide(text, 0, 8), wide(text, 8, 0))
	}
	return all
}

// core is the part of the base64 of a longer text that is the same whatever stands
// around text there, when so many bytes of a group come before it.
func core(e *base64.Encoding, before int, text string) string {
	whole := e.WithPadding(base64.NoPadding).EncodeToString([]byte("\x00\x00"[:before] + text))
	return whole[(before*8+5)/6 : (before+len(text))*8/6]
}

func wrapped(s string, width int, end string) string {
	var b strings.Builder
	for len(s) > width {
		b.WriteString(s[:width] + end)
		s = s[width:]
	}
	return b.String() + s
}

// percents gives what URLs and mail make of text.
func percents(text string) []string {
	all := []string{url.PathEscape(text), url.QueryEscape(text), url.QueryEscape(url.QueryEscape(text))}
	const unreserved = "-_.~"
	for _, kept := range []string{unreserved, unreserved + "/", unreserved + "!'()*"} { // RFC 3986, Python, JavaScript
		all = append(all, escaped(text, kept, "%%%02X"))
	}
	return append(all, escaped(text, " !\"#$%&'()*+,-./:;<>?@[\\]^_`{|}~", "=%02X")) // quoted-printable
}

// quotes gives what stands between the quotes of shells, of markup and of
// languages with strings other than JSON's.
func quotes(text string) []string {
	markup := html.EscapeString(text)
	double := strings.NewReplacer("&#34;", "&quot;").Replace(markup)
	golang, ascii := strconv.Quote(text), strconv.QuoteToASCII(text)
	single := strings.NewReplacer(`\"`, `"`, `'`, `\'`)
	return []string{
		markup, double, strings.ReplaceAll(double, "&#39;", "&#x27;"), strings.ReplaceAll(double, "&#39;", "&apos;"), strings.ReplaceAll(double, "&#39;", "'"),
		strings.ReplaceAll(text, `'`, `'\''`), strings.ReplaceAll(text, `'`, `'"'"'`),
		strings.NewReplacer(`\`, `\\`, `"`, `\"`, "$", `\$`, "`", "\\`").Replace(text),
		escaped(text, "_@%+=:,./-", `\%c`),
		golang[1 : len(golang)-1], ascii[1 : len(ascii)-1], single.Replace(golang[1 : len(golang)-1]),
		single.Replace(escaped(strings.ReplaceAll(text, `\`, `\\`), " !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", `\x%02x`)), // bytes in Python
	}
}

// jsons gives what stands between the quotes of JSON, as several writers have it,
// and of JSON inside JSON.
func jsons(text string) []string {
	web, plain := quoted(text, true), quoted(text, false)
	var ascii, each strings.Builder
	for _, r := range plain {
		if r < utf8.RuneSelf {
			ascii.WriteRune(r)
			continue
		}
		for _, u := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&ascii, `\u%04x`, u)
		}
	}
	for _, u := range utf16.Encode([]rune(text)) {
		fmt.Fprintf(&each, `\u%04x`, u)
	}
	return []string{each.String(), web, plain, ascii.String(), strings.ReplaceAll(plain, "/", `\/`), quoted(web, false), quoted(plain, false), quoted(plain, true), quoted(ascii.String(), false)}
}

func quoted(text string, forWeb bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(forWeb)
	if e.Encode(text) != nil { // no text is refused
		return text
	}
	return b.String()[1 : b.Len()-2]
}

// escaped writes each byte by format that is neither a letter nor a digit, and
// not in kept.
func escaped(text, kept, format string) string {
	var b strings.Builder
	for _, c := range []byte(text) {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c < utf8.RuneSelf && strings.IndexByte(kept, c) >= 0 {
			b.WriteByte(c)
		} else {
			fmt.Fprintf(&b, format, c)
		}
	}
	return b.String()
}

// wide is UTF-16, each unit's first byte being its bits from the first shift on.
func wide(text string, first, second int) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(text)) {
		b = append(b, byte(u>>first), byte(u>>second))
	}
	return string(b)
}

func reversed(text string) string {
	b := []byte(text)
	slices.Reverse(b)
	return string(b)
}
