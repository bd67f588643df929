package proc

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/drover-run/drover/internal/proc/enter"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
)

func TestWhoEntersSeesWhatTheProgramSees(t *testing.T) {
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	if err := os.Mkdir(own, 0o755); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(own, "seen")
	p, err := Start(t.Context(), Command{Path: "/bin/sh", Args: []string{"sh", "-c", "sleep 100"}, Dir: "/", Env: os.Environ(), Token: "enter-test",
		View: &mount.View{Binds: []mount.Bind{{Source: own, Target: "/drover-enter-test"}}}})
	if err != nil {
		t.Skipf("no views here: %v", err)
	}
	defer func() {
		p.Kill()
		p.Wait()
	}()
	id, err := process.Of(p.Pid())
	if err != nil {
		t.Fatal(err)
	}
	status, err := enter.Run(enter.Command{View: id, Dir: "/drover-enter-test", Env: []string{"PATH=/usr/bin:/bin", "WORD=said"}, Args: []string{"sh", "-c", "pwd >seen; echo $WORD >>seen; exit 9"}})
	if err != nil || status != 9 {
		t.Fatalf("it ended with %d, %v", status, err)
	}
	b, err := os.ReadFile(out)
	if err != nil || string(b) != "/drover-enter-test\nsaid\n" {
		t.Errorf("it has seen %q, %v", b, err)
	}
	if _, err := os.Lstat("/drover-enter-test"); err == nil {
		t.Error("the machine sees it too")
	}
	for name, wrong := range map[string]func(*process.Identity){
		"boot":      func(id *process.Identity) { id.Boot = "another" },
		"namespace": func(id *process.Identity) { id.Namespace = "pid:[1]" },
		"start":     func(id *process.Identity) { id.Start++ },
	} {
		other := id
		wrong(&other)
		if status, err := enter.Run(enter.Command{View: other, Dir: "/", Args: []string{"/bin/sh", "-c", "exit 9"}}); err == nil {
			t.Errorf("a process of another %s is entered: status %d", name, status)
		}
	}
}
