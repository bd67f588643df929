package redact

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/record/recordtest"
)

// naive is what redacting b means: each place of each pattern, by brute force.
func naive(r *Redactor, b []byte) string {
	type span struct {
		from, to int
		mask     string
	}
	var all []span
	for _, patterns := range r.by {
		for _, p := range patterns {
			for i := 0; i+len(p.text) <= len(b); i++ {
				if p.matchesBeginning(b[i : i+len(p.text)]) {
					all = append(all, span{i, i + len(p.text), p.mask})
				}
			}
		}
	}
	// Stable: what two secrets have in common has the first one's name.
	slices.SortStableFunc(all, func(a, b span) int {
		if a.from != b.from {
			return a.from - b.from
		}
		return b.to - a.to // the longest, which gives the mask
	})
	var out strings.Builder
	end, mask := 0, ""
	for _, s := range all {
		if s.from > end || s.from == end && s.mask != mask {
			out.Write(b[end:s.from])
			out.WriteString(s.mask)
			mask = s.mask
		}
		end = max(end, s.to)
	}
	out.Write(b[end:])
	return out.String()
}

// inPieces redacts b in random pieces, with a pause before each where pauses say so.
func inPieces(r *Redactor, b []byte, rnd *rand.Rand, pauses bool) string {
	s := Stream{r: r}
	var out []byte
	for len(b) > 0 {
		n := min(len(b), 1+rnd.IntN(1+rnd.IntN(40)))
		piece := bytes.Clone(b[:n])
		out = append(out, s.Next(piece)...)
		clear(piece) // as the next read into the buffer will
		if pauses && rnd.IntN(2) == 0 {
			out = append(out, s.Release()...)
		}
		b = b[n:]
	}
	return string(append(out, s.End()...))
}

func FuzzRedact(f *testing.F) {
	f.Add("secret", "password", []byte("a secret and a pasecretword password"), uint64(1))
	f.Add("ababab", "bababc", []byte("abababababcabab"), uint64(2))
	f.Add("aaaaaa", "aaaaaaa", []byte("aaaaaaaaaaaaaaaaaaa aaaaaaa aaaaaab"), uint64(3))
	f.Add("with\nsixteen-letters-or-more\nlines", "x", []byte("sixteen-letters-or-more\n"), uint64(4))
	f.Add("p@ss w'rd\"\\<&>", "ünïcödé", []byte(`p%40ss+w%27rd`), uint64(5))
	f.Fuzz(func(t *testing.T, one, two string, text []byte, seed uint64) {
		if len(one)+len(two) > 300 || len(text) > 1000 { // brute force is slow
			return
		}
		r := NewRedactor(map[string]string{"ONE": one, "TWO": two})
		for _, s := range []string{one, two} { // so that there is something to find
			if trimmed := strings.TrimSpace(s); trimmed != "" {
				all := forms(trimmed)
				text = append(text, all[seed%uint64(len(all))].spelling(seed)...)
			}
		}
		compare(t, r, text, seed)
	})
}

// spelling returns the form with letters of either case where both are found.
func (f form) spelling(seed uint64) string {
	b := []byte(f.text)
	for i := range b {
		if f.loose != "" && seed>>(i%61)&1 == 1 {
			b[i] &^= f.loose[i]
		}
	}
	return string(b)
}

func compare(t *testing.T, r *Redactor, text []byte, seed uint64) {
	t.Helper()
	rnd := rand.New(rand.NewPCG(seed, 1))
	want := naive(r, text)
	if got := inPieces(r, text, rnd, false); got != want {
		t.Fatalf("in pieces %q became %q, want %q", text, got, want)
	}
	if got := r.String(string(text)); got != want {
		t.Fatalf("at once %q became %q, want %q", text, got, want)
	}
	var b bytes.Buffer
	w := r.Writer(&b)
	if n, err := w.Write(text); n != len(text) || err != nil || w.Close() != nil || b.String() != want {
		t.Fatalf("through a writer %q became %q, want %q", text, b.String(), want)
	}
}

