package cli

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

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

func (a configVerb) trustCommand() *cobra.Command {
	forget := false
	c := &cobra.Command{Use: "trust [FILE]", Short: "Show what a drover.yaml sets, and confirm it: until it changes, all of it is used", Args: between(0, 1)}
	c.Flags().BoolVar(&forget, "forget", false, "take the confirmation back")
	a.addJSONFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		path, err := trustedPath(args)
		if err != nil {
			return err
		}
		if !forget {
			return a.confirmFile(path)
		}
		if err := a.Dirs.confirmations().forget(path); err != nil {
			return err
		}
		a.note("%s is not confirmed", plainText(path))
		return nil
	}
	return c
}

// trustedPath is the file that was typed, or the nearest project file, which need not be
// one that may be read.
func trustedPath(args []string) (string, error) {
	name := projectFileName
	if len(args) > 0 {
		name = args[0]
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, "Change to a folder that is there.", "find the working folder")
	}
	if len(args) > 0 {
		if filepath.Base(path) != projectFileName {
			return "", fault.New(fault.Invalid, "Name a "+projectFileName+".", "confirm %s: drover reads no settings from a file of that name", path)
		}
		return path, nil
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, projectFileName)
		if info, err := os.Lstat(at); err == nil && !info.IsDir() {
			return at, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fault.New(fault.Missing, "drover init writes one.", "confirm %s: there is none in this folder or above it", projectFileName)
		}
	}
}

// confirmFile shows what is confirmed and records it. What is shown is what was read, and
// what is recorded is its digest: a file that changes meanwhile is not confirmed.
func (a configVerb) confirmFile(path string) error {
	body, _, err := readSettingsFile(path)
	if err != nil {
		return fault.New(fault.Invalid, "Check the path.", "confirm %s: %s", path, plainCause(err))
	}
	values, err := parseProject(path, body)
	if err != nil {
		return err
	}
	if err := a.Dirs.confirmations().confirm(path, body); err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(values))
	if a.settings.json {
		sets := map[string]string{}
		for _, key := range keys {
			sets[key] = shownSetting(key, values[key])
		}
		return newJSON(a.out).Encode(map[string]any{"file": path, "sets": sets})
	}
	t := newTable(a.out, "KEY", "VALUE", "MATTERS")
	for _, key := range keys {
		t.row(key, plainText(shownSetting(key, values[key])), whatFor(filepath.Dir(path), key, values[key]))
	}
	if err := t.flush(); err != nil {
		return err
	}
	a.note("%s is confirmed, until it changes", plainText(path))
	return nil
}
