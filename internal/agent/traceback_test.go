package agent

import (
	"strings"
	"testing"
	"unicode/utf8"
)

const trace = `Traceback (most recent call last):
  File "/work/opt/ml/code/train.py", line 3, in <module>
    main()
    ~~~~^^
  File "/work/opt/ml/code/lib/steps.py", line 12, in main
    fit(x)
  File "/usr/lib/python3/site-packages/sk/base.py", line 99, in fit
    raise ValueError("bad thing")
`

func TestTheLastTracebackIsReadAsAPersonWould(t *testing.T) {
	long := strings.Repeat("ä", 400)
	for _, row := range []struct{ name, text, want string }{
		{"nothing", "", ""},
		{"no traceback", "ValueError: only said\n", ""},
		{"a traceback without an end", trace, ""},
		{"the innermost frame of the user's own", trace + "ValueError: bad thing\n", "ValueError: bad thing at lib/steps.py line 12"},
		{"with other output behind", trace + "ValueError: bad thing\nException ignored in: x\nbye\n", "ValueError: bad thing at lib/steps.py line 12"},
		{"without a text", trace + "KeyboardInterrupt\n", "KeyboardInterrupt at lib/steps.py line 12"},
		{"of a module", trace + "torch.cuda.OutOfMemoryError: CUDA\n", "torch.cuda.OutOfMemoryError: CUDA at lib/steps.py line 12"},
		{"as Windows ends lines", strings.ReplaceAll(trace+"ValueError: bad\n", "\n", "\r\n"), "ValueError: bad at lib/steps.py line 12"},
		{"no frame of the user's", "Traceback (most recent call last):\n  File \"/usr/lib/x.py\", line 1, in y\n    z\nE: f\n", "E: f at x.py line 1"},
		{"no frame at all", "Traceback (most recent call last):\nE: f\n", "E: f"},
		{"code of no file", "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\nNameError: x\n", "NameError: x at <string> line 1"},
		{"a folder that only begins like the code's", "Traceback (most recent call last):\n  File \"/work/opt/ml/code2/x.py\", line 5, in y\nE: f\n", "E: f at x.py line 5"},
		{"the last of two", "Traceback (most recent call last):\n  File \"/work/opt/ml/code/a.py\", line 1, in x\nKeyError: 1\n\nDuring handling of the above exception, another exception occurred:\n\n" +
			"Traceback (most recent call last):\n  File \"/work/opt/ml/code/a.py\", line 3, in x\nOSError: [Errno 2] no\n", "OSError: [Errno 2] no at a.py line 3"},
		{"a very long text", "Traceback (most recent call last):\nE: " + long + "\n", "E: " + strings.Repeat("ä", 148) + "..."},
	} {
		got, ok := lastTraceback(row.text, "/work/opt/ml/code")
		text := ""
		if ok {
			text = got.String()
		}
		if text != row.want {
			t.Errorf("%s: %q, want %q", row.name, text, row.want)
		}
	}
}

func FuzzTracebacks(f *testing.F) {
	f.Add(trace+"ValueError: bad thing\n", "/work/opt/ml/code")
	f.Add("Traceback (most recent call last):\nE: "+strings.Repeat("ä", 400), "")
	f.Add("Traceback (most recent call last):\n  File \"\x00\", line 9\nE", "relative")
	f.Fuzz(func(t *testing.T, text, code string) {
		got, ok := lastTraceback(text, code)
		line := got.String()
		switch {
		case ok != (got.Error != ""):
			t.Errorf("ok is %t of %+v", ok, got)
		case strings.Contains(line, "\n") && !strings.Contains(got.File, "\n"):
			t.Errorf("more than one line: %q", line)
		case utf8.ValidString(text) && !utf8.ValidString(got.Error):
			t.Errorf("a letter was cut: %q", got.Error)
		case len(got.Error) > 303:
			t.Errorf("%d bytes", len(got.Error))
		}
	})
}

func TestTheEndOfAStreamIsKept(t *testing.T) {
	var all strings.Builder
	var end tail
	for i := range 3000 {
		part := strings.Repeat(string(rune('a'+i%26)), i%97)
		all.WriteString(part)
		if n, err := end.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
		want := all.String()
		if want = want[max(0, len(want)-tailSize):]; end.String() != want {
			t.Fatalf("after %d writes it is not the end", i+1)
		}
	}
}

func TestACommandLineIsShownShortly(t *testing.T) {
	args := []string{"/usr/bin/python3", "a\nb", strings.Repeat("x", 99)}
	for range 20 {
		args = append(args, "y")
	}
	want := "python3 a b " + strings.Repeat("x", 57) + "..." + strings.Repeat(" y", 10) + " ..."
	if got := strings.Join(shown(args), " "); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
