package image

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/drover-run/drover/fault"
)

func TestADockerfileIsReadAsDockerReadsIt(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Instruction
	}{
		{"FROM a", []Instruction{{1, "FROM", nil, "a", nil, false}}},
		{"\ufefffrom  a  as b \r\n\r\n# no\n\tRun x", []Instruction{{1, "FROM", nil, "a  as b", nil, false}, {4, "RUN", nil, "x", nil, false}}},
		{"FROM a\nRUN x \\\n  # c\n\n   y \\  \n z\nCMD q", []Instruction{{1, "FROM", nil, "a", nil, false}, {2, "RUN", nil, "x    y  z", nil, false}, {7, "CMD", nil, "q", nil, false}}},
		{"FROM a\nRUN x \\", []Instruction{{1, "FROM", nil, "a", nil, false}, {2, "RUN", nil, "x", nil, false}}},
		{"# escape=`\nFROM a\nRUN x\\y `\nz\\", []Instruction{{2, "FROM", nil, "a", nil, false}, {3, "RUN", nil, `x\y z\`, nil, false}}},
		{"FROM a\n# escape=`\nRUN x\\\ny", []Instruction{{1, "FROM", nil, "a", nil, false}, {3, "RUN", nil, "xy", nil, false}}},
		{"COPY --chown=1:2 --from=b [\"x y\", \"z\"]", []Instruction{{1, "COPY", []string{"--chown=1:2", "--from=b"}, `["x y", "z"]`, []string{"x y", "z"}, true}}},
		{"CMD ['x']\nENTRYPOINT []\nCMD", []Instruction{{1, "CMD", nil, "['x']", nil, false}, {2, "ENTRYPOINT", nil, "[]", nil, true}, {3, "CMD", nil, "", nil, false}}},
		{"RUN --mount=type=cache,target=/x -- --y", []Instruction{{1, "RUN", []string{"--mount=type=cache,target=/x"}, "--y", nil, false}}},
	} {
		r, err := Read(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if diff := cmp.Diff(c.want, r.Lines, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-want +got):\n%s", c.text, diff)
		}
	}
}

func TestADockerfileThatIsWrongIsRefusedWithItsLine(t *testing.T) {
	for _, c := range []struct{ text, why, hint string }{
		{"", "there is no instruction", "FROM"},
		{"# only\n", "there is no instruction", "FROM"},
		{"FROM a\n\nCPOY a b", `line 3: "CPOY" is not an instruction`, "Did you mean COPY?"},
		{"FROM a\nRUN cat <<X\nsome text\nX", `line 3: "some" is not an instruction`, "BuildKit"},
		{"FROM a\nCOPY", "line 2: COPY needs words", ""},
		{"FROM a\nCMD [1]", "line 2: CMD: a list holds strings", "quotes"},
		{"# escape=x\nFROM a", "line 1", "Use"},
	} {
		_, err := Read(c.text)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.why) || !strings.Contains(fault.Hint(err), c.hint) {
			t.Errorf("%q is answered with %v and hint %q, want %q and %q", c.text, err, fault.Hint(err), c.why, c.hint)
		}
	}
}

// What was read, written plainly, is read as the same again.
func FuzzRead(f *testing.F) {
	for _, text := range []string{"FROM a\nCOPY --chown=1 [\"a\", \"b\"] \nRUN x \\\n y", "# escape=`\nFROM a `\n b", "FROM a\nENV A=1 \\\n#c\n\nB=2", "\ufeff\r\nFROM a\r\nCMD []"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Read(text)
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("%q is refused as %s: %v", text, fault.KindOf(err), err)
			}
			return
		}
		r.baseImages()
		r.copySources()
		var b strings.Builder
		if r.Escape == '`' {
			b.WriteString("# escape=`\n")
		}
		for _, in := range r.Lines {
			line := strings.Join(append([]string{in.Word}, in.Flags...), " ")
			if line += " -- " + in.Rest; r.lineContinues(line) || strings.ContainsAny(line, "\n\r") {
				return // the file's end, or a lone carriage return, ended it
			}
			b.WriteString(line + "\n")
		}
		again, err := Read(b.String())
		if err != nil {
			t.Fatalf("%q was read, and %q is refused: %v", text, b.String(), err)
		}
		if diff := cmp.Diff(r.Lines, again.Lines, cmpopts.IgnoreFields(Instruction{}, "Line"), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("%q is read again as another:\n%s", text, diff)
		}
	})
}
