// Package config reads the layers of settings (environment, drover.yaml, the user's file,
// defaults), changes single lines of these files, and refuses a setting of drover.yaml
// that runs or opens something until the user has confirmed the file.
// Proved by its tests, a fuzz test, and the scripts config_*.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
	"github.com/drover-run/drover/store"
)

// Setting is a key of the config files.
type Setting struct {
	Key  string
	Env  string // the variable that wins over files
	Text string // what it means, one line
}

// Known are the keys of settings, in the order in which drover config lists them.
var Known = []Setting{
	{"project", "DROVER_PROJECT", "project of jobs that name none"},
	{"store", "DROVER_STORE", "where facts are kept: a folder, s3://bucket/prefix or gs://bucket/prefix"},
	{"store_endpoint", "DROVER_STORE_ENDPOINT", "server that has the store's bucket, if it is not Amazon's"},
	{"agent_profile", "DROVER_AGENT_PROFILE", "profile in ~/.aws, or Google account, that agents open the store as; machine: the identity of their machine"},
	{"agent_role", "DROVER_AGENT_ROLE", "role (an ARN) or service account that you may take, for agents to open the store as for some hours"},
	{"on", "DROVER_ON", "target of jobs that name none"},
	{"machine", "DROVER_MACHINE", "types of machines, such as g5.xlarge,g6.*, of jobs that name none"},
	{"where", "DROVER_WHERE", "placement expression of jobs that have none: type =~ p3.*"},
	{"spot", "DROVER_SPOT", "how machines are bought for jobs that do not say it: only, first or never"},
	{"python", "DROVER_PYTHON", "interpreter for scripts"},
	{"output", "DROVER_OUTPUT", "folder that receives outputs, as -o"},
	{"image_mirror", "DROVER_IMAGE_MIRROR", "registry prefix that holds the framework images, instead of AWS's own"},
	{"image_registry", "DROVER_IMAGE_REGISTRY", "registry prefix to push images to that are built here for machines elsewhere, such as ghcr.io/me"},
	{"region", "AWS_REGION", "AWS region, whose registry has the framework images"},
}

// Found is a setting's value and where it comes from.
type Found struct {
	Value string
	From  string // "DROVER_STORE", "drover.yaml", a file's path, or "default"
}

// Config is the layers: environment, the project's drover.yaml, the user's file.
type Config struct {
	User, ProjectKeys map[string]string
	UserFile          string
	project           *projectFile      // nil: there is none
	Used              map[string]string // by key, the file that gave the value that was used: see Use
	Notes             []string          // what the user should know of files that were passed over
}

// ReadConfig reads the files that are there, for a command that is typed in the working
// folder.
func ReadConfig(dirs Dirs) (*Config, error) {
	c := &Config{UserFile: filepath.Join(dirs.Config, "config.yaml"), User: map[string]string{}, Used: map[string]string{}}
	body, err := readUserFile(c.UserFile)
	if err != nil {
		return nil, err
	}
	if c.User, err = parseSettings(c.UserFile, body); err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return c, nil // a verb that needs the folder refuses
	}
	if c.project, c.Notes = findProjectFile(dir, dirs.Confirmations()); c.project != nil {
		c.ProjectKeys, err = ParseProject(c.project.path, c.project.body)
	}
	return c, err
}

// ProjectPath is the project file's; "" if there is none.
func (c *Config) ProjectPath() string {
	if c.project == nil {
		return ""
	}
	return c.project.path
}

// readUserFile reads the user's own file, which may be a link. One that others may
// write is refused: it decides what runs. So is that of another user, when this
// process has that user's HOME, as root's has after sudo.
func readUserFile(file string) ([]byte, error) {
	body, info, err := ReadSettingsFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Denied, "", "read config")
	}
	if why, remedy := othersWrite(file, "it", info); why != "" {
		return nil, fault.New(fault.Invalid, terminal.OrElse(remedy, "Set HOME, or XDG_CONFIG_HOME, to a folder of your own; after sudo: sudo -H drover ...")+".", "read config %s: %s", file, why)
	}
	return body, nil
}

// ParseProject is parseSettings, with the folders that a project file names beside
// itself, as paths in a job file are beside that.
func ParseProject(file string, body []byte) (map[string]string, error) {
	values, err := parseSettings(file, body)
	if s := values["store"]; s != "" && !filepath.IsAbs(s) && !strings.Contains(s, "://") {
		values["store"] = filepath.Join(filepath.Dir(file), s)
	}
	return values, err
}

func parseSettings(file string, b []byte) (map[string]string, error) {
	var tree map[string]any
	values := map[string]string{}
	err := yaml.Unmarshal(b, &tree)
	if err == nil {
		err = flatten(values, "", tree)
	}
	if err != nil {
		return nil, fault.New(fault.Invalid, "Write it as lines of \"key: value\".", "read config %s: %s", file, yaml.FormatError(err, false, true))
	}
	for key := range values {
		if err := KnownKey(key); err != nil {
			return nil, fmt.Errorf("read config %s: %w", file, err)
		}
	}
	return values, nil
}

// flatten makes "targets.local.queues.a.cpus" of tables in tables. Both ways of
// writing it are read.
func flatten(values map[string]string, prefix string, tree map[string]any) error {
	for key, value := range tree {
		switch v := value.(type) {
		case map[string]any:
			if err := flatten(values, prefix+key+".", v); err != nil {
				return err
			}
		case []any:
			if strings.HasSuffix(prefix+key, ".args") { // KnownKey checks the target
				words := make([]string, len(v))
				for i, word := range v {
					words[i] = fmt.Sprint(word)
				}
				values[prefix+key] = strings.Join(words, "\n")
				continue
			}
			return fmt.Errorf("%s%s is a list", prefix, key)
		case nil:
		default:
			values[prefix+key] = fmt.Sprint(v)
			if strings.HasSuffix(prefix+key, ".args") {
				values[prefix+key] = strings.Join(strings.Fields(fmt.Sprint(v)), "\n")
			}
		}
	}
	return nil
}

