package bundle

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/bundle/bundletest"
	"github.com/drover-run/drover/internal/bundle/tree"
)

func TestAJudgeIsToldWhatGitTracksAndWhatWasBroughtBack(t *testing.T) {
	t.Parallel()
	for _, git := range []bool{false, true} {
		dir := t.TempDir()
		bundletest.WriteFiles(t, dir, map[string]string{"run.sh": "x", "tracked": "x", "other": "x", "d/back": "x", "b/back": "x", ".droverignore": "!d/\n!/b/back\n"})
		if err := os.Symlink("other", filepath.Join(dir, "link")); err != nil {
			t.Fatal(err)
		}
		if git {
			for _, args := range [][]string{{"init", "-q"}, {"add", "tracked", "link"}} {
				cmd := exec.Command("git", args...)
				cmd.Dir = dir
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("git %s: %v\n%s", args, err, out)
				}
			}
		}
		got := map[string]string{}
		judge := func(f Found) (string, bool) {
			if f.Info == nil || f.Path == "" {
				t.Errorf("of %q nothing is known", f.Name)
			}
			switch {
			case f.Tracked:
				got[f.Name] += "tracked "
			case f.Chosen:
				got[f.Name] += "chosen "
			default:
				got[f.Name] = "neither "
			}
			if f.Name == "other" {
				return "no code", false
			}
			return "", f.Name == "d/back"
		}
		l, err := Scan(t.Context(), Source{Dir: dir, Script: "run.sh", Judge: judge})
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]string{"tracked": "neither ", "other": "neither ", "link": "neither ", "d/back": "chosen ", "b/back": "chosen ", ".droverignore": "neither "}
		if git {
			want["tracked"] = "tracked " // the link leads to a file that is not
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("git %v (-want +got):\n%s", git, diff)
		}
		if diff := cmp.Diff([]Left{{"other", "no code"}}, l.Left); diff != "" {
			t.Error(diff)
		}
		if l.LeaveOut("b/back", "late") || !l.LeaveOut("d/back", "late") || l.Certain("d/back") || !l.Certain("b/back") || len(l.Left) != 2 {
			t.Errorf("what is certain was left out, or what is not was kept: %+v", l.Left)
		}
	}
}

func TestContentsAreWhatWasPacked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bundletest.WriteFiles(t, dir, map[string]string{"a": "x", "d/b": "y", "d/e/c": ""})
	if err := os.Chmod(filepath.Join(dir, "a"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := Scan(t.Context(), Source{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	digest, err := Pack(t.Context(), l, &archive)
	if err != nil {
		t.Fatal(err)
	}
	whole := bytes.NewReader(archive.Bytes())
	listing, err := Contents(t.Context(), whole, Caps{})
	if err != nil || listing.Digest() != digest || len(listing.Files) != 3 {
		t.Errorf("%+v: %v", listing, err)
	}
	if _, err := Contents(t.Context(), bytes.NewReader(archive.Bytes()), Caps{Files: 2}); err == nil {
		t.Error("an archive above the caps was read")
	}
	if err := os.Remove(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	var file *WrittenError
	if _, err := l.Tree(t.Context()); !errors.As(err, &file) || file.Name != "a" || !errors.Is(err, tree.ErrChanging) {
		t.Errorf("%v", err)
	}
}
