package sagemaker

import (
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/internal/cli/ssm"
	"github.com/drover-run/drover/job"
)

// What a command line says of AWS counts on a target with driver.Properties.SSM.

// The tags by which the tool finds the jobs of its tasks.
const (
	tagProject = "SimpleSagemakerProject"
	tagTask    = "SimpleSagemakerTask"
	tagRelease = "SimpleSagemakerVersion"
	tagCaller  = "SimpleSagemakerCallingModule"
)

// toolImages are the images of training jobs for which no version, or no Python, is named.
var toolImages = map[string]string{"pytorch": "pytorch:1.6.0:py3", "tensorflow": "tensorflow:2.3.0:py37"}

// findProperties gives the properties of a target, built in or named; of one that is not known the zero value, as a later step refuses it.
func (a Specs) findProperties(on string) (p driver.Properties, err error) {
	conf, err := a.ReadConfig()
	if err != nil {
		return p, err
	}
	named, err := a.NamedTargets(conf)
	if err != nil {
		return p, err
	}
	if t, ok := named[on]; ok {
		on = t.On
	}
	name, _ := job.SplitTarget(on)
	return a.Drivers()[name].Properties, nil
}

// UseBucket makes the bucket and prefix of a command line the store, where the target is one of AWS's; else they have no effect.
func (a Specs) UseBucket(c ssm.Command) error {
	if c.Bucket == "" || a.Settings.Store != "" {
		return nil
	}
	conf, err := a.ReadConfig()
	if err != nil {
		return err
	}
	on := a.Settings.On
	if err := conf.Fill(&on, "on"); err != nil {
		return err
	}
	p, err := a.findProperties(on)
	if err != nil || !p.SSM {
		return err
	}
	a.Settings.Store = strings.TrimSuffix("s3://"+c.Bucket+"/"+strings.Trim(path.Clean(c.Prefix), "./"), "/")
	a.Note("note: its jobs are in %s: other commands find them with --store", a.Settings.Store)
	return nil
}

// setAWS makes a job's spec ask for what the tool asks for.
func (a Specs) setAWS(c ssm.Command, spec *job.Spec) error {
	if c.Volume < 1 {
		return ssmRefuse("Use 1 or more.", "--volume_size: %d", c.Volume)
	}
	spec.Disk = job.Bytes(c.Volume) << 30
	if !strings.Contains(c.Machine, "local") {
		spec.Machine = c.Machine
	}
	at, _, err := a.StoreURL()
	if err != nil {
		return err
	}
	var args []string
	if at, _, _ = strings.Cut(at, "?"); strings.HasPrefix(at, "s3://") { // else the plan refuses the store
		args = append(args, "output="+strings.TrimSuffix(at, "/")+"/"+spec.Project+"/"+spec.Task)
	}
	switch {
	case c.Verb == ssm.Process:
		name, detail := job.SplitTarget(spec.On)
		if p := a.Drivers()[name]; p.Driver != nil && !strings.HasPrefix(detail, "processing") { // a target that the user has named says it itself
			spec.On = job.JoinTarget(name, strings.TrimSuffix("processing/"+detail, "/"))
		}
	case !c.Spot:
		spec.Spot = job.SpotNever
	default:
		spec.Spot = job.SpotOnly
		if c.MaxWait != 0 && c.MaxWait < c.MaxRun {
			return ssmRefuse("Use --max_wait_mins "+strconv.Itoa(c.MaxRun)+" or more: it has the time of the run too.", "--max_wait_mins: %d is less than --max_run_mins, %d", c.MaxWait, c.MaxRun)
		}
		args = append(args, "wait="+(time.Duration(max(c.MaxWait-c.MaxRun, 0))*time.Minute).String())
	}
	if spec.TargetArgs == nil {
		spec.TargetArgs = map[string][]string{}
	}
	spec.TargetArgs[job.AnyTarget] = append(spec.TargetArgs[job.AnyTarget], args...)
	spec.Framework = c.Framework + ":" + c.FrameworkVersion
	if c.Verb != ssm.Process {
		spec.Framework += ":" + c.Py
		if c.FrameworkVersion == "" || c.Py == "" {
			spec.Framework = toolImages[c.Framework]
		}
	}
	if spec.Tags == nil {
		spec.Tags = map[string]string{}
	}
	spec.Tags[tagProject], spec.Tags[tagTask], spec.Tags[tagRelease], spec.Tags[tagCaller] = c.Project, c.Task, ssm.Release, "drover ssm"
	return nil
}

// withoutEffect are the flags of a command line that concern AWS and have no effect there either.
func withoutEffect(c ssm.Command) (names []string) {
	for _, name := range c.OnlyAWS() {
		switch name {
		case "--aws_repo_name", "--repo_name", "--image_tag":
			names = append(names, name)
		}
	}
	return names
}
