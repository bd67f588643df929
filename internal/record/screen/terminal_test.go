package screen

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestATerminalFilterKeepsColoursAndProgressBars(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain\tüñï 漢字 \u202eعربى\n":                                       "plain\tüñï 漢字 \u202eعربى\n",
		"\x1b[1;31mred\x1b[0m\x1b[38;5;8m":                                 "\x1b[1;31mred\x1b[0m\x1b[38;5;8m",
		" 10%\r 20%\x1b[K\b\a":                                             " 10%\r 20%\x1b[K\b\a",
		"a\nb\n\x1b[2A\x1b[2K\x1b[J\x1b[B\x1b[5G\x1b[1C":                   "a\nb\n\x1b[2A\x1b[2K\x1b[J\x1b[B\x1b[5G\x1b[1C",
		"\x1b[?25lwait\x1b[?25h":                                           "\x1b[?25lwait\x1b[?25h",
		"a\n\x1b[9A":                                                       "a\n\x1b[1A", // not above its own first line
		"a\n\x1b[A\x1b[A\x1b[F":                                            "a\n\x1b[1A",
		"\x1b[A\x1b[1F":                                                    "",
		"\x1b]52;c;cm0gLXJmIH4K\aafter":                                    "after",
		"\x1b]52;c;cm0gLXJmIH4K\x1b\\after":                                "after",
		"\x1b]0;title\atext\x1b]2;t\x1b\\":                                 "text",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\a":                             "link",
		"\x1bPq#0\x1b\\\x1b_apc\x1b\\\x1b^p\x1b\\\x1bXs\x1b\\.":            ".",
		"\x1b]52;c;never ended\nnext":                                      "\nnext",
		"\x1b[2J\x1b[3J\x1b[H\x1b[1;1Hx\x1bc\x1b7\x1b8\x1b(0\x1b#8":        "x",
		"\x1b[?1049h\x1b[?1000h\x1b[6n\x1b[c\x1b[>c\x1b[5i\x1b[20t\x1b[!p": "",
		"\x9b31m\u009b31m\u009d0;t\a":                                      `\x9b31m\u009b31m\u009d0;t` + "\a",
		"\x05\x0e\x0f\x00\x7f\x0b":                                         "",
		"\x1b[3\n1mx":                                                      "\n1mx",
		"\x1b[" + strings.Repeat("1;", 200) + "mx":                         "x",
		"\xff\xe9 latin":                                                   "\xff\xe9 latin",
		"no-break\u00a0space":                                              "no-break\u00a0space",
		"held\x1b":                                                         "held",
		"held\x1b[3":                                                       "held",
	} {
		var whole, split TerminalFilter
		if got := string(whole.Next(nil, []byte(text))); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
		var got []byte
		for i := range len(text) {
			got = split.Next(got, []byte{text[i]})
		}
		if string(got) != want {
			t.Errorf("%q, byte by byte, is shown as %q, want %q", text, got, want)
		}
	}
}

// allowed is all that may follow an ESC.
var allowed = regexp.MustCompile(`^\x1b\[([0-9;:]*[mK]|0*J|[0-9;:]*[ABCDEFG]|\?25[hl])`)

func FuzzTerminalFilter(f *testing.F) {
	f.Add([]byte("\x1b]52;c;x\a\x1b[31m\x1b[2J\u009b1m\x9b"), uint8(3))
	f.Add([]byte("a\n\x1b[1A\x1b[2K\x1bP\x1b\\\xc2\x9b\xe2\x82\xac"), uint8(1))
	f.Fuzz(func(t *testing.T, text []byte, cut uint8) {
		var whole, split TerminalFilter
		got := whole.Next(nil, text)
		at := min(int(cut), len(text))
		if parted := split.Next(split.Next(nil, text[:at]), text[at:]); !bytes.Equal(parted, got) {
			t.Fatalf("%q is shown as %q, and as %q when it is parted at %d", text, got, parted, at)
		}
		for rest := got; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			switch {
			case r == 0x1b && !allowed.Match(rest):
				t.Fatalf("%q is shown as %q: a sequence that acts", text, got)
			case r >= 0x7f && r < 0xa0, n == 1 && rest[0] >= 0x80 && rest[0] < 0xa0 && utf8.Valid(text):
				t.Fatalf("%q is shown as %q: a C1 character", text, got)
			case r < ' ' && !strings.ContainsRune("\n\r\t\b\a\x1b", r):
				t.Fatalf("%q is shown as %q: %q", text, got, r)
			}
			rest = rest[n:]
		}
	})
}

func TestJSONOfATerminalIsTheSameJSON(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"plain <b>": `"plain <b>"`, "é漢\n": `"é漢\n"`,
		"\u009b31m\x7f": `"\u009b31m\u007f"`, "\u202eevil\u2066\u2028": `"\u202eevil\u2066\u2028"`,
		"\ufeff\U000e0041": `"\ufeff\udb40\udc41"`, "\x1b]0;t\a": `"\u001b]0;t\u0007"`,
	} {
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		if err := e.Encode(text); err != nil {
			t.Fatal(err)
		}
		if got := string(EscapeJSON(b.Bytes())); got != want+"\n" {
			t.Errorf("%q is printed as %s, want %s", text, got, want)
		}
	}
	if got := string(EscapeJSON([]byte("\"a\xffb\""))); got != `"a\ufffdb"` {
		t.Errorf("a byte that is not UTF-8 became %s", got)
	}
}

