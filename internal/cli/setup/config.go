package setup

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
	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/config"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/internal/jobfile"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Config is drover config.
type Config struct{ *app.App }

// NewConfig returns a Config of an invocation.
func NewConfig(a *app.App) Config { return Config{a} }

// Command returns the verb's command, with its flags.
func (a Config) Command() *cobra.Command {
	c := &cobra.Command{Use: "config", Short: "Show, set and explain settings; print the job file's schema",
		Args: app.Exactly(0), RunE: func(cmd *cobra.Command, _ []string) error { return a.printSettings() }}
	a.AddJSONFlag(c)
	c.AddCommand(a.trustCommand(),
		&cobra.Command{Use: "get KEY", Short: "Print a setting's value", Args: app.Exactly(1), RunE: func(_ *cobra.Command, args []string) error {
			return a.printSetting(args[0])
		}},
		&cobra.Command{Use: "set KEY VALUE", Short: "Write a setting into your config file; an empty value removes it", Args: app.Exactly(2),
			RunE: func(_ *cobra.Command, args []string) error { return a.changeSetting(args[0], args[1]) }},
		&cobra.Command{Use: "explain KEY", Short: "Say which layer a setting's value comes from", Args: app.Exactly(1),
			RunE: func(_ *cobra.Command, args []string) error { return a.explainSetting(args[0]) }},
		&cobra.Command{Use: "schema", Short: "Print the JSON schema of job files, for editors", Args: app.Exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := a.Out.Write(jobfile.Schema())
				return err
			}},
		&cobra.Command{Use: "module", Short: "Print drover.py, for scripts that import drover to run without it", Args: app.Exactly(0),
			RunE: func(*cobra.Command, []string) error {
				_, err := a.Out.Write(module.Python)
				return err
			}},
	)
	return c
}

func (a Config) printSettings() error {
	c, err := a.ReadConfig()
	if err != nil {
		return err
	}
	if a.Settings.JSON {
		all := map[string]config.SettingJSON{}
		for _, s := range config.Known {
			f := c.Get(s.Key)
			all[s.Key] = c.AsJSON(s.Key, f)
		}
		for _, key := range append(c.Shares(), c.TargetKeys()...) {
			f := c.Get(key)
			all[key] = c.AsJSON(key, f)
		}
		return terminal.NewJSON(a.Out).Encode(all)
	}
	t := terminal.NewTable(a.Out, "KEY", "VALUE", "FROM", "MEANING")
	for _, s := range config.Known {
		f := c.Get(s.Key)
		t.Row(s.Key, terminal.Dash(terminal.PlainText(config.ShownSetting(s.Key, f.Value))), c.FromWords(s.Key, f), s.Text)
	}
	for _, key := range c.Shares() {
		f := c.Get(key)
		t.Row(key, terminal.PlainText(f.Value), c.FromWords(key, f), config.ShareText)
	}
	for _, key := range c.TargetKeys() {
		f := c.Get(key)
		t.Row(key, terminal.PlainText(f.Value), c.FromWords(key, f), config.TargetText)
	}
	return t.Flush()
}

func (a Config) printSetting(key string) error {
	c, err := a.ReadConfig()
	if err == nil {
		err = config.KnownKey(key)
	}
	if err != nil {
		return err
	}
	fmt.Fprintln(a.EscapedOutput(), c.Get(key).Value)
	return nil
}

func (a Config) explainSetting(key string) error {
	c, err := a.ReadConfig()
	if err == nil {
		err = config.KnownKey(key)
	}
	if err != nil {
		return err
	}
	f := c.Get(key)
	i := slices.IndexFunc(config.Known, func(s config.Setting) bool { return s.Key == key })
	if i < 0 {
		text := config.ShareText
		if config.TargetKey.MatchString(key) {
			text = config.TargetText
		}
		fmt.Fprintf(a.EscapedOutput(), "%s: %s\n  value  %s\n  from   %s\n  order  %s, %s\n", key, text, terminal.Dash(terminal.PlainText(f.Value)), c.FromWords(key, f), terminal.OrElse(c.ProjectPath(), config.ProjectFileName), c.UserFile)
		return nil
	}
	fmt.Fprintf(a.EscapedOutput(), "%s: %s\n  value  %s\n  from   %s\n  order  --%s, %s, %s, %s, default\n", key, config.Known[i].Text,
		terminal.Dash(terminal.PlainText(config.ShownSetting(key, f.Value))), c.FromWords(key, f), strings.ReplaceAll(key, "_", "-"), config.Known[i].Env, terminal.OrElse(c.ProjectPath(), config.ProjectFileName), c.UserFile)
	return nil
}

