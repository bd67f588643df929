package proc

import (
	"os"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/proctest"
)

func TestAViewThatCannotBeIsRefusedBeforeAnythingRuns(t *testing.T) {
	if !mount.Supported {
		t.Skip("every view is refused here")
	}
	dir := proctest.TempDir(t)
	proctest.WriteFile(t, dir+"/file", "", 0o644)
	proctest.WriteFile(t, dir+"/folder/inner/x", "", 0o644)
	for want, v := range map[string]mount.View{
		`show "` + dir + `/gone" at "/opt/ml": no such file or directory`: {Binds: []mount.Bind{{Source: dir + "/gone", Target: "/opt/ml"}}},
		`show "folder" at "/opt/ml": want absolute paths`:                 {Binds: []mount.Bind{{Source: "folder", Target: "/opt/ml"}}},
		`show "` + dir + `" at "opt/ml": want absolute paths`:             {Binds: []mount.Bind{{Source: dir, Target: "opt/ml"}}},
		`at "//.": want absolute paths, and no target /`:                  {Binds: []mount.Bind{{Source: dir, Target: "//."}}},
		`at "/opt/ml": shown there twice`:                                 {Binds: []mount.Bind{{Source: dir, Target: "/opt/ml"}, {Source: dir + "/folder", Target: "/opt/ml/"}}},
		`at "` + dir + `/folder": a file cannot be shown at a folder`:     {Binds: []mount.Bind{{Source: dir + "/file", Target: dir + "/folder"}}},
		`at "` + dir + `/file": a folder cannot be shown at a file`:       {Binds: []mount.Bind{{Source: dir, Target: dir + "/file"}}},
		`at "` + dir + `/file/below": not a directory`:                    {Binds: []mount.Bind{{Source: dir, Target: dir + "/file/below"}}},
		`at "/opt/ml/gone": no such file or directory`:                    {Binds: []mount.Bind{{Source: dir, Target: "/opt/ml/gone"}, {Source: dir + "/folder", Target: "/opt/ml"}}},
		`at "/opt/ml/inner": a file cannot be shown at a folder`:          {Binds: []mount.Bind{{Source: dir + "/file", Target: "/opt/ml/inner"}, {Source: dir + "/folder", Target: "/opt/ml"}}},
		`show "up" at "` + dir + `/folder": want absolute paths`:          {Overlays: []mount.Overlay{{Target: dir + "/folder", Lower: []string{dir}, Upper: "up", Work: dir}}},
		`at "` + dir + `": nothing to lay the upper folder over`:          {Overlays: []mount.Overlay{{Target: dir, Upper: dir + "/folder", Work: dir + "/folder"}}},
		`at "` + dir + `": only folders can be laid over each other`:      {Overlays: []mount.Overlay{{Target: dir, Lower: []string{dir + "/file"}, Upper: dir, Work: dir}}},
		`at "` + dir + `/gone": no such file or directory`:                {Overlays: []mount.Overlay{{Target: dir + "/gone", Lower: []string{dir}, Upper: dir + "/folder", Work: dir + "/folder"}}},
		`at "` + dir + `/file": a folder cannot be shown at a file`:       {Overlays: []mount.Overlay{{Target: dir + "/file", Lower: []string{dir}, Upper: dir + "/folder", Work: dir + "/folder"}}},
		`at "/opt/ml/x": it lies where an overlay is shown once more`: {Binds: []mount.Bind{{Source: dir, Target: "/opt/ml/x"}},
			Overlays: []mount.Overlay{{Target: dir, Lower: []string{dir}, Upper: dir, Work: dir, Also: []string{"/opt/ml"}}}},
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
