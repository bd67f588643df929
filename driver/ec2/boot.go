package ec2

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/ec2/instancetype"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// programFile is where a machine has drover's program. A variable for tests, which run machines as processes of one machine.
var programFile = "/var/lib/drover/drover"

const (
	// bootTime is how long a machine has until its agent is up: then it ends itself.
	bootTime = 15 * time.Minute
	// overTime is what a machine has beyond its program's time limit, to begin, to save and to end.
	overTime = 15 * time.Minute
)

// The variables of a machine's own process, which the unit has.
const (
	variableGroup  = "DROVER_EC2_GROUP"
	variableImage  = "DROVER_EC2_IMAGE"  // the container's; "": the agent runs on the machine as it is
	variableGPUs   = "DROVER_EC2_GPUS"   // how many the container gets
	variableShm    = "DROVER_EC2_SHM"    // bytes of /dev/shm
	variableUntil  = "DROVER_EC2_UNTIL"  // as tagUntil
	variableNodes  = "DROVER_EC2_NODES"  // how many machines work together; "": each works by itself
	variableSecret = "DROVER_EC2_SECRET" // the secret's name in Secrets Manager, where there is one
)

// The parts of a machine's first script.
var (
	//go:embed boot_begin.txt
	bootBegin string
	//go:embed boot_end.txt
	bootEnd string
)

// userData is what each machine of a placement runs when it begins, as root. It is the same for all, and nothing in it is secret.
func userData(ctx context.Context, s remote.Submission, at site, region string, k instancetype.Choice, o options, now time.Time) (string, error) {
	if s.Request.Run.Programs == nil {
		return "", fault.New(fault.Bug, "", "fetch program: the request says of none")
	}
	p, err := s.Request.Run.Programs(ctx, "linux/"+k.Arch())
	if err != nil {
		return "", err
	}
	p.Downloads = slices.DeleteFunc(slices.Clone(p.Downloads), func(d store.Download) bool { return d.Secret || d.Of == store.OfContainer })
	var b strings.Builder
	fmt.Fprintf(&b, "#!/bin/sh\n# What a machine of %s does when it begins. Nothing in it is secret.\ngroup=%s region=%s minutes=%d\n", groupName(s.Handle), groupName(s.Handle), region, int(bootTime.Minutes()))
	b.WriteString(bootBegin)
	b.WriteString("(\n" + remote.FetchScript(p, programFile) + ") || fail 'the program of drover could not be fetched'\n")
	if n := s.Request.Needs.Time; n > 0 {
		fmt.Fprintf(&b, "systemd-run --on-active=%d shutdown -h now\n", int((n + overTime).Seconds()))
	}
	variables := []string{variableGroup + "=" + groupName(s.Handle), "AWS_REGION=" + region, "HOME=/root", variableUntil + "=" + strconv.FormatInt(now.Add(max(o.wait, aliveTime)).Unix(), 10)}
	if !at.bare {
		image, err := imageOf(s.Request.Needs.Place)
		if err != nil {
			return "", err
		}
		variables = append(variables, variableImage+"="+image, variableGPUs+"="+strconv.Itoa(gpusOf(s.Request.Needs, k)), variableShm+"="+strconv.FormatInt(s.Request.Needs.Place.Shm, 10))
		b.WriteString("systemctl mask --now ecs >/dev/null 2>&1\nsystemctl start docker\n") // the agent of ECS is of no use; an AMI without Docker is found out later
	}
	if n := s.Request.Needs.Place.Nodes; n > 1 {
		variables = append(variables, variableNodes+"="+strconv.Itoa(n))
	}
	if len(s.Secrets) > 0 {
		variables = append(variables, variableSecret+"="+secretName(s.Handle))
	}
	b.WriteString("set --")
	for _, v := range variables {
		b.WriteString(" " + store.Quote("--setenv="+v))
	}
	boot := s.Request.Run
	boot.Binary = programFile
	for _, w := range boot.Argv(s.Handle.Placement, 0) {
		b.WriteString(" " + store.Quote(w))
	}
	b.WriteString("\n" + bootEnd)
	return b.String(), nil
}

// publicPython is where Amazon has the images of Docker's library.
const publicPython = "public.ecr.aws/docker/library/"

// imageOf is the image that agents run in.
func imageOf(p driver.Place) (string, error) {
	image, err := p.ImageOrPython()
	if err == nil && p.Image == "" {
		image = publicPython + image // Docker's own registry counts the pulls of an address
	}
	return image, err
}

// gpusOf is how many GPUs an agent's container gets: all of the machine, which is its own.
func gpusOf(n driver.Needs, k instancetype.Choice) int {
	if n.GPUs == 0 && !k.GPUs() {
		return 0
	}
	return k.Types[0].GPUs
}

// projectOf is the project of a request.
func projectOf(r driver.Request) string {
	if name := r.Needs.Labels["project"]; name != "" {
		return name
	}
	path, _ := job.ParsePath(r.Run.Job)
	return path.Project
}
