package redact_test

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"math/rand/v2"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"github.com/drover-run/drover/internal/proc/private"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/line"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/store/mem"
)

// canary is a secret with a letter of each kind that some encoding changes, and
// without 8 bytes that stand in it twice.
const canary = `Tr0ub4dor&3 "q\uick" <br0wn> f$x's/jump+0ver?~%lazy=d()g; ünï`

// tongues are the ways a program may say a secret, made here by other code than
// the redactor's. Two surroundings say that it may stand anywhere.
var tongues = map[string]func(before, s, after string) string{
	"raw":    func(before, s, after string) string { return before + s + after },
	"json":   func(before, s, after string) string { return before + marshalled(s) + after },
	"json 2": func(before, s, after string) string { return before + marshalled(marshalled(s)) + after },
	"python": func(before, s, after string) string {
		return before + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(s) + after
	},
	"query": func(before, s, after string) string { return before + url.QueryEscape(s) + after },
	"path":  func(before, s, after string) string { return before + url.PathEscape(s) + after },
	"percent": func(before, s, after string) string {
		return before + regexp.MustCompile(`[^A-Za-z0-9_.~-]`).ReplaceAllStringFunc(s, func(c string) string { return percent([]byte(c)) }) + after
	},
	"html":  func(before, s, after string) string { return before + html.EscapeString(s) + after },
	"shell": func(before, s, after string) string { return before + strings.ReplaceAll(s, `'`, `'\''`) + after },
	"hex": func(before, s, after string) string {
		return before + " " + hex.EncodeToString([]byte(s)) + " " + after
	},
	"Hex":   func(before, s, after string) string { return before + mixed(fmt.Sprintf(" %x ", s)) + after },
	"aa:bb": func(before, s, after string) string { return before + bytesApart(s, "%02x", ":") + after },
	"AA:BB": func(before, s, after string) string { return before + bytesApart(s, "%02X", ":") + after },
	"aa bb": func(before, s, after string) string { return before + fmt.Sprintf(" % x ", s) + after },
	"aa-bb": func(before, s, after string) string { return before + bytesApart(s, "%02x", "-") + after },
	"0xaa, ": func(before, s, after string) string {
		return before + fmt.Sprintf("{% #x}", s) + bytesApart(s, "0x%02x", ", ") + after
	},
	"0xAA,":  func(before, s, after string) string { return before + bytesApart(s, "0x%02X", ",") + after },
	`\xNN`:   func(before, s, after string) string { return before + bytesApart(s, `\x%02x`, "") + after },
	`\xnN`:   func(before, s, after string) string { return before + mixed(bytesApart(s, `\x%02x`, "")) + after },
	`\uNNNN`: func(before, s, after string) string { return before + unicodes(s) + after },
	"%XX":    func(before, s, after string) string { return before + percent([]byte(s)) + after },
	"%xX":    func(before, s, after string) string { return before + mixed(percent([]byte(s))) + after },
	"percent mixed": func(before, s, after string) string {
		return before + regexp.MustCompile(`[^A-Za-z0-9_.~-]`).ReplaceAllStringFunc(s, func(c string) string { return mixed(percent([]byte(c))) }) + after
	},
	"HEX":         func(before, s, after string) string { return before + fmt.Sprintf(" %X ", s) + after },
	"base64 at 0": func(before, s, after string) string { return encoded(base64.StdEncoding, before, 0, s, after) },
	"base64 at 1": func(before, s, after string) string { return encoded(base64.StdEncoding, before, 1, s, after) },
	"base64 at 2": func(before, s, after string) string { return encoded(base64.StdEncoding, before, 2, s, after) },
	"base64url":   func(before, s, after string) string { return encoded(base64.URLEncoding, before, 1, s, after) },
	"base64raw":   func(before, s, after string) string { return encoded(base64.RawURLEncoding, before, 0, s, "") },
	"base64 lines": func(before, s, after string) string {
		b := base64.StdEncoding.EncodeToString([]byte(s + "\n"))
		return b[:76] + "\n" + b[76:]
	},
	"utf16":    func(before, s, after string) string { return before + "\xff\xfe" + utf16le(s) + after },
	"reversed": func(before, s, after string) string { return before + backwards(s) + after },
}

func marshalled(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(b[1 : len(b)-1])
}

func percent(b []byte) string {
	var s strings.Builder
	for _, c := range b {
		fmt.Fprintf(&s, "%%%02X", c)
	}
	return s.String()
}

