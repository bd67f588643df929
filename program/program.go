// Package program is drover as one program: the command line, the agent that runs on every
// machine, and the supervisor of each program's processes, all in one binary. A main gives
// it the targets, and nothing else:
//
//	func main() { program.Main("1.0", local.Target, mine.Target) }
//
// It chooses the stores that can be opened, and gives package agent what a machine knows of
// itself. It knows a target only as a driver.Target. The scripts of cmd/drover prove it, and
// so does a module outside of this one, with a driver of its own.
package program

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/agent"
	"github.com/drover-run/drover/internal/agent/launcher"
	"github.com/drover-run/drover/internal/cli"
	"github.com/drover-run/drover/internal/image/build"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/private"
	"github.com/drover-run/drover/internal/record"
)

// Main is all that a main function does: it runs the command line with these targets, and
// exits. Call it before anything else in the process. version is what drover version prints
// and jobs record.
func Main(version string, targets ...driver.Target) {
	proc.Main()
	p := program{version: version, targets: targets, dirs: dirs()}
	if len(os.Args) > 1 {
		switch os.Args[1] { // words that drover itself starts processes with, and no user types
		case "agent":
			os.Exit(p.runAgent(os.Args[2:]))
		case "enter":
			os.Exit(p.runEnter(os.Args[2:]))
		case "launch":
			os.Exit(launcher.Main(os.Args[2:]))
		case "rsh":
			os.Exit(launcher.Rsh(os.Args[2:]))
		}
	}
	os.Exit(cli.Main(context.Background(), p.cliHost(), typed(os.Args)))
}

// program is one process of drover.
type program struct {
	version string
	targets []driver.Target
	dirs    cli.Dirs
}

// typed is the command line without the program's name. A link to drover that is
// named ssm is drover ssm.
func typed(args []string) []string {
	if len(args) == 0 {
		return nil
	}
	if filepath.Base(args[0]) == "ssm" {
		return append([]string{"ssm"}, args[1:]...)
	}
	return args[1:]
}

func (p *program) cliHost() cli.Host {
	work := workFolder(p.dirs)
	return cli.Host{Version: p.version, Dirs: p.dirs, OpenBucket: openBucket, OpenPlace: openPlace, Owner: owner, Rights: rights, Found: found,
		OpenTargets: p.openedTargets, Queues: queues{p.reservations}, Registries: build.Registries{Clouds: clouds()}, Sockets: sockets(work),
		Folders: func() []drover.WorkFolder { return leftFolders(work) }, RemoveFolder: agent.RemoveLeft}
}

// openedTargets are the targets that --on can name.
func (p *program) openedTargets(open driver.OpenStore) map[string]driver.Opened {
	all := map[string]driver.Opened{}
	for _, t := range p.targets {
		all[t.Name] = t.Open(driver.Config{State: filepath.Join(p.dirs.State, t.Name), Store: open, Reservations: reservationsFolder(p.dirs), Work: workFolder(p.dirs)})
	}
	return all
}

// leftFolders are the folders of agents that have died.
func leftFolders(work string) (all []drover.WorkFolder) {
	for _, l := range agent.LeftFolders(work, gone) {
		all = append(all, drover.WorkFolder(l))
	}
	return all
}

// workFolder is where the agents of this machine work, each in JOB/AGENT.
func workFolder(d cli.Dirs) string { return filepath.Join(d.State, "work") }

// sockets finds the output of a job's agents below work.
func sockets(work string) func(id string) []string {
	return func(id string) (all []string) {
		agents, _ := filepath.Glob(filepath.Join(work, id, "*")) // only a bad pattern is an error, and ids are letters and digits
		for _, agent := range agents {
			all = append(all, record.Sockets(agent)...)
		}
		return all
	}
}

// dirs follows the XDG base folders; those that are not set lie below HOME.
func dirs() cli.Dirs {
	home, _ := os.UserHomeDir()
	base := func(env, fallback string) string {
		if v := os.Getenv(env); filepath.IsAbs(v) {
			return filepath.Join(v, "drover")
		}
		if home == "" {
			return ""
		}
		return filepath.Join(home, fallback, "drover")
	}
	d := cli.Dirs{Data: base("XDG_DATA_HOME", ".local/share"), State: base("XDG_STATE_HOME", ".local/state"),
		Cache: base("XDG_CACHE_HOME", ".cache"), Config: base("XDG_CONFIG_HOME", ".config")}
	// Without a home, a folder of this user's below the temporary one. Where another user
	// has made that folder, to have us run environments from it, it is not used.
	if own := filepath.Join(os.TempDir(), fmt.Sprintf("drover-%d", os.Geteuid())); home == "" && private.MakeFolder(own) == nil {
		d.State, d.Cache = orElse(d.State, filepath.Join(own, "state")), orElse(d.Cache, filepath.Join(own, "cache"))
	}
	return d
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
