package env

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/envtest"
	"github.com/drover-run/drover/internal/env/requirements"
)

// finished is an environment that looks built, without the time it takes: its
// python is a link to the real one.
func finished(t testing.TB, r requirements.Request) Plan {
	t.Helper()
	p := resolve(t, r)
	envtest.Write(t, filepath.Join(p.environFolder(), "pyvenv.cfg"), "home = "+filepath.Dir(p.self.Base)+"\n")
	envtest.Write(t, filepath.Join(p.environFolder(), "lib", "module.py"), "x = 1\n")
	if err := os.MkdirAll(filepath.Join(p.environFolder(), "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(p.self.Base, p.Interpreter); err != nil {
		t.Fatal(err)
	}
	b := builder{plan: &p, dir: p.environFolder(), log: func(string) {}}
	if err := b.writeMarker(time.Now()); err != nil {
		t.Fatal(err)
	}
	return p
}

// holdEnviron asks this test binary to hold an environment until it is killed.
const holdEnviron = "DROVER_TEST_HOLD"

func holdUntilKilled() {
	p, err := Resolve(context.Background(), requestOf())
	if err == nil {
		_, err = p.Hold(context.Background())
	}
	fmt.Println("held", err)
	select {}
}

func TestAnEnvironmentInUseIsNotRemoved(t *testing.T) {
	t.Parallel()
	r := request(t, "nosuch\n")
	p := finished(t, r)
	one, err := p.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	two, err := p.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inUse := func(want bool) {
		t.Helper()
		if list, err := List(r.Cache); err != nil || len(list) != 1 || list[0].InUse != want {
			t.Errorf("in use = %+v, %v; want %t", list, err, want)
		}
	}
	refused := func() {
		t.Helper()
		err := Remove(t.Context(), r.Cache, p.Digest[:12])
		if fault.KindOf(err) != fault.Full || err.Error() != "remove environment: "+p.Digest[:12]+": a process uses it" || fault.Hint(err) == "" {
			t.Errorf("Remove = %v, hint %q", err, fault.Hint(err))
		}
	}
	inUse(true)
	refused()
	one()
	one()
	refused()
	two()
	inUse(false)
	if !complete(p.environFolder()) {
		t.Fatal("what was refused was begun")
	}
	if err := Remove(t.Context(), r.Cache, p.Digest[:12]); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.environFolder()); err == nil {
		t.Error("Remove left it")
	}
}

func TestAHoldEndsWithItsProcess(t *testing.T) {
	t.Parallel()
	r := request(t, "nosuch\n")
	p := finished(t, r)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(r.Environ, holdEnviron+"=1", "T_DIR="+r.Dir, "T_PYTHON="+r.Python, "T_CACHE="+r.Cache)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(out).ReadString('\n')
	held := Remove(t.Context(), r.Cache, p.Digest[:12])
	cmd.Process.Kill()
	cmd.Wait()
	if line != "held <nil>\n" || fault.KindOf(held) != fault.Full {
		t.Fatalf("the holder said %q, Remove %v", line, held)
	}
	if err := Remove(t.Context(), r.Cache, p.Digest[:12]); err != nil {
		t.Errorf("after its end: %v", err)
	}
}

func TestAHoldWaitsForARemovalAndABuildFollows(t *testing.T) {
	t.Parallel()
	r := request(t, "nosuch\n")
	p := finished(t, r)
	removal, err := unused(t.Context(), p.environFolder())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.Hold(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped while it waits: %v", err)
	}
	if err := wipe(p.environFolder()); err != nil {
		t.Fatal(err)
	}
	removal.Close()
	release, err := p.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if !resolve(t, r).Build {
		t.Error("what was removed counts as built")
	}
}

func TestWhoIsInsideAnEnvironmentHoldsItAndUsesIt(t *testing.T) {
	t.Parallel()
	r := request(t, "nosuch\n")
	p := finished(t, r)
	r.Python, r.NoEnv = p.environFolder(), true
	inside := resolve(t, r)
	release, err := inside.Hold(t.Context())
	if err != nil || inside.Source != requirements.SourceActive {
		t.Fatalf("%+v, %v", inside, err)
	}
	defer release()
	if err := Remove(t.Context(), r.Cache, p.Digest[:12]); fault.KindOf(err) != fault.Full {
		t.Errorf("Remove = %v", err)
	}
	long := time.Now().Add(-40 * 24 * time.Hour)
	for _, asked := range []Plan{p, inside} {
		if err := os.Chtimes(filepath.Join(p.environFolder(), marker), long, long); err != nil {
			t.Fatal(err)
		}
		before := time.Now().Add(-time.Minute)
		if list, _ := List(r.Cache); !list[0].Used.Before(before) {
			t.Fatalf("used %s", list[0].Used)
		}
		if _, err := Build(t.Context(), asked, nil); err != nil {
			t.Fatal(err)
		}
		if list, _ := List(r.Cache); list[0].Used.Before(before) {
			t.Errorf("%s: it was asked for, and was last used %s", asked.Source, list[0].Used)
		}
	}
}

func TestThePlansWithoutAnEnvironmentHoldNothing(t *testing.T) {
	t.Parallel()
	r := request(t, "")
	release, err := resolve(t, r).Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := os.Stat(envs(r.Cache)); err == nil {
		t.Error("a hold of nothing made a folder")
	}
}

func TestABuildersLockAndAUsersAreTwo(t *testing.T) {
	t.Parallel()
	r := request(t, "nosuch\n")
	p := finished(t, r)
	release, err := p.Hold(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	// A process that uses it does not keep it from being built anew when it breaks.
	l, err := lock(t.Context(), p.environFolder()+lockEnd, "rebuild", func(string) { t.Error("a builder waits for a user") })
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if busy(p.environFolder()+lockEnd, unix.LOCK_SH) || !busy(p.environFolder()+useEnd, unix.LOCK_EX) {
		t.Error("the wrong file is held")
	}
}