// bytesApart is each byte by a format, with a separator between two.
func bytesApart(s, format, between string) string {
	var all []string
	for _, c := range []byte(s) {
		all = append(all, fmt.Sprintf(format, c))
	}
	return strings.Join(all, between)
}

// mixed makes every second hexadecimal letter a capital.
func mixed(s string) string {
	n := 0
	return regexp.MustCompile(`[a-fA-F]`).ReplaceAllStringFunc(s, func(c string) string {
		if n++; n%2 == 0 {
			return strings.ToUpper(c)
		}
		return strings.ToLower(c)
	})
}

func unicodes(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		fmt.Fprintf(&b, `\u%04X`, u)
	}
	return b.String()
}

// encoded has at bytes of a group before s, whatever follows.
func encoded(e *base64.Encoding, before string, at int, s, after string) string {
	return " " + e.EncodeToString([]byte((before + "user:pass")[:3+at]+s+after)) + " "
}

func utf16le(s string) string {
	var b []byte
	for _, u := range utf16.Encode([]rune(s)) {
		b = binary.LittleEndian.AppendUint16(b, u)
	}
	return string(b)
}

func backwards(s string) string {
	b := []byte(s)
	slices.Reverse(b)
	return string(b)
}

// traces are what no sink may hold: each 8 bytes of each way to say the canary
// that stand there whatever is around it, and not when something else is said.
func traces(tongue func(before, s, after string) string) []string {
	a, b, other := tongue("", canary, "."), tongue("zz ", canary, "?!"), tongue("", strings.Repeat("1", len(canary)), ".")
	var all []string
	for i := 0; i+8 <= len(a); i++ {
		if part := a[i : i+8]; strings.Contains(b, part) && !strings.Contains(other, part) {
			all = append(all, part)
		}
	}
	return all
}

// sinks are all that is left of what w stored and sent. Objects are decoded by
// Read, Lines and Search; their bytes are looked at as they are, too.
func sinks(t *testing.T, d *recordtest.Store, sent []byte) map[string]string {
	t.Helper()
	marks := map[string]string{"socket": string(sent)}
	for o, err := range d.List(t.Context(), recordtest.Prefix+"/") {
		if err != nil {
			t.Fatal(err)
		}
		b, err := d.Get(t.Context(), o.Key)
		if err != nil {
			t.Fatal(err)
		}
		marks["objects"] += string(b)
	}
	for f, err := range record.Read(t.Context(), d, recordtest.Prefix, record.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		marks[fmt.Sprint("read ", f.Stream)] += string(f.Data)
	}
	for l, err := range line.Lines(record.Read(t.Context(), d, recordtest.Prefix, record.Filter{Streams: record.Stdout | record.Agent})) {
		if err != nil {
			t.Fatal(err)
		}
		marks["lines"] += string(l.Text) + "\n"
	}
	for f, err := range line.Search(line.Lines(record.Read(t.Context(), d, recordtest.Prefix, record.Filter{Streams: record.Stdout | record.Agent})), regexp.MustCompile(`said`), 1, 1) {
		if err != nil {
			t.Fatal(err)
		}
		marks["search"] += string(f.Text) + "\n"
	}
	return marks
}

// spoken puts text through a writer, on both streams in random pieces and as a
// note, and gives what its socket sent to a follower that was there all along.
func spoken(t *testing.T, d *recordtest.Store, r *redact.Redactor, text string, rnd *rand.Rand) []byte {
	t.Helper()
	w := makeWriter(t, record.Options{Store: d, ID: "a", Redact: r})
	addr, err := w.Listen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := private.Dial(context.Background(), addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(record.Greeting)+len("\x00\x00\x01a"))); err != nil { // it has us now, and will say all
		t.Fatal(err)
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, 1)); err != nil {
		t.Fatal(err)
	}
	var sent []byte
	ended := make(chan error, 1)
	go func() {
		var err error
		sent, err = io.ReadAll(conn)
		ended <- err
	}()
	for _, s := range []record.Stream{record.Stdout, record.Stderr} {
		if _, err := w.Copy(s, 0, dribble{strings.NewReader(text), rnd}); err != nil {
			t.Fatal(err)
		}
		w.Note(text)
	}
	recordtest.CloseWriter(t, w)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return sent
}