// TestRandomTextIsRedactedAsByBruteForce: few letters, so that secrets overlap
// with themselves and with each other all the time.
func TestRandomTextIsRedactedAsByBruteForce(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		word := func(n int) string {
			b := make([]byte, n)
			for i := range b {
				b[i] = "abAB\n"[rnd.IntN(2+rnd.IntN(4))]
			}
			return string(b)
		}
		secrets := map[string]string{"A": word(6 + rnd.IntN(4)), "B": word(rnd.IntN(12)), "C": word(rnd.IntN(60))}
		r := NewRedactor(secrets)
		text := word(rnd.IntN(300))
		for range 3 {
			text += secrets[[]string{"A", "B", "C"}[rnd.IntN(3)]] + word(rnd.IntN(9))
		}
		compare(t, r, []byte(text), seed)
		found += strings.Count(r.String(text), "[redacted ")
	}
	if found < 1000 {
		t.Errorf("only %d secrets were found: nothing was proved", found)
	}
}

// TestAfterAPauseTheRestOfASecretIsMasked: what is shown while a program waits is
// never all of a secret.
func TestAfterAPauseTheRestOfASecretIsMasked(t *testing.T) {
	t.Parallel()
	const secret = "xyxyzzyxyxyz"
	r := NewRedactor(map[string]string{"A": secret})
	for cut := 1; cut < len(secret); cut++ {
		s := Stream{r: r}
		var out []byte
		for _, piece := range []string{"see " + secret[:cut], secret[cut:], ". end"} {
			out = append(out, s.Next([]byte(piece))...)
			out = append(out, s.Release()...)
		}
		out = append(out, s.End()...)
		if want := "see " + secret[:cut] + "[redacted A]. end"; string(out) != want {
			t.Errorf("cut at %d: %q, want %q", cut, out, want)
		}
	}
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		text := strings.Repeat("xyzz", rnd.IntN(4)) + secret + "xyxyzz" + secret + secret[:rnd.IntN(len(secret))]
		got := inPieces(r, []byte(text), rnd, true)
		if strings.Contains(got, secret) || !strings.Contains(got, "[redacted A]") {
			t.Fatalf("%q became %q", text, got)
		}
		plain := strings.NewReplacer("[redacted A]", "").Replace(got)
		if !isSubsequence(plain, text) {
			t.Fatalf("%q became %q: letters that were never said", text, got)
		}
	}
}

// TestAfterAPauseNothingIsShownTwiceOrLeftOut: what was shown is looked at again.
func TestAfterAPauseNothingIsShownTwiceOrLeftOut(t *testing.T) {
	t.Parallel()
	r := NewRedactor(map[string]string{"A": "abcdef", "B": "efghij", "C": "abcdefgZZZ"})
	for rest, want := range map[string]string{
		"x":       "[redacted A]gx",
		"hij.":    "[redacted A]g[redacted B].", // the rest of B
		"ZZZ.":    "[redacted A]g[redacted C].",
		"ZZ.":     "[redacted A]gZZ.",
		"efghij.": "[redacted A]g[redacted B].",
	} {
		s := Stream{r: r}
		out := string(s.Next([]byte("abcdefg")))
		if out != "" {
			t.Fatalf("%q was not held back", out)
		}
		out += string(s.Release())
		out += string(s.Release()) // nothing more
		out += string(s.Next([]byte(rest)))
		if out += string(s.End()); out != want {
			t.Errorf("abcdefg, pause, %s: %q, want %q", rest, out, want)
		}
	}
}

func TestOneSecretOfTwoNamesHasTheFirst(t *testing.T) {
	t.Parallel()
	r := NewRedactor(map[string]string{"B": "hunter22", "A": "hunter22", "C": "hunter2"})
	if got := r.String("hunter22 hunter2"); got != "[redacted A] [redacted C]" {
		t.Errorf("got %q", got)
	}
}

func isSubsequence(short, long string) bool {
	for i := 0; i < len(long) && short != ""; i++ {
		if short[0] == long[i] {
			short = short[1:]
		}
	}
	return short == ""
}

func TestShortSecretsAreNamedAndLeft(t *testing.T) {
	t.Parallel()
	r := NewRedactor(map[string]string{"PIN": "12345", "EMPTY": "", "SPACE": " \n abc  ", "LONG": " 123456\n"})
	if got := fmt.Sprint(r.Short()); got != "[EMPTY PIN SPACE]" {
		t.Errorf("too short: %s", got)
	}
	if got := r.String("12345 abc 1234567"); got != "12345 abc [redacted LONG]7" {
		t.Errorf("got %q", got)
	}
}

