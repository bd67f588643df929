package proc

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
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

func TestAViewThatCannotBeIsRefusedBeforeAnythingRuns(t *testing.T) {
	if !haveViews {
		t.Skip("every view is refused here")
	}
	dir := real(t)
	write(t, dir+"/file", "", 0o644)
	write(t, dir+"/folder/inner/x", "", 0o644)
	for want, v := range map[string]View{
		`show "` + dir + `/gone" at "/opt/ml": no such file or directory`: {Binds: []Bind{{dir + "/gone", "/opt/ml"}}},
		`show "folder" at "/opt/ml": want absolute paths`:                 {Binds: []Bind{{"folder", "/opt/ml"}}},
		`show "` + dir + `" at "opt/ml": want absolute paths`:             {Binds: []Bind{{dir, "opt/ml"}}},
		`at "//.": want absolute paths, and no target /`:                  {Binds: []Bind{{dir, "//."}}},
		`at "/opt/ml": shown there twice`:                                 {Binds: []Bind{{dir, "/opt/ml"}, {dir + "/folder", "/opt/ml/"}}},
		`at "` + dir + `/folder": a file cannot be shown at a folder`:     {Binds: []Bind{{dir + "/file", dir + "/folder"}}},
		`at "` + dir + `/file": a folder cannot be shown at a file`:       {Binds: []Bind{{dir, dir + "/file"}}},
		`at "` + dir + `/file/below": not a directory`:                    {Binds: []Bind{{dir, dir + "/file/below"}}},
		`at "/opt/ml/gone": no such file or directory`:                    {Binds: []Bind{{dir, "/opt/ml/gone"}, {dir + "/folder", "/opt/ml"}}},
		`at "/opt/ml/inner": a file cannot be shown at a folder`:          {Binds: []Bind{{dir + "/file", "/opt/ml/inner"}, {dir + "/folder", "/opt/ml"}}},
		`show "up" at "` + dir + `/folder": want absolute paths`:          {Overlays: []Overlay{{Target: dir + "/folder", Lower: []string{dir}, Upper: "up", Work: dir}}},
		`at "` + dir + `": nothing to lay the upper folder over`:          {Overlays: []Overlay{{Target: dir, Upper: dir + "/folder", Work: dir + "/folder"}}},
		`at "` + dir + `": only folders can be laid over each other`:      {Overlays: []Overlay{{Target: dir, Lower: []string{dir + "/file"}, Upper: dir, Work: dir}}},
		`at "` + dir + `/gone": no such file or directory`:                {Overlays: []Overlay{{Target: dir + "/gone", Lower: []string{dir}, Upper: dir + "/folder", Work: dir + "/folder"}}},
		`at "` + dir + `/file": a folder cannot be shown at a file`:       {Overlays: []Overlay{{Target: dir + "/file", Lower: []string{dir}, Upper: dir + "/folder", Work: dir + "/folder"}}},
		`at "/opt/ml/x": it lies where an overlay is shown once more`: {Binds: []Bind{{dir, "/opt/ml/x"}},
			Overlays: []Overlay{{Target: dir, Lower: []string{dir}, Upper: dir, Work: dir, Also: []string{"/opt/ml"}}}},
		`hostname "` + strings.Repeat("x", 65) + `": want at most 64 bytes`: {Hostname: strings.Repeat("x", 65)},
		`hostname "a\x00b": want at most 64 bytes`:                          {Hostname: "a\x00b"},
	} {
		_, err := Start(t.Context(), Command{Path: "/bin/sh", Args: []string{"sh", "-c", "echo > " + dir + "/ran"}, View: &v})
		if fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "start /bin/sh: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s\ngot %v", want, err)
		}
	}
	if _, err := os.Stat(dir + "/ran"); err == nil {
		t.Error("a program ran")
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
