package mount

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/proc/proctest"
)

func TestATargetsLinksAreFollowedAsFarAsTheMachineGoes(t *testing.T) {
	t.Parallel()
	dir := proctest.TempDir(t)
	proctest.WriteFile(t, dir+"/var/opt/tool", "", 0o644)
	proctest.Link(t, "var/opt", dir+"/opt")
	proctest.Link(t, "nowhere", dir+"/var/opt/dangling")
	for path, want := range map[string][2]string{
		dir + "/opt":             {dir + "/var/opt", ""},
		dir + "/opt/tool":        {dir + "/var/opt/tool", ""},
		dir + "/opt/ml":          {dir + "/var/opt/ml", dir + "/var/opt"},
		dir + "/opt/ml/deep":     {dir + "/var/opt/ml/deep", dir + "/var/opt"},
		dir + "/opt/dangling":    {dir + "/var/opt/dangling", dir + "/var/opt"},
		"/drover-no-such/folder": {"/drover-no-such/folder", "/"},
	} {
		target, in, err := resolveTarget(path)
		if err != nil || target != want[0] || in != want[1] {
			t.Errorf("%s: got %q in %q, %v, want %q", path, target, in, err, want)
		}
	}
}

func TestPathsOfTheViewAreFoundOnTheMachine(t *testing.T) {
	t.Parallel()
	dir := proctest.TempDir(t)
	proctest.WriteFile(t, dir+"/ml/code/run.sh", "", 0o755)
	proctest.WriteFile(t, dir+"/inner/x", "", 0o644)
	proctest.WriteFile(t, dir+"/hosts", "", 0o644)
	proctest.WriteFile(t, dir+"/machine/bin/tool", "", 0o755)
	proctest.WriteFile(t, dir+"/ml/sub/x", "", 0o755)
	proctest.Link(t, "/drover-test/ml/code/run.sh", dir+"/ml/code/absolute")
	proctest.Link(t, "../code", dir+"/ml/sub/relative")
	proctest.Link(t, "../../../../../../drover-test/ml/code", dir+"/ml/sub/high")
	proctest.Link(t, "loop", dir+"/ml/loop")
	proctest.Link(t, "/drover-test/ml", dir+"/machine/ml")
	s, err := (&View{Binds: []Bind{
		{dir + "/inner", "/drover-test/ml/sub"},
		{dir + "/hosts", "/drover-test/hosts"},
		{dir + "/ml", "/drover-test/ml"},
		{dir + "/ml", "/drover-test/ml2"},
	}}).Resolve("x")
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
		if got := s.MachinePath(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
	if got := (*Layout)(nil).MachinePath("a/../b"); got != "a/../b" {
		t.Errorf("without a view: got %s", got)
	}
}

func TestPathsInAnOverlayAreFoundInItsFolders(t *testing.T) {
	t.Parallel()
	dir := proctest.TempDir(t)
	proctest.WriteFile(t, dir+"/live/run.sh", "", 0o755)
	proctest.WriteFile(t, dir+"/live/data/x", "", 0o644)
	proctest.WriteFile(t, dir+"/shipped/run.sh", "", 0o755)
	proctest.WriteFile(t, dir+"/shipped/lib/y", "", 0o644)
	proctest.WriteFile(t, dir+"/up/data/z", "", 0o644)
	proctest.WriteFile(t, dir+"/inner/x", "", 0o644)
	proctest.WriteFile(t, dir+"/ml/code/x", "", 0o644)
	view := &View{Binds: []Bind{{dir + "/inner", dir + "/live/data"}, {dir + "/ml", "/drover-test/ml"}}, Overlays: []Overlay{
		{Target: dir + "/live", Lower: []string{dir + "/shipped", dir + "/live"}, Upper: dir + "/up", Work: dir + "/work", Also: []string{"/drover-test/ml/code"}},
	}}
	if _, err := view.Resolve("x"); err == nil {
		t.Fatal("an overlay without its work folder")
	}
	proctest.WriteFile(t, dir+"/work/x", "", 0o644)
	s, err := view.Resolve("x")
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
		if got := s.MachinePath(path); got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestASceneKeepsItsBytesOnTheWire(t *testing.T) {
	t.Parallel()
	want := Layout{Entries: []entry{{Source: "/caf\xe9 <&>", Target: "/\u2028\xff", In: "/", Folder: true}}, Hostname: "algo-1"}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Layout
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
