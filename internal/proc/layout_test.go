package proc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// real is a new folder, by its path without links.
func real(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func link(t *testing.T, to, at string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, at); err != nil {
		t.Fatal(err)
	}
}

func TestATargetsLinksAreFollowedAsFarAsTheMachineGoes(t *testing.T) {
	t.Parallel()
	dir := real(t)
	write(t, dir+"/var/opt/tool", "", 0o644)
	link(t, "var/opt", dir+"/opt")
	link(t, "nowhere", dir+"/var/opt/dangling")
	for path, want := range map[string][2]string{
		dir + "/opt":             {dir + "/var/opt", ""},
		dir + "/opt/tool":        {dir + "/var/opt/tool", ""},
		dir + "/opt/ml":          {dir + "/var/opt/ml", dir + "/var/opt"},
		dir + "/opt/ml/deep":     {dir + "/var/opt/ml/deep", dir + "/var/opt"},
		dir + "/opt/dangling":    {dir + "/var/opt/dangling", dir + "/var/opt"},
		"/drover-no-such/folder": {"/drover-no-such/folder", "/"},
	} {
		target, in, err := settle(path)
		if err != nil || target != want[0] || in != want[1] {
			t.Errorf("%s: got %q in %q, %v, want %q", path, target, in, err, want)
		}
	}
}

func TestPathsOfTheViewAreFoundOnTheMachine(t *testing.T) {
	t.Parallel()
	dir := real(t)
	write(t, dir+"/ml/code/run.sh", "", 0o755)
	write(t, dir+"/inner/x", "", 0o644)
	write(t, dir+"/hosts", "", 0o644)
	write(t, dir+"/machine/bin/tool", "", 0o755)
	write(t, dir+"/ml/sub/x", "", 0o755)
	link(t, "/drover-test/ml/code/run.sh", dir+"/ml/code/absolute")
	link(t, "../code", dir+"/ml/sub/relative")
	link(t, "../../../../../../drover-test/ml/code", dir+"/ml/sub/high")
	link(t, "loop", dir+"/ml/loop")
	link(t, "/drover-test/ml", dir+"/machine/ml")
	s, err := (&View{Binds: []Bind{
		{dir + "/inner", "/drover-test/ml/sub"},
		{dir + "/hosts", "/drover-test/hosts"},
		{dir + "/ml", "/drover-test/ml"},
		{dir + "/ml", "/drover-test/ml2"},
	}}).resolveScene("x")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/":                                  "/",
		"/drover-test/other":                 "/drover-test/other",
		"/drover-test/hosts":                 dir + "/hosts",
		"/drover-test/hosts2":                "/drover-test/hosts2",
		"/drover-test/ml":                    dir + "/ml",
		"/drover-test//ml/./code/../code/":   dir + "/ml/code",
		"/drover-test/ml/code/run.sh":        dir + "/ml/code/run.sh",
		"/drover-test/ml/code/absolute":      dir + "/ml/code/run.sh",
		"/drover-test/ml2/sub/relative/gone": dir + "/ml/code/gone",
		"/drover-test/ml2/sub/high/run.sh":   dir + "/ml/code/run.sh",
		"/drover-test/ml/sub/x":              dir + "/inner/x",
		"/drover-test/ml/..":                 "/drover-test",
		"/../drover-test/ml":                 dir + "/ml",
		dir + "/machine/bin/tool":            dir + "/machine/bin/tool",
		dir + "/machine/ml/code/run.sh":      dir + "/ml/code/run.sh",
		"/drover-test/ml/loop/x":             dir + "/ml/loop/x",
	} {
		if got := s.machinePath(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if got := (*scene)(nil).machinePath("a/../b"); got != "a/../b" {
		t.Errorf("without a view: got %s", got)
	}
}

func TestPathsInAnOverlayAreFoundInItsFolders(t *testing.T) {
	t.Parallel()
	dir := real(t)
	write(t, dir+"/live/run.sh", "", 0o755)
	write(t, dir+"/live/data/x", "", 0o644)
	write(t, dir+"/shipped/run.sh", "", 0o755)
	write(t, dir+"/shipped/lib/y", "", 0o644)
	write(t, dir+"/up/data/z", "", 0o644)
	write(t, dir+"/inner/x", "", 0o644)
	write(t, dir+"/ml/code/x", "", 0o644)
	view := &View{Binds: []Bind{{dir + "/inner", dir + "/live/data"}, {dir + "/ml", "/drover-test/ml"}}, Overlays: []Overlay{
		{Target: dir + "/live", Lower: []string{dir + "/shipped", dir + "/live"}, Upper: dir + "/up", Work: dir + "/work", Also: []string{"/drover-test/ml/code"}},
	}}
	if _, err := view.resolveScene("x"); err == nil {
		t.Fatal("an overlay without its work folder")
	}
	write(t, dir+"/work/x", "", 0o644)
	s, err := view.resolveScene("x")
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		dir + "/live/run.sh":          dir + "/shipped/run.sh",
		dir + "/live/lib/y":           dir + "/shipped/lib/y",
		dir + "/live/data/x":          dir + "/inner/x",
		"/drover-test/ml/code/run.sh": dir + "/shipped/run.sh",
		"/drover-test/ml/code/data/z": dir + "/up/data/z",
		"/drover-test/ml/code/gone":   dir + "/live/gone",
		"/drover-test/ml/other":       dir + "/ml/other",
	} {
		if got := s.machinePath(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestASceneKeepsItsBytesOnTheWire(t *testing.T) {
	t.Parallel()
	want := scene{Shows: []show{{Source: "/caf\xe9 <&>", Target: "/\u2028\xff", In: "/", Folder: true}}, Hostname: "algo-1"}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got scene
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
