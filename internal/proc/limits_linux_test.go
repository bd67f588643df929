package proc

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/proctest"
	"github.com/drover-run/drover/internal/proc/resource"
)

const mib = 1 << 20

// hog is shell text that holds that many MB for ever, and says "held" first.
func hog(megabytes int) string { return `PROC_TEST_ROLE=hog "$SELF" ` + strconv.Itoa(megabytes) }

// inEachCage runs f with either pen, without and with a view.
func inEachCage(t *testing.T, f func(t *testing.T, c Command)) {
	inEachPen(t, func(t *testing.T, subreaper bool) {
		f(t, Command{subreaper: subreaper})
		if worn != nil || os.Geteuid() != 0 {
			return
		}
		t.Run("view", func(t *testing.T) {
			f(t, Command{subreaper: subreaper, View: &mount.View{Binds: []mount.Bind{{Source: t.TempDir(), Target: "/drover-test-limits"}}, Hostname: "algo-1"}})
		})
	})
}

// limit starts script with c's pen and view.
func limit(t *testing.T, c Command, l resource.Limits, script string) (*Process, *proctest.Outlet) {
	t.Helper()
	out := proctest.NewOutlet(t)
	c.Path, c.Args, c.Limits, c.Stdout = "/bin/sh", []string{"sh", "-c", script}, l, out.W
	return start(t, c), out
}

// noGroups fails if a group of that tree is left.
func noGroups(t *testing.T, token string) {
	t.Helper()
	if left := resource.GroupsOf(token); len(left) > 0 {
		t.Errorf("groups are left: %v", left)
	}
}

func TestMemoryBeyondTheLimitEndsTheTreeAndSaysSo(t *testing.T) {
	const allowed = 100 * mib
	for name, script := range map[string]string{
		"alone": "exec env " + hog(400),
		// Each is below the limit, and no process waits for those that die.
		"together": hog(60) + "& " + hog(60) + "& " + hog(60) + "& while :; do sleep 1000; done",
		"a daemon": `(PROC_TEST_ROLE=detach "$SELF" -c '` + hog(400) + `' &) ; while :; do sleep 1000; done`,
	} {
		t.Run(name, func(t *testing.T) {
			inEachCage(t, func(t *testing.T, c Command) {
				p, out := limit(t, c, resource.Limits{Memory: allowed}, script)
				if out.WaitForClose(); t.Failed() {
					p.Kill()
				}
				e := p.Wait()
				if !e.OOM || e.Crowd || e.Lost || e.Status() != 137 {
					t.Errorf("got %+v, status %d", e, e.Status())
				}
				if p.Limits().Memory == resource.ByWatching {
					if e.PeakMemory <= allowed {
						t.Errorf("peak %d is below the limit", e.PeakMemory)
					}
				} else if e.PeakMemory > allowed+mib || e.PeakMemory < allowed-mib { // the dying may take a page more
					t.Errorf("peak %d, limit %d", e.PeakMemory, allowed)
				}
				noGroups(t, p.Token())
			})
		})
	}
}

func TestWithinItsLimitsATreeIsLeftAlone(t *testing.T) {
	inEachCage(t, func(t *testing.T, c Command) {
		in, let, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		c.Stdin = in
		p, out := limit(t, c, resource.Limits{Memory: 500 * mib, CPUs: 1, Processes: 200}, hog(40)+" & read x; exit 7")
		out.WaitForLine("held", 1)
		let.Close()
		if e := p.Wait(); e.Code != 7 || e.OOM || e.Crowd || e.PeakMemory < 40*mib && p.Limits().Memory != resource.ByWatching {
			t.Errorf("got %+v", e)
		}
		out.RequireClosed()
		noGroups(t, p.Token())
	})
}

func TestNoMoreProcessesThanMayBe(t *testing.T) {
	inEachCage(t, func(t *testing.T, c Command) {
		out := proctest.NewOutlet(t)
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		c.Path, c.Args, c.Stdout, c.Stderr = "/bin/sh", []string{"sh", "-c", `i=0; while [ $i -lt 30 ]; do sleep 1000 & echo started; i=$((i+1)); done; echo all`}, out.W, null
		c.Limits = resource.Limits{Processes: 10}
		p := start(t, c)
		if by := p.Limits().Processes; by != resource.ByCgroup1 && by != resource.ByCgroup2 {
			t.Skip("the kernel does not hold it here: " + p.Limits().Why)
		}
		out.WaitForLine("started", 9)
		e := p.Wait()
		out.W.Close()
		if rest, _ := out.In.ReadString(0); rest != "" || e.Code < 1 || e.Crowd {
			t.Errorf("after ten processes: %q, %+v", rest, e)
		}
		noGroups(t, p.Token())
	})
}

func TestTimeUsedUpMakesTheTreeStandStill(t *testing.T) {
	top := ""
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 3 && f[2] == "cgroup" && slices.Contains(strings.Split(f[3], ","), "cpu") {
			top = f[1]
		}
	}
	inEachCage(t, func(t *testing.T, c Command) {
		c.Env = append(os.Environ(), "TOP="+top)
		// It goes on until the kernel has counted, however long that takes.
		p, out := limit(t, c, resource.Limits{CPUs: 0.05}, `
			own=$(sed -nE 's/^[0-9]+:(cpuacct,)?cpu(,cpuacct)?:(.*)/\3/p' /proc/self/cgroup)
			echo ready
			until grep -q '^throttled_time [1-9]' "$TOP$own/cpu.stat"; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; done
			echo throttled`)
		out.WaitForLine("ready", 1)
		if p.Limits().CPUs != resource.ByCgroup1 {
			p.Kill()
			t.Skip("no cgroup v1 holds it here: " + p.Limits().Why)
		}
		out.WaitForLine("throttled", 1)
		if e := p.Wait(); e.Code != 0 || e.Throttled == 0 {
			t.Errorf("got %+v", e)
		}
		noGroups(t, p.Token())
	})
}

