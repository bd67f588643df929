package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/job"
)

func TestWhatIsNotChangedInAConfigStaysAsItIs(t *testing.T) {
	const own = "# my own\nproject: vision   # eyes\n\n# places\ntargets:\n    local:\n        queues:\n            night:\n                cpus: 2 # few\n\n    # the big one\n    big:\n        on: slurm/gpu\n        args:\n        - --x\n        - --y\nstore: /data\n"
	for name, c := range map[string]struct {
		change func(*File)
		old    string
		now    string
	}{
		"a value":           {func(c *File) { c.Set("project", "nose") }, "project: vision   # eyes\n", "project: nose   # eyes\n"},
		"a value in depth":  {func(c *File) { c.Set("targets.local.queues.night.cpus", "3") }, "cpus: 2 # few", `cpus: "3" # few`},
		"a new value":       {func(c *File) { c.Set("python", "python3.12") }, "store: /data\n", "store: /data\npython: python3.12\n"},
		"a value that goes": {func(c *File) { c.Set("store", "") }, "store: /data\n", ""},
		"another table": {func(c *File) { c.SetTable("targets", "small", TargetLines(job.Target{On: "local", Workers: 2})) },
			"        - --y\n", "        - --y\n    small:\n        on: local\n        workers: 2\n"},
		"a table anew":      {func(c *File) { c.SetTable("targets", "big", TargetLines(job.Target{On: "local"})) }, "        on: slurm/gpu\n        args:\n        - --x\n        - --y\n", "        on: local\n"},
		"a table that goes": {func(c *File) { c.SetTable("targets", "big", nil) }, "    big:\n        on: slurm/gpu\n        args:\n        - --x\n        - --y\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(own), 0o600); err != nil {
				t.Fatal(err)
			}
			lines, err := OpenConfig(file)
			if err != nil {
				t.Fatal(err)
			}
			c.change(lines)
			want := strings.Replace(own, c.old, c.now, 1)
			values, tree := map[string]string{}, map[string]any{}
			if err := yaml.Unmarshal([]byte(want), &tree); err != nil {
				t.Fatal(err)
			}
			if err := flatten(values, "", tree); err != nil {
				t.Fatal(err)
			}
			if err := lines.Save(file, values); err != nil {
				t.Errorf("%v\n%s", err, strings.Join(lines.lines, "\n"))
			}
			got, _ := os.ReadFile(file)
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("difference (-want +got):\n%s", diff)
			}
			values["project"] = "other"
			if err := lines.Save(file, values); err == nil {
				t.Error("what does not say what was meant is written")
			}
		})
	}
}

func FuzzALineOfAConfigIsChangedAloneOrNotAtAll(f *testing.F) {
	f.Add("project: a\ntargets:\n  x:\n    on: local\n", "b")
	f.Add("targets: {x: {on: local}}\nproject: 'a # b' # c", "it's # x")
	f.Add("project: |\n  a\n  b\nstore: c", "d: e")
	f.Fuzz(func(t *testing.T, text, value string) {
		before, tree := map[string]string{}, map[string]any{}
		if len(text) > 1<<12 || value == "" || yaml.Unmarshal([]byte(text), &tree) != nil || flatten(before, "", tree) != nil {
			return
		}
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		lines, err := OpenConfig(file)
		if err != nil {
			t.Fatal(err)
		}
		lines.Set("project", value)
		before["project"] = value
		saved := lines.Save(file, before) == nil
		b, _ := os.ReadFile(file)
		if !saved && string(b) != text {
			t.Fatalf("refused, and written all the same: %q", b)
		}
	})
}
