package agent

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/mount"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// On a machine of its own the agent works in the folders that the machine shows,
// and never in others of the same name: here the view that the test lays is the
// machine's.
func TestAMachineOfItsOwnIsUsedAsItIs(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	dir := t.TempDir()
	root, hosts := filepath.Join(dir, "root"), filepath.Join(dir, "hosts")
	for _, d := range []string{root + "/opt/ml", root + "/state/old"} {
		p.check(os.MkdirAll(d, 0o755))
	}
	p.check(os.WriteFile(hosts, []byte("127.0.0.1 localhost\n"), 0o644))
	inode := func(path string) uint64 {
		info, err := os.Stat(path)
		p.check(err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	shown, table := inode(root+"/state"), inode(hosts)
	spec := job.Spec{Verb: job.Shell, Secrets: map[string]string{"KEY": "env:NOT_HERE"},
		Program: `stat -c %i /state; ls /state; echo $SM_MODEL_DIR $INDEX; test "$KEY" = sesame-open && echo told; echo s >/state/s`}
	j := p.submit(spec, nil)
	p.start(j, func(c *node.Config) {
		c.Machine.Root, c.Machine.Hosts = root, hosts
		c.Machine.Secrets = map[string]string{"KEY": "sesame-open", "INDEX": "here"}
		start := c.Machine.Start
		c.Machine.Start = func(ctx context.Context, cmd proc.Command) (*proc.Process, error) {
			if cmd.View != nil {
				t.Error("it wants a view all the same")
			}
			cmd.View = &mount.View{Binds: []mount.Bind{{Source: root + "/opt/ml", Target: "/opt/ml"}, {Source: root + "/state", Target: "/state"}}}
			return start(ctx, cmd)
		}
	}).leave(0)
	if rep := p.look(j); rep.Run.Settled == nil || rep.Run.Settled.State != job.Succeeded {
		t.Errorf("settled %+v", rep.Run.Settled)
	}
	if out, want := p.said(j, record.Stdout), fmt.Sprintf("%d\n/opt/ml/model here\ntold\n", shown); out != want {
		t.Errorf("it says %q, want %q", out, want)
	}
	text, err := os.ReadFile(hosts)
	if err != nil || !strings.Contains(string(text), "127.0.0.1 algo-1\n") || inode(hosts) != table {
		t.Errorf("hosts is %q, %v; want the node's name in the same file", text, err)
	}
}

// What fills a container's memory and is in no process ends the program all the same.
func TestAMachineOfItsOwnThatStarvesSaysSo(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		memory job.Bytes
		counts []int64 // before and after
		reason string
	}{
		"killed for it":           {1 << 30, []int64{2, 3}, "out of memory: 1 GB limit"},
		"killed by somebody else": {1 << 30, []int64{2, 2}, "SIGKILL"},
		"no limit to tell of":     {0, []int64{2, 3}, "SIGKILL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			j := p.submit(job.Spec{Verb: job.Shell, Program: "kill -9 $$", Limits: job.Limits{Memory: c.memory}}, nil)
			calls := 0
			p.start(j, func(conf *node.Config) {
				conf.Machine.Starved = func() int64 { n := c.counts[min(calls, 1)]; calls++; return n }
			}).leave(0)
			if exit := p.look(j).Run.Exits[0]; exit.Code != 137 || !strings.Contains(exit.Reason, c.reason) {
				t.Errorf("exit %+v", exit)
			}
		})
	}
}

func TestASecretThatTheTargetDidNotBringIsABug(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	j := p.submit(job.Spec{Verb: job.Shell, Program: "echo ran", Secrets: map[string]string{"KEY": "env:HOME"}}, nil)
	p.start(j, func(c *node.Config) { c.Machine.Secrets = map[string]string{"OTHER": "x"} }).leave(0)
	if out := p.said(j, record.Stdout); out != "" {
		t.Errorf("it ran: %q", out)
	}
	if exit := p.look(j).Run.Exits[0]; !strings.Contains(exit.Reason, "read secret KEY: the target did not provide it") {
		t.Errorf("exit %+v", exit)
	}
}