// dribble gives a few bytes a read, so that nothing comes whole.
type dribble struct {
	io.Reader
	rand *rand.Rand
}

func (d dribble) Read(p []byte) (int, error) {
	return d.Reader.Read(p[:min(len(p), 1+d.rand.IntN(1+d.rand.IntN(64)))])
}

// TestACanaryIsFoundInNoSink: reliability R17 for what record holds. The same
// sinks without a redactor prove that they show what is looked for.
func TestACanaryIsFoundInNoSink(t *testing.T) {
	t.Parallel()
	if len(tongues) != 32 { // THREATMODEL.md and ARCHITECTURE.md say how many
		t.Fatalf("%d encodings", len(tongues))
	}
	redactor := redact.NewRedactor(map[string]string{"CANARY": canary + "\n", "OTHER": "of no concern"})
	for name, tongue := range tongues {
		marks := traces(tongue)
		if len(marks) < len(canary)-8 {
			t.Fatalf("%s: only %d traces to look for", name, len(marks))
		}
		for seed := range uint64(3) {
			rnd := rand.New(rand.NewPCG(seed, 17))
			text := fmt.Sprintf("said %s %d\n", strings.Repeat(tongue("so: ", canary, ". ")+"\n", 1+int(seed)), seed)
			for _, r := range []*redact.Redactor{redactor, nil} {
				d := recordtest.NewStore(mem.New())
				sent := spoken(t, d, r, text, rnd)
				for sink, held := range sinks(t, d, sent) {
					leaks := slices.ContainsFunc(marks, func(trace string) bool { return strings.Contains(held, trace) })
					switch {
					case r != nil && leaks:
						t.Fatalf("%s: %s holds some of the canary: %q", name, sink, held)
					case r == nil && !leaks && sink != "objects" && sink != "socket": // frames may part it there, and objects are packed
						t.Errorf("%s: without a redactor %s holds nothing of the canary: nothing is proved", name, sink)
					case r != nil && sink == "read stdout" && !strings.Contains(held, "[redacted CANARY]"):
						t.Errorf("%s: %s has no mask: %q", name, sink, held)
					}
				}
			}
		}
	}
}

// TestACanaryMayBeCutAnywhere: in two reads, at each byte.
func TestACanaryMayBeCutAnywhere(t *testing.T) {
	t.Parallel()
	redactor := redact.NewRedactor(map[string]string{"CANARY": canary})
	for name, tongue := range tongues {
		text, marks := tongue("so: ", canary, ". "), traces(tongue)
		for cut := 1; cut < len(text); cut++ {
			stream := redact.NewStream(redactor)
			held := string(stream.Next([]byte(text[:cut])))
			held += string(stream.Next([]byte(text[cut:])))
			held += string(stream.End())
			for _, trace := range marks {
				if strings.Contains(held, trace) {
					t.Fatalf("%s, cut at %d: %q holds %q", name, cut, held, trace)
				}
			}
		}
	}
}

// TestAFollowerOfTheStoreAndTheSocketSeesNoCanary goes the way of drover logs -f.
func TestAFollowerOfTheStoreAndTheSocketSeesNoCanary(t *testing.T) {
	t.Parallel()
	d := recordtest.NewStore(mem.New())
	w := makeWriter(t, record.Options{Store: d, ID: "a", Redact: redact.NewRedactor(map[string]string{"CANARY": canary})})
	addr, err := w.Listen(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		recordtest.WriteAll(t, w, record.Stdout, 0, []byte("first "+canary[:20]))
		recordtest.WriteAll(t, w, record.Stderr, 0, []byte(canary+"\n"))
		w.Note("a note of " + canary)
		recordtest.CloseWriter(t, w)
	}()
	var heard string
	for f, err := range record.Follow(t.Context(), record.FollowOptions{Store: d, Prefix: recordtest.Prefix, Ended: ended, Every: 10 * time.Millisecond,
		Live: func(context.Context) []string { return []string{addr} }}) {
		if err != nil {
			t.Fatal(err)
		}
		heard += string(f.Data)
	}
	if want := "first " + canary[:20] + "[redacted CANARY]\na note of [redacted CANARY]\n"; heard != want {
		t.Errorf("heard %q, want %q", heard, want)
	}
}

func makeWriter(t testing.TB, o record.Options) *record.Writer {
	t.Helper()
	o.Prefix = recordtest.Prefix
	w, err := record.NewWriter(o)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