func TestAProgramRunsOnItsCoresOnly(t *testing.T) {
	cores := resource.OwnCores()
	last := cores[len(cores)-1]
	inEachCage(t, func(t *testing.T, c Command) {
		_, out := limit(t, c, resource.Limits{Cores: []int{last}}, `sed -n 's/^Cpus_allowed_list:\t/cores /p' /proc/self/status`)
		out.WaitForLine("cores "+strconv.Itoa(last), 1)
		if diff := cmp.Diff(cores, resource.OwnCores()); diff != "" {
			t.Errorf("the agent is kept to cores, too: %s", diff)
		}
	})
}

func TestImpossibleLimitsAreRefused(t *testing.T) {
	var said faulttest.Sayings
	said.Hide(fmt.Sprint(resource.OwnCores()), "CORES")
	for _, l := range []resource.Limits{
		{CPUs: -1}, {CPUs: 0.001}, {CPUs: math.NaN()}, {CPUs: math.Inf(1)}, {Memory: -1}, {Memory: mib - 1}, {Processes: -1},
		{Cores: []int{-1}}, {Cores: []int{1 << 20}},
	} {
		p, err := Start(t.Context(), Command{Path: "true", Limits: l})
		if err == nil {
			p.Kill()
		}
		said.Error(fmt.Sprintf("%+v", l), err)
		if fault.KindOf(err) != fault.Invalid {
			t.Errorf("%+v: got %v", l, err)
		}
	}
	said.Compare(t, "limits")
}

func TestAProgramThatCannotStartLeavesNoGroup(t *testing.T) {
	c := Command{Path: "/etc/hosts", Token: "none-" + strconv.Itoa(os.Getpid()), Limits: resource.Limits{Memory: 100 * mib, CPUs: 1, Processes: 10}}
	if _, err := Start(t.Context(), c); fault.KindOf(err) != fault.Invalid {
		t.Errorf("got %v", err)
	}
	noGroups(t, c.Token)
}

// asUser has an agent run script with limits, as root or as an unprivileged user.
func asUser(t *testing.T, nobody bool, c Command) (said limited) {
	t.Helper()
	part, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := agentPart{}.command(t, nil)
	cmd.Env = append(cmd.Env, "PROC_TEST_ROLE=limited", "PROC_TEST_PART="+string(part))
	if nobody {
		asNobody(t, cmd)
	}
	cmd.Stdout, cmd.Stderr = nil, nil
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &said)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return said
}

func TestAPlainUsersTreeIsWatched(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for name, view := range map[string]*mount.View{"plain": nil, "view": {Binds: []mount.Bind{{Source: "/usr", Target: "/drover-test-limits"}}}} {
		t.Run(name, func(t *testing.T) {
			c := shell(hog(60) + "& " + hog(60) + "& " + hog(60) + "& while :; do sleep 1000; done")
			c.Limits, c.View = resource.Limits{Memory: 100 * mib}, view
			said := asUser(t, true, c)
			if strings.HasPrefix(said.Refused, mount.ErrNoView.Error()) {
				t.Skip(said.Refused)
			}
			if said.Here.Memory != resource.ByWatching || said.Here.CPUs != resource.ByAffinity || said.Here.Processes != resource.ByWatching || said.Here.Why == "" {
				t.Errorf("limits here: %+v", said.Here)
			}
			if e := said.Exit; !e.OOM || e.Status() != 137 || e.PeakMemory <= 100*mib || said.Held.Memory != resource.ByWatching || said.Held.Why == "" {
				t.Errorf("got %+v", said)
			}
			c = shell("i=0; while [ $i -lt 30 ]; do sleep 1000 & i=$((i+1)); done; wait")
			c.Limits, c.View = resource.Limits{Processes: 10}, view
			if e := asUser(t, true, c).Exit; !e.Crowd || e.OOM || e.Status() != 137 {
				t.Errorf("got %+v", e)
			}
			c = shell(`[ "$(sed -n 's/^Cpus_allowed_list:\t//p' /proc/self/status | grep -c '[-,]')" = 0 ]`)
			c.Limits, c.View = resource.Limits{CPUs: 0.5}, view
			if said := asUser(t, true, c); said.Exit.Code != 0 || said.Held.CPUs != resource.ByAffinity {
				t.Errorf("more than one core: %+v", said)
			}
		})
	}
}

func TestRootIsToldWhatHolds(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	here := resource.SupportHere()
	c := shell("exit 3")
	c.Limits = resource.Limits{Memory: 100 * mib, CPUs: 1, Processes: 100}
	said := asUser(t, false, c)
	if diff := cmp.Diff(here, said.Here); diff != "" && here.Why == "" {
		t.Errorf("two say different things: %s", diff)
	}
	if here.Why == "" {
		if diff := cmp.Diff(here, said.Held); diff != "" {
			t.Errorf("what was promised is not what holds: %s", diff)
		}
	}
	if said.Exit.Code != 3 {
		t.Errorf("got %+v", said)
	}
	for _, left := range resource.FindKernelGroups(func(token string, by process.Identity) bool {
		return strings.HasPrefix(token, "probe-") && by == process.Self()
	}) {
		t.Errorf("left: %s", left)
	}
}
