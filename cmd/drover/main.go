// Command drover runs the code you already have, here or elsewhere, and brings
// the results back. One binary is the command line, the agent that runs on every
// machine, and the supervisor of each program's processes.
//
// This is the only place that names concrete stores and targets.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/docker"
	"github.com/drover-run/drover/driver/local"
	"github.com/drover-run/drover/driver/slurm"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/agent"
	"github.com/drover-run/drover/internal/agent/launcher"
	"github.com/drover-run/drover/internal/cli"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/record"
)

// version is stamped by the Makefile.
var version = "dev"

func main() {
	proc.Main()
	if len(os.Args) > 1 {
		switch os.Args[1] { // what drover starts itself, and nobody types
		case "agent":
			os.Exit(runAgent(os.Args[2:]))
		case "enter":
			os.Exit(runEnter(os.Args[2:]))
		case "launch":
			os.Exit(launcher.Main(os.Args[2:]))
		case "rsh":
			os.Exit(launcher.Rsh(os.Args[2:]))
		}
	}
	os.Exit(cli.Main(context.Background(), face(), typed(os.Args)))
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

func face() cli.Host {
	d := dirs()
	return cli.Host{Version: version, Dirs: d, OpenBucket: openBucket, OpenPlace: openPlace, Owner: owner, Rights: rights, Found: found,
		Drivers: func() map[string]driver.Driver { return drivers(d) }, Scripts: map[string]driver.Script{slurm.Target: slurm.Directives}, Queues: queues{d}, Sockets: sockets(workFolder(d)),
		Folders: func() []drover.WorkFolder { return leftFolders(workFolder(d)) }, RemoveFolder: agent.RemoveLeft}
}

// leftFolders are those in which agents worked that have died.
func leftFolders(work string) (all []drover.WorkFolder) {
	for _, l := range agent.LeftFolders(work, drover.Gone) {
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

// drivers are the targets of --on.
func drivers(d cli.Dirs) map[string]driver.Driver {
	return map[string]driver.Driver{
		local.Target:  local.New(filepath.Join(d.State, "local")),
		docker.Target: docker.New(filepath.Join(d.State, "docker"), claimsFolder(d)),
		slurm.Target:  slurm.New(filepath.Join(d.State, "slurm")),
	}
}

// dirs follows the XDG base folders; below HOME where they are not set.
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
	// Without a home, a folder of this user's in the temporary one. Another user
	// may have made it to have us run his environments: then it is not used.
	if own := filepath.Join(os.TempDir(), fmt.Sprintf("drover-%d", os.Geteuid())); home == "" && proc.MakePrivate(own) == nil {
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