func (a Config) changeSetting(key, value string) error {
	c, err := a.ReadConfig()
	if err == nil {
		err = config.KnownKey(key)
	}
	if err != nil {
		return err
	}
	if shown := store.Shown(value); strings.HasPrefix(key, "store") && shown != value {
		return fault.New(fault.Invalid, "Remove what is before the @: keys come from the environment or a profile.", "set %s to %q: a URL holds no keys", key, shown)
	}
	if m := config.TargetKey.FindStringSubmatch(key); m != nil && value != "" {
		if err := config.SetTarget(new(job.Target), m[2], value); err != nil {
			return err
		}
	}
	lines, err := config.OpenConfig(c.UserFile)
	if err != nil {
		return err
	}
	_, had := c.User[key]
	if found := lines.Set(key, value); had && !found {
		return config.ByHand(c.UserFile)
	}
	if value == "" {
		delete(c.User, key)
	} else {
		c.User[key] = value
	}
	if strings.HasSuffix(key, ".args") && value != "" {
		c.User[key] = strings.Join(strings.Fields(value), "\n")
	}
	if err := lines.Save(c.UserFile, c.User); err != nil {
		return err
	}
	a.Note("%s is now %s in %s", key, terminal.Dash(value), c.UserFile)
	return nil
}

func (a Config) trustCommand() *cobra.Command {
	forget := false
	c := &cobra.Command{Use: "trust [FILE]", Short: "Show what a drover.yaml sets, and confirm it: until it changes, all of it is used", Args: app.Between(0, 1)}
	c.Flags().BoolVar(&forget, "forget", false, "take the confirmation back")
	a.AddJSONFlag(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		path, err := trustedPath(args)
		if err != nil {
			return err
		}
		if !forget {
			return a.confirmFile(path)
		}
		if err := a.Dirs.Confirmations().Forget(path); err != nil {
			return err
		}
		a.Note("%s is not confirmed", terminal.PlainText(path))
		return nil
	}
	return c
}

// trustedPath is the file that was typed, or the nearest project file, which need not be
// one that may be read.
func trustedPath(args []string) (string, error) {
	name := config.ProjectFileName
	if len(args) > 0 {
		name = args[0]
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return "", fault.Wrap(err, fault.Invalid, "Change to a folder that is there.", "find the working folder")
	}
	if len(args) > 0 {
		if filepath.Base(path) != config.ProjectFileName {
			return "", fault.New(fault.Invalid, "Name a "+config.ProjectFileName+".", "confirm %s: drover reads no settings from a file of that name", path)
		}
		return path, nil
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		at := filepath.Join(dir, config.ProjectFileName)
		if info, err := os.Lstat(at); err == nil && !info.IsDir() {
			return at, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fault.New(fault.Missing, "`drover init` writes one.", "confirm %s: there is none in this folder or above it", config.ProjectFileName)
		}
	}
}

// confirmFile shows what is confirmed and records it. What is shown is what was read, and
// what is recorded is its digest: a file that changes meanwhile is not confirmed.
func (a Config) confirmFile(path string) error {
	body, _, err := config.ReadSettingsFile(path)
	if err != nil {
		return fault.New(fault.Invalid, "Check the path.", "confirm %s: %s", path, config.PlainCause(err))
	}
	values, err := config.ParseProject(path, body)
	if err != nil {
		return err
	}
	if err := a.Dirs.Confirmations().Confirm(path, body); err != nil {
		return err
	}
	keys := slices.Sorted(maps.Keys(values))
	if a.Settings.JSON {
		sets := map[string]string{}
		for _, key := range keys {
			sets[key] = config.ShownSetting(key, values[key])
		}
		return terminal.NewJSON(a.Out).Encode(map[string]any{"file": path, "sets": sets})
	}
	t := terminal.NewTable(a.Out, "KEY", "VALUE", "MATTERS")
	for _, key := range keys {
		t.Row(key, terminal.PlainText(config.ShownSetting(key, values[key])), config.WhatFor(filepath.Dir(path), key, values[key]))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	a.Note("%s is confirmed, until it changes", terminal.PlainText(path))
	return nil
}
