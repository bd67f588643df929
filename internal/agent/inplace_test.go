package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/agent/workspace"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// checkout is a user's folder: what git ignores lies there, and what was shipped.
type checkout struct {
	root    string
	all     map[string]string
	shipped map[string]string
}

func (p *place) checkout() checkout {
	p.t.Helper()
	top, err := filepath.EvalSymlinks(p.t.TempDir())
	p.check(err)
	c := checkout{root: filepath.Join(top, "repo"), shipped: map[string]string{"lib.txt": "shipped\n", "conf/a.yaml": "a\n", "exp/old.txt": "old\n"}}
	write(p.t, top, map[string]string{"data/rows.csv": "beside\n"})
	c.all = map[string]string{"lib.txt": "edited since\n", "conf/a.yaml": "a\n", "exp/old.txt": "old\n", "ignored.bin": "ignored\n", "cache/x.bin": "x\n", ".git/HEAD": "ref\n", ".git/index": "i\n"}
	write(p.t, c.root, c.all)
	return c
}

// submitIn is submit of a job with a program that runs where its code stands.
func (p *place) submitIn(c checkout, spec job.Spec, sub string) job.Job {
	p.t.Helper()
	return p.submitWith(spec, c.shipped, func(j *job.Job) {
		j.Host, j.Code.Root, j.Code.Sub, j.Code.InPlace = "desk", c.root, sub, true
	})
}

// unchanged says that nothing of the user's is other than before.
func (p *place) unchanged(c checkout) {
	p.t.Helper()
	if diff := cmp.Diff(c.all, texts(p.t, c.root)); diff != "" {
		p.t.Errorf("the user's folder (-want +got):\n%s", diff)
	}
}

// layersOrSkip skips a test where the kernel lays no folders over each other.
func (p *place) layersOrSkip(j job.Job) {
	p.t.Helper()
	if notes := p.said(j, record.Agent); strings.Contains(notes, "runs in a copy") {
		p.t.Skip(notes)
	}
}

const standing = `pwd; cat ../lib.txt ../ignored.bin ../../data/rows.csv ../.git/HEAD /opt/ml/code/cache/x.bin old.txt
echo new >made.txt; echo more >>../ignored.bin; : >>../cache/x.bin; echo j >../.git/index; rm old.txt ../conf/a.yaml; mkdir -p ../fresh __pycache__; echo f >../fresh/f; echo y >__pycache__/y`

// docs/design/013-code-where-it-stands.md: it finds all that it finds at home, and what it
// writes is its own.
func TestAProgramRunsWhereItsCodeStands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.checkout()
	j := p.submitIn(c, shell(standing), "exp")
	rep := p.run(j)
	p.layersOrSkip(j)
	p.unchanged(c)
	want := c.root + "/exp\nshipped\nignored\nbeside\nref\nx\nold\n"
	if got := p.said(j, record.Stdout); got != want {
		t.Error(cmp.Diff(want, got))
	}
	if rep.State != job.Succeeded {
		t.Errorf("%s: %s", rep.State, p.said(j, record.Stderr))
	}
	wantFiles := map[string]string{"exp/made.txt": "new\n", "ignored.bin": "ignored\nmore\n", "fresh/f": "f\n"}
	if diff := cmp.Diff(wantFiles, p.output(rep.Run.Exits[0], "files")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if notes := rep.Run.Exits[0].Notes; len(notes) > 0 {
		t.Errorf("notes %q", notes)
	}
	p.nothingLeft()
}

const standingTwice = `if [ -f made.txt ]; then cat made.txt ignored.bin; exit 0; fi
echo made >made.txt; echo more >>ignored.bin; trap 'exit 5' TERM; echo >$GATE0; while :; do sleep 1000 & wait $!; done`

func TestWhatAProgramWritesInPlaceIsThereForTheNextAttempt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c, up := p.checkout(), newGate(t)
	j := p.submitIn(c, shell(standingTwice, up), "")
	w := p.start(j, nil)
	up.wait()
	w.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	w.leave(0)
	p.layersOrSkip(j)
	p.unchanged(c)
	rep := p.run(j)
	if got, want := p.said(j, record.Stdout), "made\nignored\nmore\n"; got != want || rep.State != job.Succeeded {
		t.Errorf("%s: %q", rep.State, got)
	}
	p.unchanged(c)
	p.nothingLeft()
}

// An agent that is killed leaves the layer behind, and the next one saves it.
func TestWhatADeadAgentLeftInItsLayerIsThereForTheNextAttempt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c, up := p.checkout(), newGate(t)
	done := t.TempDir() + "/done"
	spec := shell(`pwd; cat step lib.txt ignored.bin; [ -f $DONE ] && exit 0
echo f >step; echo x >>lib.txt; echo more >>ignored.bin; rm -r conf; trap 'exit 5' TERM; echo >$GATE0; while :; do sleep 1000 & wait $!; done`, up)
	spec.Env["DONE"] = done
	j := p.submitIn(c, spec, "")
	w := p.start(j, dies)
	up.wait()
	w.die()
	write(t, strings.TrimSuffix(done, "/done"), map[string]string{"done": ""})
	rep := p.run(j)
	p.layersOrSkip(j)
	if out, want := p.said(j, record.Stdout), c.root+"\nf\nshipped\nx\nignored\nmore\n"; !strings.HasSuffix(out, want) || rep.State != job.Succeeded {
		t.Errorf("%s: %q", rep.State, out)
	}
	if notes := p.said(j, record.Agent); !strings.Contains(notes, "restored files of the working folder: 3 files") {
		t.Errorf("notes:\n%s", notes)
	}
	p.unchanged(c)
	p.nothingLeft()
}

