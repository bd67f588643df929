package secret

import (
	"math"
	"slices"
	"strings"
)

// What looks like a secret is found by two questions. A name such as WANDB_API_KEY
// says so itself, and then only an obviously harmless value clears it. A value
// says so by the mark its issuer gives to keys, or by being long and random;
// then no name clears it.

var (
	// secretWords end the names of secrets, also as accessToken or NPMTOKEN.
	secretWords = []string{"SECRET", "SECRETS", "TOKEN", "APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY"}
	// secretAnyhow says so wherever it stands: PGPASSWORD, MYSQL_PASSWORD_1.
	secretAnyhow = []string{"PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL"}
	// aboutOne ends the names of what is known of a secret, or leads to it.
	aboutOne = []string{"FILE", "PATH", "DIR", "FOLDER", "NAME", "ID", "URL", "URI", "ARN", "COLUMN", "FIELD", "TYPE", "LENGTH", "LEN", "SIZE",
		"COUNT", "LIMIT", "TTL", "HASH", "POLICY", "ENABLED", "REQUIRED"}
	// The words before KEY, TOKEN and PASS that make something else of them: in
	// tables, in tokenizers, in training loops.
	otherKeys = []string{"PUBLIC", "SORT", "PRIMARY", "FOREIGN", "PARTITION", "SHARD", "ROUTING", "GROUP", "JOIN", "INDEX", "CACHE", "ROW", "COLUMN",
		"MAP", "DICT", "DATA", "LABEL", "INPUT", "OUTPUT", "IMAGE", "TEXT", "METRIC", "FEATURE", "TARGET", "STATE", "S3", "OBJECT", "HOT"}
	otherTokens = []string{"PAD", "EOS", "BOS", "UNK", "MASK", "SEP", "CLS", "STOP", "START", "END", "NEXT", "SPECIAL", "IMAGE", "AUDIO", "NUM", "MAX",
		"MIN", "PER", "NEW", "TRIGGER"}
	otherPasses = []string{"OLD", "FIRST", "SECOND", "SINGLE", "FORWARD", "BACKWARD", "NUM"}
	// standIns are values of examples and switches.
	standIns = []string{"true", "false", "none", "null", "test", "dummy", "fake", "example", "changeme", "placeholder", "default", "auto", "unset",
		"redacted", "prompt"}
)

// secretName says whether a variable of this name commonly holds a secret.
func secretName(name string) bool {
	name = strings.ToUpper(name)
	words := strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '.' })
	if len(words) == 0 || slices.Contains(aboutOne, words[len(words)-1]) {
		return false
	}
	for _, w := range secretAnyhow {
		if strings.Contains(name, w) {
			return true
		}
	}
	last, before := words[len(words)-1], ""
	if len(words) > 1 {
		before = words[len(words)-2]
	}
	switch last {
	case "KEY": // alone it is as often a key of a table
		return before != "" && !slices.Contains(otherKeys, before)
	case "TOKEN":
		return !slices.Contains(otherTokens, before)
	case "PWD", "PASS": // alone, the shell's folder, or a round
		return before != "" && !slices.Contains(otherPasses, before)
	}
	return slices.ContainsFunc(secretWords, func(w string) bool { return strings.HasSuffix(last, w) })
}

// harmless says that a value is no secret whatever its name: a switch, a small
// number, a stand-in, a reference, a path.
func harmless(value string) bool {
	v := strings.ToLower(strings.TrimSpace(value))
	switch {
	case len(v) < 4 || slices.Contains(standIns, v):
		return true
	case len(v) < 5 && all(v, digit):
		return true
	case strings.Trim(v, v[:1]) == "": // ********, xxxxxxxx
		return true
	case v[0] == '$' && ValidVariable(strings.Trim(v[1:], "{}")): // quoted from the shell, and so not a value yet
		return true
	case v[0] == '<' && v[len(v)-1] == '>': // <your key>, <pad>
		return true
	}
	return isPath(strings.TrimSpace(value))
}

// isPath is for what can be nothing else: a random key may begin with a slash too.
func isPath(v string) bool {
	rooted := strings.HasPrefix(v, "/") || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") || strings.HasPrefix(v, "~/") || strings.HasPrefix(v, "file:")
	return rooted && !slices.ContainsFunc(strings.Split(v, "/"), func(part string) bool { return len(part) >= 16 && jumpy(part) })
}

// secretValue says whether a value is a secret by what it looks like.
func secretValue(v string) bool {
	switch {
	case strings.Contains(v, "-----BEGIN ") && strings.Contains(v, "PRIVATE KEY"):
		return true
	case strings.Contains(v, "AccountKey=") || strings.Contains(v, "SharedAccessKey="): // Azure's connection strings
		return true
	case passwordInAddress(v):
		return true
	}
	for _, word := range strings.FieldsFunc(v, func(r rune) bool { return !(tokenish(r) || r == '.') }) {
		if key(word) || webToken(word) {
			return true
		}
	}
	return random(strings.TrimSpace(v))
}

