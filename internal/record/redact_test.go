package record

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
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
				if p.matches(b[i : i+len(p.text)]) {
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
		return b.to - a.to // the longest, whose mask it is
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
	s := redaction{r: r}
	var out []byte
	for len(b) > 0 {
		n := min(len(b), 1+rnd.IntN(1+rnd.IntN(40)))
		piece := bytes.Clone(b[:n])
		out = append(out, s.next(piece)...)
		clear(piece) // as the next read into the buffer will
		if pauses && rnd.IntN(2) == 0 {
			out = append(out, s.release()...)
		}
		b = b[n:]
	}
	return string(append(out, s.end()...))
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
		s := redaction{r: r}
		var out []byte
		for _, piece := range []string{"see " + secret[:cut], secret[cut:], ". end"} {
			out = append(out, s.next([]byte(piece))...)
			out = append(out, s.release()...)
		}
		out = append(out, s.end()...)
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
		s := redaction{r: r}
		out := string(s.next([]byte("abcdefg")))
		if out != "" {
			t.Fatalf("%q was not held back", out)
		}
		out += string(s.release())
		out += string(s.release()) // nothing more
		out += string(s.next([]byte(rest)))
		if out += string(s.end()); out != want {
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
// those who indent or wrap them.
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

// TestWhatIsHeldBackIsShownToWhoWaits: a prompt may end in what begins a secret.
func TestWhatIsHeldBackIsShownToWhoWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDepot()
		w := makeWriter(t, Options{Store: d, ID: "a", Clock: bubble, Redact: NewRedactor(map[string]string{"A": "y or n, who knows"})})
		in, program := io.Pipe()
		done := make(chan error, 1)
		go func() { _, err := w.Copy(Stdout, 0, in); done <- err }()
		say := func(text, want string) {
			t.Helper()
			if _, err := program.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * tick)
			synctest.Wait()
			if err := w.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := stored(t, d); got != want {
				t.Errorf("after %q: %q, want %q", text, got, want)
			}
		}
		say("Continue? y or n", "Continue? y or n")
		say(", who", "Continue? y or n, who")
		say(" knows what", "Continue? y or n, who[redacted A] what")
		say("y", "Continue? y or n, who[redacted A] whaty")
		program.Close()
		if err := <-done; err != nil {
			t.Error(err)
		}
		shut(t, w)
		if len(w.outlets) != 0 {
			t.Errorf("%d outlets are left", len(w.outlets))
		}
	})
}

func stored(t *testing.T, s Store) string {
	t.Helper()
	var said []byte
	for _, f := range all(t, Read(t.Context(), s, prefix, Filter{})) {
		said = append(said, f.Data...)
	}
	return string(said)
}

// TestRedactedOutputComesInFrames: a mask is longer than a short secret, and a
// frame has its limit.
func TestRedactedOutputComesInFrames(t *testing.T) {
	d := newDepot()
	w := makeWriter(t, Options{Store: d, ID: "a", Clock: bubble, Redact: NewRedactor(map[string]string{"A_LONG_NAME": "hunter"})})
	write(t, w, Stdout, 0, []byte(strings.Repeat("hunter ", 30000)+"hunte"))
	shut(t, w)
	if got, want := stored(t, d), strings.Repeat("[redacted A_LONG_NAME] ", 30000)+"hunte"; got != want {
		t.Errorf("%d bytes came back, want %d", len(got), len(want))
	}
}

// TestStreamsAreRedactedApart: what one pipe and the other say is not one text.
func TestStreamsAreRedactedApart(t *testing.T) {
	d := newDepot()
	w := makeWriter(t, Options{Store: d, ID: "a", Clock: bubble, Redact: NewRedactor(map[string]string{"A": "hunter22"})})
	write(t, w, Stdout, 0, []byte("hunt"))
	write(t, w, Stderr, 0, []byte("er22 hunter22"))
	write(t, w, Stdout, 1, []byte("er22"))
	w.Note("it said hunter22")
	shut(t, w)
	if got, want := stored(t, d), "hunter22 [redacted A]er22it said [redacted A]\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func BenchmarkRedact(b *testing.B) {
	pem := "-----BEGIN PRIVATE KEY-----\n"
	for _, w := range slices.Sorted(maps.Keys(map[string]bool{"QmFzZTY0": true, "c3RyaW5n": true, "a2V5cw": true})) {
		pem += strings.Repeat(w, 8) + "\n"
	}
	text := chatter()
	for name, secrets := range map[string]map[string]string{
		"one":  {"A": "wJ4lrXUt9nFEM7iK7MDENG2bPxRf1CYzE8mPLqKe3Y"},
		"many": {"A": "wJ4lrXUt9nFEM7iK7MDENG2bPxRf1CYzE8mPLqKe3Y", "B": pem, "C": "correct horse battery staple", "D": "s3cr3t", "E": strings.Repeat("0123456789abcde\n", 200)},
		"near": {"A": "2026-11-21 was a day like others"}, // each line begins like it
	} {
		b.Run(name, func(b *testing.B) {
			r := NewRedactor(secrets)
			s := redaction{r: r}
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				for rest := text; len(rest) > 0; rest = rest[min(len(rest), maxFrame):] {
					s.next(rest[:min(len(rest), maxFrame)])
				}
			}
		})
	}
}