// refusing is a machine with a kernel that lays no folders over each other.
func refusing(c *node.Config) {
	start := c.Machine.Start
	c.Machine.Start = func(ctx context.Context, cmd proc.Command) (*proc.Process, error) {
		if cmd.View != nil && len(cmd.View.Overlays) > 0 {
			return nil, fmt.Errorf("%w: no such device", mount.ErrNoOverlay)
		}
		return start(ctx, cmd)
	}
}

// Where the kernel refuses, a copy has links to what was not shipped; what an attempt
// before has made is there, too.
func TestWithoutLayersACopyHasLinksToWhatWasNotShipped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c, up := p.checkout(), newGate(t)
	script := `pwd; if [ -f made.txt ]; then cat made.txt lib.txt ignored.bin cache/x.bin .git/HEAD; echo new >cache/new; exit 0; fi
echo made >made.txt; trap 'exit 5' TERM; echo >$GATE0; while :; do sleep 1000 & wait $!; done`
	j := p.submitIn(c, shell(script, up), "")
	w := p.start(j, nil)
	up.wait()
	w.notice <- node.Notice{Asked: true, Why: "asked to stop"}
	w.leave(0)
	w = p.start(j, refusing)
	w.leave(0)
	rep := p.look(j)
	_, got, _ := strings.Cut(p.said(j, record.Stdout), "\n")
	if want := "/opt/ml/code\nmade\nshipped\nignored\nx\nref\n"; got != want || rep.State != job.Succeeded {
		t.Errorf("%s: %q\n%s", rep.State, got, p.said(j, record.Stderr))
	}
	if diff := cmp.Diff(map[string]string{"made.txt": "made\n", "cache/new": "new\n"}, p.output(rep.Run.Exits[0], "files")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	want := "the program runs in a copy of " + c.root + " (no such device), with links to files that were not shipped and are above 16 MB: to write to such a file changes your own"
	if notes := p.said(j, record.Agent); !strings.Contains(notes, want) {
		t.Errorf("%q is not in\n%s", want, notes)
	}
	p.unchanged(c)
	p.nothingLeft()
}

func TestWhatDroverWorksInIsNeverALayer(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.checkout()
	p.work = filepath.Join(c.root, "work")
	p.check(os.Mkdir(p.work, 0o755))
	j := p.submitIn(c, shell("pwd; cat ignored.bin; ls -d work 2>&1"), "")
	rep := p.run(j)
	if got, want := p.said(j, record.Stdout), "/opt/ml/code\nignored\n"; !strings.HasPrefix(got, want) || !strings.Contains(got, "work") || rep.State == job.Succeeded {
		t.Errorf("%s: %q", rep.State, got)
	}
	if notes := p.said(j, record.Agent); !strings.Contains(notes, "/work is in it), with links") && !strings.Contains(notes, " is in it), with links") {
		t.Errorf("notes:\n%s", notes)
	}
}

// A folder is this machine's alone: elsewhere the program runs in a copy.
func TestOnAnotherMachineAProgramRunsInACopy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.checkout()
	j := p.submitIn(c, shell("pwd; cat lib.txt; ls ignored.bin || true"), "")
	w := p.start(j, func(c *node.Config) { c.Machine.Name = "another" })
	w.leave(0)
	if got, want := p.said(j, record.Stdout), "/opt/ml/code\nshipped\n"; got != want {
		t.Errorf("%q", got)
	}
	if notes := p.said(j, record.Agent); !strings.Contains(notes, c.root+" is not on this machine: the program runs in a copy of what was shipped") {
		t.Errorf("notes:\n%s", notes)
	}
}

// A program that runs in the copy and writes to a file that was not shipped does not
// change the user's own, up to 16 MB. Above that it does, and the exit says so.
func TestWithoutLayersSmallFilesAreCopiesAndAChangeOfOthersIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	c := p.checkout()
	large := filepath.Join(c.root, "large.pt")
	write(t, c.root, map[string]string{"large.pt": ""})
	p.check(os.Truncate(large, workspace.MostCopied+1))
	j := p.submitIn(c, shell("echo job >ignored.bin; echo job >>large.pt"), "")
	w := p.start(j, refusing)
	w.leave(0)
	rep := p.look(j)
	if info, err := os.Stat(large); err != nil || info.Size() != workspace.MostCopied+5 {
		t.Errorf("%v: %d bytes", err, info.Size())
	}
	p.check(os.Remove(large))
	p.unchanged(c)
	if diff := cmp.Diff(map[string]string{"ignored.bin": "job\n"}, p.output(rep.Run.Exits[0], "files")); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	want := "files of yours changed: 1 file that the program had as links, such as " + large
	if notes := rep.Run.Exits[0].Notes; len(notes) != 1 || notes[0] != want {
		t.Errorf("notes %q, want %q", notes, want)
	}
	p.nothingLeft()
}