func FuzzEscapeJSON(f *testing.F) {
	f.Add("a\u009bb\u202e\ufeff\U000e0041\xff")
	f.Fuzz(func(t *testing.T, text string) {
		in, err := json.Marshal([]any{text, map[string]string{text: text}})
		if err != nil {
			t.Fatal(err)
		}
		out := EscapeJSON(bytes.Clone(in))
		var before, after any
		if err := json.Unmarshal(in, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(out, &after); err != nil {
			t.Fatalf("%q is not a JSON: %v", out, err)
		}
		a, _ := json.Marshal(before)
		if b, _ := json.Marshal(after); !bytes.Equal(a, b) {
			t.Fatalf("%q became %q", in, out)
		}
		for _, r := range string(out) {
			if r == utf8.RuneError || !harmless(r) {
				t.Fatalf("%q became %q, which holds %q", in, out, r)
			}
		}
	})
}

func TestEscapeShowsWhatWouldAct(t *testing.T) {
	for in, want := range map[string]string{
		"plain\tétat 日本 👍\n":         "plain\tétat 日本 👍\n",
		"a\rb\x00\x07\x7f":           `a\rb\x00\x07\x7f`,
		"\x1b]0;title\x07":           `\x1b]0;title\x07`,
		"\x1b[2J":                    `\x1b[2J`,
		"\x1b[31mred\x1b[0m":         "\x1b[31mred\x1b[0m",
		"\x1b[1;38;5;8;48;2;8;8;8m":  "\x1b[1;38;5;8;48;2;8;8;8m",
		"\x1b[38:2::8:8:8m":          "\x1b[38:2::8:8:8m",
		"\x1b[8mhidden":              `\x1b[8mhidden`,
		"\x1b[0;8mhidden":            `\x1b[0;8mhidden`,
		"\x1b[38;5;1;08mhidden":      `\x1b[38;5;1;08mhidden`,
		"a\u202eb\u2066\u200f\ufeff": `a\u202eb\u2066\u200f\ufeff`,
		"\u0085\u2028\U000e0041":     `\u0085\u2028\U000e0041`,
		"\xff\xc3(\xe2\x82":          `\xff\xc3(\xe2\x82`,
		"\x9b31m":                    `\x9b31m`,
		"\x1b":                       `\x1b`,
		"\x1b[31":                    `\x1b[31`,
		`C:\dir`:                     `C:\dir`,
	} {
		if got := string(Escape([]byte(in), true)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := string(Escape([]byte("\x1b[31mred"), false)); got != `\x1b[31mred` {
		t.Errorf("colours were not asked for, got %q", got)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\u202e\xff\r\n"), uint8(3), true)
	f.Add([]byte("\x1b]8;;http://x\x1b\\"), uint8(1), false)
	f.Fuzz(func(t *testing.T, b []byte, step uint8, colour bool) {
		once := Escape(b, colour)
		e := Escaper{Colour: colour}
		var parts []byte
		for rest := b; len(rest) > 0; {
			n := min(len(rest), 1+int(step))
			parts = e.Next(parts, rest[:n])
			rest = rest[n:]
		}
		if parts = append(parts, e.Rest()...); !bytes.Equal(once, parts) {
			t.Fatalf("at once %q, in pieces %q", once, parts)
		}
		bare := once
		if colour {
			bare = regexp.MustCompile("\x1b\\[[0-9;:]*m").ReplaceAll(once, nil)
		}
		if !utf8.Valid(once) {
			t.Fatalf("%q is not UTF-8", once)
		}
		for _, r := range string(bare) {
			if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Bidi_Control, r) {
				t.Fatalf("%q holds %U", once, r)
			}
		}
	})
}

func TestABarIsFoldedToItsLastState(t *testing.T) {
	for in, want := range map[string]string{
		"":                                 "",
		"plain":                            "plain",
		"windows\r":                        "windows\r",
		"windows\r\r":                      "windows\r",
		"10%\r20%\r100%":                   "100%",
		"\r10%\r100%\r":                    "100%\r",
		"50%\r          \rdone":            "done",
		"50%\r100%\r        ":              "100%",
		"50%\r100%\r\x1b[2K\x1b[0m":        "100%",
		"a\r\x1b]0;title\x07\b\b":          "a",
		"\x1b[1m5/9\x1b[0m\b\b\b\r6/9\b\b": "6/9\b\b",
		"\r\r\r":                           "\r",
		" \r ":                             " ",
	} {
		if got := string(Fold([]byte(in))); got != want {
			t.Errorf("%q: folded to %q, want %q", in, got, want)
		}
	}
}
