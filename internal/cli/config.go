package cli

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
	"github.com/spf13/cobra"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/agent/module"
	"github.com/drover-run/drover/internal/jobfile"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// configVerb is drover config.
type configVerb struct{ *app }

func newConfigVerb(a *app) configVerb { return configVerb{a} }

// setting is a key of the config files.
type setting struct {
	key  string
	env  string // the variable that wins over files
	text string // what it means, one line
}

var known = []setting{
	{"project", "DROVER_PROJECT", "project of jobs that name none"},
	{"store", "DROVER_STORE", "where facts are kept: a folder, s3://bucket/prefix or gs://bucket/prefix"},
	{"store_endpoint", "DROVER_STORE_ENDPOINT", "server that has the store's bucket, if it is not Amazon's"},
	{"agent_profile", "DROVER_AGENT_PROFILE", "profile in ~/.aws, or Google account, that agents open the store as; machine: the identity of their machine"},
	{"agent_role", "DROVER_AGENT_ROLE", "role (an ARN) or service account that you may take, for agents to open the store as for some hours"},
	{"on", "DROVER_ON", "target of jobs that name none"},
	{"python", "DROVER_PYTHON", "interpreter for scripts"},
	{"output", "DROVER_OUTPUT", "folder that receives outputs, as -o"},
	{"image_mirror", "DROVER_IMAGE_MIRROR", "registry prefix that holds the framework images, instead of AWS's own"},
	{"region", "AWS_REGION", "AWS region, whose registry has the framework images"},
}

// found is a setting's value and where it comes from.
type found struct {
	value string
	from  string // "DROVER_STORE", "drover.yaml", a file's path, or "default"
}

// config is the layers: environment, the project's drover.yaml, the user's file.
type config struct {
	user, projectKeys map[string]string
	userFile          string
	project           *projectFile      // nil: there is none
	used              map[string]string // by key, the file whose value was acted on: see use
	notes             []string          // what the user should know of files that were passed over
}

// readConfig reads the files that are there, for a command that is typed in the working
// folder.
func readConfig(dirs Dirs) (*config, error) {
	c := &config{userFile: filepath.Join(dirs.Config, "config.yaml"), user: map[string]string{}, used: map[string]string{}}
	body, err := readUserFile(c.userFile)
	if err != nil {
		return nil, err
	}
	if c.user, err = parseSettings(c.userFile, body); err != nil {
		return nil, err
	}
	dir, err := os.Getwd()
	if err != nil {
		return c, nil // whoever needs the folder says so
	}
	if c.project, c.notes = findProjectFile(dir, dirs.confirmations()); c.project != nil {
		c.projectKeys, err = parseProject(c.project.path, c.project.body)
	}
	return c, err
}

// projectPath is the project file's; "" if there is none.
func (c *config) projectPath() string {
	if c.project == nil {
		return ""
	}
	return c.project.path
}

// readUserFile reads the user's own file, which may be a link. One that others may
// write is refused: it decides what runs. So is that of another user whose HOME this
// process has, as root's after sudo.
func readUserFile(file string) ([]byte, error) {
	body, info, err := readSettingsFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.Denied, "", "read config")
	}
	if why, remedy := othersWrite(file, "it", info); why != "" {
		return nil, fault.New(fault.Invalid, orElse(remedy, "Set HOME, or XDG_CONFIG_HOME, to a folder of your own; after sudo: sudo -H drover ...")+".", "read config %s: %s", file, why)
	}
	return body, nil
}

