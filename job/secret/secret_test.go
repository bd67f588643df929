package secret

import (
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

// Two keys that look like what their issuers give, and were never given. They are cut in
// two, so that no scanner takes this file for a leak.
const (
	github = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
	openai = "sk-" + "proj-9aB8cD7eF6gH5iJ4kL3mN2oP1"
)

func TestArgumentsThatLookLikeSecretsArePointedAt(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		args []string
		want int // -1: none
	}{
		{[]string{"--lr", "0.1", "--token-limit", "4096", "--sort-key", "name", "--password", "--api-key", "none"}, -1},
		{[]string{"train.py", "--api-key", "letmein99"}, 2},
		{[]string{"--epochs=3", "--db-password=letmein99"}, 1},
		{[]string{"-x", github}, 1},
		{[]string{"--auth=" + openai}, 0},
		{[]string{"--token"}, -1},
		{nil, -1},
	} {
		i, ok := FindArgument(row.args)
		if ok != (row.want >= 0) || ok && i != row.want {
			t.Errorf("%q: got %d, %v; want %d", row.args, i, ok, row.want)
		}
	}
}

func TestAReferenceIsReadAndALiteralIsRefusedUnseen(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"WANDB_API_KEY":       {"WANDB_API_KEY", "env:WANDB_API_KEY"},
		"HF_TOKEN=env:MINE":   {"HF_TOKEN", "env:MINE"},
		"A=file:/run/secrets": {"A", "file:/run/secrets"},
		"A=file:key.txt":      {"A", "file:key.txt"},
		"A=file:a=b":          {"A", "file:a=b"},
	} {
		name, ref, err := Parse(text)
		if diff := cmp.Diff(want, [2]string{name, ref}); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", text, err, diff)
		}
	}
	const canary = "correct-horse-battery"
	for _, text := range []string{
		"A=" + canary, "A=env:" + canary, "A=vault:" + canary, "A=", "A=file:", "A=env:", "", "=" + canary, canary, "1A", "A B=env:C", "A=file:~/" + canary,
		"A=file:x\x00" + canary, github, "A=env:" + github, "A=file:" + github,
	} {
		_, _, err := Parse(text)
		if err == nil || fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if said := err.Error() + fault.Hint(err); strings.Contains(said, canary) || strings.Contains(said, github) {
			t.Errorf("%q: refused by repeating it: %s", text, said)
		}
	}
}

func TestSecretsAreResolvedWhereTheJobRuns(t *testing.T) {
	t.Parallel()
	files := map[string]string{"/one": "a secret\n", "/two": "two\n\n", "/dos": "dos\r\n", "/none": "plain"}
	read := func(path string) ([]byte, error) { return []byte(files[path]), nil }
	got, err := Resolve(map[string]string{"A": "env:A", "B": "env:OTHER", "C": "file:/one", "D": "file:/two", "E": "file:/dos", "F": "file:/none"},
		[]string{"A=first", "OTHER=x=y\n", "A=last", "junk"}, read)
	want := map[string]string{"A": "last", "B": "x=y\n", "C": "a secret", "D": "two\n", "E": "dos", "F": "plain"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
}

func TestASecretThatCannotBeHadIsMissing(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		ref  string
		file string
		err  error
		kind fault.Kind
		want string
	}{
		{ref: "env:GONE", kind: fault.Missing, want: "read secret A: environment variable GONE is not set where the job runs"},
		{ref: "env:EMPTY", kind: fault.Missing, want: "EMPTY is empty"},
		{ref: "file:/x", err: fs.ErrNotExist, kind: fault.Missing, want: "read secret A: /x is not there"},
		{ref: "file:/x", err: &fs.PathError{Op: "open", Path: "/x", Err: fs.ErrPermission}, kind: fault.Missing, want: "/x may not be read"},
		{ref: "file:/x", err: errors.New("read /x: is a directory"), kind: fault.Missing, want: "is a directory"},
		{ref: "file:/x", file: "\n", kind: fault.Missing, want: "/x is empty"},
		{ref: "file:/x", file: "canary\x00", kind: fault.Invalid, want: "a NUL byte"},
		{ref: "file:/x", file: strings.Repeat("canary", maxSecret), kind: fault.Invalid, want: "bytes, at most 65536"},
		{ref: "canary", kind: fault.Invalid, want: "neither env:NAME nor file:PATH"},
	} {
		_, err := Resolve(map[string]string{"A": row.ref}, []string{"EMPTY="}, func(string) ([]byte, error) { return []byte(row.file), row.err })
		if err == nil || fault.KindOf(err) != row.kind || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error()+fault.Hint(err), "canary") || fault.Hint(err) == "" {
			t.Errorf("%s, %q: %v (%s)", row.ref, row.want, err, fault.Hint(err))
		}
	}
}
