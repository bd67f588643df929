package proc

import (
	"os"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
)

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
