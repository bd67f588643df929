// Command drover runs the code you already have, here or elsewhere, and brings
// the results back. One binary is the command line, the agent that runs on every
// machine, and the supervisor of each program's processes.
//
// This is the only place that names concrete targets: package program does the rest.
package main

import (
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/docker"
	"github.com/drover-run/drover/driver/local"
	"github.com/drover-run/drover/driver/slurm"
	"github.com/drover-run/drover/program"
)

// version is stamped by the Makefile.
var version = "dev"

func main() {
	here := []driver.Target{local.Target, docker.Target, slurm.Target}
	program.Main(version, append(here, remote...)...)
}