// shareKey is what a queue of a target may hold in all.
var shareKey = regexp.MustCompile(`^targets\.[a-z0-9-]+\.queues\.[a-z0-9-]+\.(cpus|memory|gpus)$`)

// KnownKey refuses a key that no setting has.
func KnownKey(key string) error {
	keys := []string{}
	if shareKey.MatchString(key) || TargetKey.MatchString(key) {
		return nil
	}
	for _, s := range Known {
		if s.Key == key {
			return nil
		}
		keys = append(keys, s.Key)
	}
	hint := "The keys are " + strings.Join(keys, ", ") + "."
	if strings.HasPrefix(key, "targets.") {
		hint = "Limits of a queue are targets.local.queues.NAME.cpus, .memory and .gpus; a target of your own has targets.NAME.on, .args, .workers, .cpus, .memory, .gpus, .timeout, .store, .machine, .where and .spot."
	}
	if near := fault.Nearest(key, keys); near != "" {
		hint = "Did you mean " + near + "?"
	}
	return fault.New(fault.Invalid, hint, "find setting: there is no %q", key)
}

// Get finds the layer that wins: environment, project, user.
func (c *Config) Get(key string) Found {
	for _, s := range Known {
		if s.Key != key {
			continue
		}
		if v := os.Getenv(s.Env); v != "" {
			return Found{v, s.Env}
		}
	}
	if v := c.ProjectKeys[key]; v != "" {
		return Found{v, c.project.path}
	}
	if v := c.User[key]; v != "" {
		return Found{v, c.UserFile}
	}
	return Found{"", "default"}
}

// ShareText says what keys of queues mean.
const ShareText = "what the jobs of this queue may hold together"

// Shares are the keys that limit queues, in the order of their names.
func (c *Config) Shares() []string {
	var keys []string
	for _, layer := range []map[string]string{c.ProjectKeys, c.User} {
		for key := range layer {
			if shareKey.MatchString(key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// SettingJSON is a setting as --json prints it.
type SettingJSON struct {
	Value       string `json:"value"`
	From        string `json:"from"`
	Unconfirmed bool   `json:"unconfirmed,omitempty"` // not used until drover config trust
}

// AsJSON is a setting as drover config --json prints it.
func (c *Config) AsJSON(key string, f Found) SettingJSON {
	return SettingJSON{ShownSetting(key, f.Value), f.From, c.Refuses(key, f)}
}

// FromWords is where a value comes from, and whether it is used.
func (c *Config) FromWords(key string, f Found) string {
	if c.Refuses(key, f) {
		return terminal.PlainText(f.From) + " (not confirmed)"
	}
	return terminal.PlainText(f.From)
}

// ShownSetting returns a setting's value without the password that a mistyped URL of a
// store may hold: the variable or file that sets it may be older than the check of
// config set.
func ShownSetting(key, value string) string {
	if strings.HasPrefix(key, "store") {
		return store.Shown(value)
	}
	return value
}

// Dirs are drover's own folders on this machine.
type Dirs struct {
	Data   string // the default store
	State  string // placements and work folders
	Cache  string
	Config string
}

// Programs are folders in which there may be drover's program for other systems.
func (d Dirs) Programs() []string {
	if d.Data == "" {
		return nil
	}
	return []string{d.Data + "-programs"} // Data itself is a store
}

// Confirmations are those that this user has given.
func (d Dirs) Confirmations() Confirmations {
	if d.State == "" {
		return ""
	}
	return Confirmations(filepath.Join(d.State, "confirmed"))
}

// ShareWords is what the jobs of a queue may hold together, in words.
func ShareWords(s job.Share) string {
	words := "(up to"
	if s.CPUs > 0 {
		words += " " + terminal.CoreWords(s.CPUs)
	}
	if s.Memory > 0 {
		words += " " + s.Memory.Words()
	}
	if s.GPUs > 0 {
		words += " " + terminal.Count(s.GPUs, "GPU")
	}
	return words + ")"
}

// Share is what the config lets a queue of a target hold in all.
func (c *Config) Share(target, queue string) (s job.Share, err error) {
	if target == "" {
		target = "local"
	}
	if queue == "" {
		queue = job.DefaultQueue
	}
	name, _, _ := strings.Cut(target, "/")
	key := "targets." + name + ".queues." + queue + "."
	for _, one := range []struct {
		key string
		set func(string) error
	}{
		{"cpus", func(v string) error { _, err := fmt.Sscanf(v+"\n", "%g\n", &s.CPUs); return err }},
		{"gpus", func(v string) error { _, err := fmt.Sscanf(v+"\n", "%d\n", &s.GPUs); return err }},
		{"memory", func(v string) error { return s.Memory.UnmarshalText([]byte(v)) }},
	} {
		f := c.Get(key + one.key)
		if f.Value == "" {
			continue
		}
		if err := one.set(f.Value); err != nil || s.CPUs < 0 || s.GPUs < 0 {
			return s, fault.New(fault.Invalid, "Write a number above 0; memory such as 8G.", "read config %s: %s%s: %q is not a size", f.From, key, one.key, f.Value)
		}
	}
	return s, nil
}

// Complete gives a spec what the config says and the command line did not.
func (c *Config) Complete(spec *job.Spec) error {
	for key, field := range option.ConfigFields(spec) {
		if err := c.Fill(field, key); err != nil {
			return err
		}
	}
	return c.Fill((*string)(&spec.Spot), "spot")
}
