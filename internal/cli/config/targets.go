package config

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/where"
)

// TargetKey is what the config says of a target that the person has named.
var TargetKey = regexp.MustCompile(`^targets\.([a-z0-9-]+)\.(on|args|workers|cpus|memory|gpus|timeout|store|machine|where|spot)$`)

// TargetText says what keys of targets mean.
const TargetText = "of a named target"

// TargetKeys are those there are, in the order of their names.
func (c *Config) TargetKeys() []string {
	var keys []string
	for _, layer := range []map[string]string{c.ProjectKeys, c.User} {
		for key := range layer {
			if TargetKey.MatchString(key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// Targets are the named ones. built says what names are taken.
func (c *Config) Targets(built func(name string) bool) (map[string]job.Target, error) {
	all := map[string]job.Target{}
	for _, key := range c.TargetKeys() {
		part := TargetKey.FindStringSubmatch(key)
		f := c.Get(key)
		if built(part[1]) {
			return nil, fault.New(fault.Invalid, "Give it a name of your own, and say on: "+part[1]+".", "read config %s: %s: a target of that name is built in", f.From, key)
		}
		t := all[part[1]]
		if err := SetTarget(&t, part[2], f.Value); err != nil {
			return nil, fmt.Errorf("read config %s: %s: %w", f.From, key, err)
		}
		if part[2] == "args" && filepath.IsAbs(f.From) {
			for i, arg := range t.Args {
				t.Args[i] = AnchorArg(arg, filepath.Dir(f.From))
			}
		}
		all[part[1]] = t
	}
	for name, t := range all {
		if t.On == "" {
			return nil, fault.New(fault.Invalid, "`drover config set targets."+name+".on slurm/gpu`, or `drover target rm "+name+"`.", "read config: target %s does not say what it is: targets.%s.on", name, name)
		}
		if !built(t.Base()) {
			return nil, fault.New(fault.Invalid, "`drover target ls` shows those there are.", "read config: target %s is on %q, which is not a target", name, t.On)
		}
	}
	return all, nil
}

// AnchorArg is an option of a target in a form that means the same in any folder: a relative file in NAME=@FILE
// lies below dir.
func AnchorArg(arg, dir string) string {
	name, file, ok := strings.Cut(arg, "=@")
	if !ok || file == "" || filepath.IsAbs(file) {
		return arg
	}
	return name + "=@" + filepath.Join(dir, file)
}

// MayTarget refuses a target with options from a file that was not confirmed.
func (c *Config) MayTarget(name string) error {
	_, err := c.Use("targets." + name + ".args")
	return err
}

// Withhold takes from targets what their file was not confirmed for. Commands that name
// such a target are refused (MayTarget); others go on without.
func (c *Config) Withhold(targets map[string]job.Target) {
	for name, t := range targets {
		if key := "targets." + name + ".args"; c.Refuses(key, c.Get(key)) {
			t.Args = nil
			targets[name] = t
		}
	}
}

// SetTarget takes one key's value in.
func SetTarget(t *job.Target, key, value string) (err error) {
	size := func(what string, ok bool) error {
		if !ok {
			return fault.New(fault.Invalid, "Write a number above 0.", "read %s: %q", what, value)
		}
		return nil
	}
	switch key {
	case "on":
		t.On = value
	case "store":
		t.Store = value
	case "machine":
		t.Machine = value
	case "where":
		t.Where = value
		_, err = where.Parse(value)
	case "spot":
		t.Spot = job.Spot(value)
		if !slices.Contains(job.Spots, t.Spot) {
			err = fault.New(fault.Invalid, "Write only, first or never.", "read spot: %q", value)
		}
	case "args":
		t.Args = strings.Split(value, "\n")
	case "workers", "gpus":
		n, nerr := strconv.Atoi(value)
		if *map[string]*int{"workers": &t.Workers, "gpus": &t.GPUs}[key] = n; nerr != nil || n < 1 {
			err = size(key, false)
		}
	case "cpus":
		t.CPUs, err = strconv.ParseFloat(value, 64)
		err = size(key, err == nil && t.CPUs > 0)
	case "memory":
		t.Memory, err = job.ParseBytes(value)
	case "timeout":
		t.Timeout, err = job.ParseDuration(value)
	}
	return err
}

// TargetLines are a target as a table of the config.
func TargetLines(t job.Target) []string {
	lines := []string{"on: " + scalar(t.On)}
	if len(t.Args) > 0 {
		args := make([]string, len(t.Args))
		for i, arg := range t.Args {
			args[i] = strconv.Quote(arg)
		}
		lines = append(lines, "args: ["+strings.Join(args, ", ")+"]")
	}
	for _, l := range []struct {
		is  bool
		key string
		v   any
	}{{t.Workers > 0, "workers", t.Workers}, {t.CPUs > 0, "cpus", t.CPUs}, {t.Memory > 0, "memory", t.Memory}, {t.GPUs > 0, "gpus", t.GPUs},
		{t.Timeout > 0, "timeout", t.Timeout}} {
		if l.is {
			lines = append(lines, fmt.Sprintf("%s: %v", l.key, l.v))
		}
	}
	for _, l := range []struct{ key, v string }{{"store", t.Store}, {"machine", t.Machine}, {"where", t.Where}, {"spot", string(t.Spot)}} {
		if l.v != "" {
			lines = append(lines, l.key+": "+scalar(l.v))
		}
	}
	return lines
}