// issued are the marks that issuers put before their keys, with the fewest and
// the most characters that follow (0: any number).
var issued = []struct {
	mark        string
	least, most int
}{
	{"AKIA", 16, 16}, {"ASIA", 16, 16}, // AWS
	{"ghp_", 30, 0}, {"gho_", 30, 0}, {"ghu_", 30, 0}, {"ghs_", 30, 0}, {"ghr_", 30, 0}, {"github_pat_", 20, 0},
	{"glpat-", 20, 0}, {"glptt-", 20, 0},
	{"sk-", 20, 0}, {"sk_live_", 16, 0}, {"rk_live_", 16, 0}, {"sk_test_", 16, 0}, // OpenAI, Anthropic, Stripe
	{"xoxb-", 10, 0}, {"xoxp-", 10, 0}, {"xoxa-", 10, 0}, {"xoxr-", 10, 0}, {"xoxs-", 10, 0}, {"xapp-", 10, 0}, // Slack
	{"AIza", 35, 35}, {"ya29.", 20, 0}, {"GOCSPX-", 20, 0}, // Google
	{"hf_", 30, 0}, {"npm_", 36, 0}, {"pypi-", 50, 0}, {"r8_", 30, 0}, {"gsk_", 30, 0}, {"nvapi-", 30, 0},
	{"dop_v1_", 40, 0}, {"shpat_", 30, 0}, {"SG.", 40, 0}, {"dckr_pat_", 20, 0}, {"lin_api_", 30, 0},
}

// key says that word is one that its issuer has marked.
func key(word string) bool {
	for _, k := range issued {
		rest, ok := strings.CutPrefix(word, k.mark)
		// A digit, so that sk-learn-like names of ordinary things pass.
		if ok && len(rest) >= k.least && (k.most == 0 || len(rest) <= k.most) && all(rest, func(r rune) bool { return tokenish(r) || r == '.' }) &&
			strings.ContainsFunc(rest, digit) && strings.ContainsFunc(rest, letter) {
			return true
		}
	}
	return false
}

// webToken says that word is a signed web token: three parts of base64, of which
// the first is a JSON object.
func webToken(word string) bool {
	parts := strings.Split(word, ".")
	return len(parts) == 3 && len(word) >= 30 && strings.HasPrefix(parts[0], "eyJ") && strings.HasPrefix(parts[1], "eyJ")
}

// passwordInAddress finds scheme://user:password@host.
func passwordInAddress(v string) bool {
	_, rest, ok := strings.Cut(v, "://")
	if !ok {
		return false
	}
	authority, _, _ := strings.Cut(rest, "/")
	at := strings.LastIndexByte(authority, '@')
	if at < 0 {
		return false
	}
	_, password, ok := strings.Cut(authority[:at], ":")
	return ok && !harmless(password)
}

// PasswordInAddress reports whether text, such as a line of a file, holds an address with
// a password before its host, or with a token that its issuer has marked as one. A
// reference to a variable, ${NAME}, and stand-ins such as **** are no passwords.
func PasswordInAddress(text string) bool {
	if !strings.Contains(text, "://") {
		return false
	}
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`<>(),;|", r) }) {
		_, rest, ok := strings.Cut(word, "://")
		if !ok {
			continue
		}
		authority, _, _ := strings.Cut(rest, "/")
		if at := strings.LastIndexByte(authority, '@'); passwordInAddress(word) || at >= 0 && key(authority[:at]) {
			return true
		}
	}
	return false
}

// random says that a value is a long run of base64 that no person wrote. Digits
// and lower-case letters alone are digests, commits and job names far more often
// than keys, so they need a name that says so.
func random(v string) bool {
	if len(v) < 32 || isPath(v) || !all(v, func(r rune) bool { return tokenish(r) || r == '+' || r == '/' || r == '=' }) {
		return false
	}
	return strings.ContainsFunc(v, lower) && strings.ContainsFunc(v, upper) && strings.ContainsFunc(v, digit) && entropy(v) >= 3.8 && jumpy(v)
}

// jumpy says that the kind of letter changes as often as in random text, where
// 0.45 of all pairs do; 0.2 do in camelCase, less in Meta-Llama-3.1-8B-Instruct.
// A capital before a small letter begins a word and is not counted.
func jumpy(v string) bool {
	jumps := 0
	for i := 1; i < len(v); i++ {
		a, b := rune(v[i-1]), rune(v[i])
		if lower(a) && (upper(b) || digit(b)) || upper(a) && digit(b) || digit(a) && letter(b) {
			jumps++
		}
	}
	return float64(jumps) >= 0.28*float64(len(v)-1)
}

// entropy is in bits a character, by how often each occurs in v.
func entropy(v string) float64 {
	var count [256]float64
	for _, c := range []byte(v) {
		count[c]++
	}
	bits := 0.0
	for _, n := range count {
		if n > 0 {
			bits -= n / float64(len(v)) * math.Log2(n/float64(len(v)))
		}
	}
	return bits
}

func all(s string, ok func(rune) bool) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !ok(r) })
}

func lower(r rune) bool    { return r >= 'a' && r <= 'z' }
func upper(r rune) bool    { return r >= 'A' && r <= 'Z' }
func digit(r rune) bool    { return r >= '0' && r <= '9' }
func letter(r rune) bool   { return lower(r) || upper(r) }
func tokenish(r rune) bool { return letter(r) || digit(r) || r == '_' || r == '-' }

func ValidVariable(k string) bool {
	if k == "" || k[0] >= '0' && k[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(k, func(r rune) bool {
		return r != '_' && !(r >= 'a' && r <= 'z') && !(r >= 'A' && r <= 'Z') && !(r >= '0' && r <= '9')
	})
}