func TestNoRedactorChangesNothing(t *testing.T) {
	t.Parallel()
	for _, r := range []*Redactor{nil, NewRedactor(nil)} {
		if got := r.String("text"); got != "text" || len(r.Short()) != 0 {
			t.Errorf("got %q, %q", got, r.Short())
		}
		var b bytes.Buffer
		w := r.Writer(&b)
		if _, err := w.Write([]byte("text")); err != nil || w.Close() != nil || b.String() != "text" {
			t.Errorf("written: %q, %v", b.String(), err)
		}
	}
}

func TestTheMaskSaysNothingOfTheLength(t *testing.T) {
	t.Parallel()
	rnd, long := rand.New(rand.NewPCG(1, 1)), ""
	for len(long) < 8000 { // seams show in what does not repeat
		long += fmt.Sprintf("%x-", rnd.Uint64())
	}
	for name, secret := range map[string]string{"short": "hunter22", "long": long} {
		r := NewRedactor(map[string]string{"A": secret})
		for _, text := range []string{secret, secret + secret, reversed(secret), fmt.Sprintf("%x", secret)} {
			if got := r.String("<" + text + ">"); got != "<[redacted A]>" {
				t.Errorf("%s: %.80q", name, got)
			}
		}
		wrapped := regexp.MustCompile(".{76}").ReplaceAllString(base64.StdEncoding.EncodeToString([]byte(secret)), "$0\n")
		for _, text := range []string{base64.URLEncoding.EncodeToString([]byte("a" + secret + "b")), base64.StdEncoding.EncodeToString([]byte("ab" + secret)), wrapped} {
			if got := r.String(text); len(got) > len("ab[redacted A]c===") || strings.Count(got, "[redacted A]") != 1 {
				t.Errorf("%s in base64: %.80q", name, got)
			}
		}
	}
}

// TestLinesOfASecretAreSecrets: programs print keys a line at a time, and so do
// programs that indent or wrap them.
func TestLinesOfASecretAreSecrets(t *testing.T) {
	t.Parallel()
	lines := []string{"MIIEpAIBAAKCAQEAx1y2z3", "Qk3Jm9sVtB7nLp0aWc8dEf", "dEfGh1"}
	pem := "-----BEGIN PRIVATE KEY-----\n" + strings.Join(lines, "\n") + "\n-----END PRIVATE KEY-----\n"
	inJSON := `{"private_key": "` + strings.ReplaceAll(pem, "\n", `\n`) + `"}`
	for name, secret := range map[string]string{"pem": pem, "dos": strings.ReplaceAll(pem, "\n", "\r\n"), "json": inJSON} {
		r := NewRedactor(map[string]string{"K": secret})
		said := "  " + lines[0] + "\r\n> " + lines[1] + "\n" + strings.Repeat("-", 30)
		if got := r.String(said); got != "  [redacted K]\r\n> [redacted K]\n"+strings.Repeat("-", 30) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func BenchmarkRedact(b *testing.B) {
	pem := "-----BEGIN PRIVATE KEY-----\n"
	for _, w := range slices.Sorted(maps.Keys(map[string]bool{"QmFzZTY0": true, "c3RyaW5n": true, "a2V5cw": true})) {
		pem += strings.Repeat(w, 8) + "\n"
	}
	text := recordtest.TrainingLog()
	for name, secrets := range map[string]map[string]string{
		"one":  {"A": "wJ4lrXUt9nFEM7iK7MDENG2bPxRf1CYzE8mPLqKe3Y"},
		"many": {"A": "wJ4lrXUt9nFEM7iK7MDENG2bPxRf1CYzE8mPLqKe3Y", "B": pem, "C": "correct horse battery staple", "D": "s3cr3t", "E": strings.Repeat("0123456789abcde\n", 200)},
		"near": {"A": "2026-11-21 was a day like others"}, // each line begins like it
	} {
		b.Run(name, func(b *testing.B) {
			r := NewRedactor(secrets)
			s := Stream{r: r}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for rest := text; len(rest) > 0; rest = rest[min(len(rest), 64<<10):] {
					s.Next(rest[:min(len(rest), 64<<10)])
				}
			}
		})
	}
}