// parseProject is parseSettings, with the folders that a project file names beside
// itself, as paths in a job file are beside that.
func parseProject(file string, body []byte) (map[string]string, error) {
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
		if err := knownKey(key); err != nil {
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
			if strings.HasSuffix(prefix+key, ".args") { // knownKey sees whose
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

func knownKey(key string) error {
	keys := []string{}
	if shareKey.MatchString(key) || targetKey.MatchString(key) {
		return nil
	}
	for _, s := range known {
		if s.key == key {
			return nil
		}
		keys = append(keys, s.key)
	}
	hint := "The keys are " + strings.Join(keys, ", ") + "."
	if strings.HasPrefix(key, "targets.") {
		hint = "Limits of a queue are targets.local.queues.NAME.cpus, .memory and .gpus; a target of your own has targets.NAME.on, .args, .workers, .cpus, .memory, .gpus, .timeout and .store."
	}
	if near := fault.Nearest(key, keys); near != "" {
		hint = "Did you mean " + near + "?"
	}
	return fault.New(fault.Invalid, hint, "find setting: there is no %q", key)
}

// get finds the layer that wins: environment, project, user.
func (c *config) get(key string) found {
	for _, s := range known {
		if s.key != key {
			continue
		}
		if v := os.Getenv(s.env); v != "" {
			return found{v, s.env}
		}
	}
	if v := c.projectKeys[key]; v != "" {
		return found{v, c.project.path}
	}
	if v := c.user[key]; v != "" {
		return found{v, c.userFile}
	}
	return found{"", "default"}
}

const shareText = "what the jobs of this queue may hold together"

// shares are the keys that limit queues, in the order of their names.
func (c *config) shares() []string {
	var keys []string
	for _, layer := range []map[string]string{c.projectKeys, c.user} {
		for key := range layer {
			if shareKey.MatchString(key) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

func (a configVerb) command() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show, set and explain settings; print the job file's schema",
		Args: exactly(0), RunE: func(cmd *cobra.Command, _ []string) error { return a.printSettings() }}
	a.addJSONFlag(c)
	c.AddCommand(a.trustCommand(),
		&cobra.Command{Use: "get KEY", Short: "Print a setting's value", Args: exactly(1), RunE: func(_ *cobra.Command, args []string) error {
			return a.printSetting(args[0])
		}},
		&cobra.Command{Use: "set KEY VALUE", Short: "Write a setting into your config file; an empty value removes it", Args: exactly(2),
			RunE: func(_ *cobra.Command, args []string) error { return a.changeSetting(args[0], args[1]) }},
		&cobra.Command{Use: "explain KEY", Short: "Say which layer a setting's value comes from", Args: exactly(1),
			RunE: func(_ *cobra.Command, args []string) error { return a.explainSetting(args[0]) }},
		&cobra.Command{Use: "schema", Short: "Print the JSON schema of job files, for editors", Args: exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := a.out.Write(jobfile.Schema())
				return err
			}},
		&cobra.Command{Use: "module", Short: "Print drover.py, for scripts that import drover to run without it", Args: exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := a.out.Write(module.Python)
				return err
			}},
	)
	return c
}

func (a configVerb) printSettings() error {
	c, err := a.readConfig()
	if err != nil {
		return err
	}
	if a.settings.json {
		all := map[string]settingJSON{}
		for _, s := range known {
			f := c.get(s.key)
			all[s.key] = c.asJSON(s.key, f)
		}
		for _, key := range append(c.shares(), c.targetKeys()...) {
			f := c.get(key)
			all[key] = c.asJSON(key, f)
		}
		return newJSON(a.out).Encode(all)
	}
	t := newTable(a.out, "KEY", "VALUE", "FROM", "MEANING")
	for _, s := range known {
		f := c.get(s.key)
		t.row(s.key, dash(plainText(shownSetting(s.key, f.value))), c.fromWords(s.key, f), s.text)
	}
	for _, key := range c.shares() {
		f := c.get(key)
		t.row(key, plainText(f.value), c.fromWords(key, f), shareText)
	}
	for _, key := range c.targetKeys() {
		f := c.get(key)
		t.row(key, plainText(f.value), c.fromWords(key, f), targetText)
	}
	return t.flush()
}

// settingJSON is a setting as --json prints it.
type settingJSON struct {
	Value       string `json:"value"`
	From        string `json:"from"`
	Unconfirmed bool   `json:"unconfirmed,omitempty"` // not used until drover config trust
}

func (c *config) asJSON(key string, f found) settingJSON {
	return settingJSON{shownSetting(key, f.value), f.from, c.refuses(key, f)}
}

// fromWords is where a value comes from, and whether it is used.
func (c *config) fromWords(key string, f found) string {
	if c.refuses(key, f) {
		return plainText(f.from) + " (not confirmed)"
	}
	return plainText(f.from)
}

func (a configVerb) printSetting(key string) error {
	c, err := a.readConfig()
	if err == nil {
		err = knownKey(key)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(a.escapedOutput(), c.get(key).value)
	return nil
}

func (a configVerb) explainSetting(key string) error {
	c, err := a.readConfig()
	if err == nil {
		err = knownKey(key)
	}
	if err != nil {
		return err
	}
	f := c.get(key)
	i := slices.IndexFunc(known, func(s setting) bool { return s.key == key })
	if i < 0 {
		text := shareText
		if targetKey.MatchString(key) {
			text = targetText
		}
		fmt.Fprintf(a.escapedOutput(), "%s: %s\n  value  %s\n  from   %s\n  order  %s, %s\n", key, text, dash(plainText(f.value)), c.fromWords(key, f), orElse(c.projectPath(), projectFileName), c.userFile)
		return nil
	}
	fmt.Fprintf(a.escapedOutput(), "%s: %s\n  value  %s\n  from   %s\n  order  --%s, %s, %s, %s, default\n", key, known[i].text,
		dash(plainText(shownSetting(key, f.value))), c.fromWords(key, f), strings.ReplaceAll(key, "_", "-"), known[i].env, orElse(c.projectPath(), projectFileName), c.userFile)
	return nil
}

func (a configVerb) changeSetting(key, value string) error {
	c, err := a.readConfig()
	if err == nil {
		err = knownKey(key)
	}
	if err != nil {
		return err
	}
	if shown := store.Shown(value); strings.HasPrefix(key, "store") && shown != value {
		return fault.New(fault.Invalid, "Remove what is before the @: keys come from the environment or a profile.", "set %s to %q: a URL holds no keys", key, shown)
	}
	if m := targetKey.FindStringSubmatch(key); m != nil && value != "" {
		if err := setTarget(new(job.Target), m[2], value); err != nil {
			return err
		}
	}
	lines, err := openConfig(c.userFile)
	if err != nil {
		return err
	}
	_, had := c.user[key]
	if found := lines.set(key, value); had && !found {
		return byHand(c.userFile)
	}
	if value == "" {
		delete(c.user, key)
	} else {
		c.user[key] = value
	}
	if strings.HasSuffix(key, ".args") && value != "" {
		c.user[key] = strings.Join(strings.Fields(value), "\n")
	}
	if err := lines.save(c.userFile, c.user); err != nil {
		return err
	}
	a.note("%s is now %s in %s", key, dash(value), c.userFile)
	return nil
}

// shownSetting returns a setting's value without the password that a mistyped URL of a
// store may hold: the variable or file that sets it may be older than the check of
// config set.
func shownSetting(key, value string) string {
	if strings.HasPrefix(key, "store") {
		return store.Shown(value)
	}
	return value
}

func dash(s string) string { return orElse(s, "-") }

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}
