//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sys/unix"
)

// damage is something that another writer of the store, hostile or broken, may leave
// in it beside a round's job. plant puts it into the store at dir; model is a copy of
// a job that was made there, as a folder with its task's log. The round's own job
// stays as it is: drover promises that the damage of one job is that job's alone.
type damage struct {
	name  string
	plant func(dir, model string) error
}

// rival is the project of the planted jobs.
const rival = "rival"

var damages = []damage{
	{"a FIFO as a short id", func(dir, _ string) error { return unix.Mkfifo(filepath.Join(dir, "ids", "fifo"), 0o600) }},
	{"an endless short id", func(dir, _ string) error { return os.Symlink("/dev/zero", filepath.Join(dir, "ids", "zero")) }},
	{"a short id that leads outside", func(dir, _ string) error {
		return os.WriteFile(filepath.Join(dir, "ids", "evil"), []byte(`{"project":"../../..","task":"etc","job":"passwd"}`), 0o600)
	}},
	{"a project that is a link", func(dir, _ string) error { return os.Symlink("/etc", filepath.Join(dir, "linked")) }},
	{"a task whose name clears the screen", func(dir, _ string) error {
		return plantTask(filepath.Join(dir, rival, "new\nline\x1b[2J"), "{}")
	}},
	{"an entry of 400 MB", func(dir, model string) error { return plantSized(dir, model, "sized", 400<<20) }},
	{"entries that nest 200,000 deep", func(dir, model string) error {
		return plantJob(dir, model, "deep", func(string) string {
			return `{"v":2,"x":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}"
		})
	}},
	{"a job of 2^31 nodes", func(dir, model string) error {
		return plantJob(dir, model, "nodes", replace(`"nodes":\d+`, `"nodes":2147483648`))
	}},
	{"a map of 9e18 items", func(dir, model string) error {
		return plantJob(dir, model, "many", replace(`"(count|to)":\d+`, `"$1":9223372036854775807`))
	}},
	{"a map of -5 items", func(dir, model string) error {
		return plantJob(dir, model, "negative", replace(`"(count|chunk_size)":\d+`, `"$1":-5`))
	}},
	{"a job without job.json", func(dir, model string) error {
		return plantTask(filepath.Join(dir, rival, "empty"), `{"v":2,"nonce":"x","by":"y","submitted":{"job":"`+filepath.Base(model)+`"}}`)
	}},
	{"a job that is another's", func(dir, _ string) error {
		return plantTask(filepath.Join(dir, rival, "elsewhere"), `{"v":2,"nonce":"x","by":"y","submitted":{"job":"../../chaos/x"}}`)
	}},
}

// replace gives what changes a job.json by a pattern.
func replace(pattern, by string) func(string) string {
	return func(text string) string { return regexp.MustCompile(pattern).ReplaceAllString(text, by) }
}

// plantJob copies the model as the only job of a task of the rival's project, ages it,
// so that it is no user's last job, and has its job.json changed.
func plantJob(dir, model, task string, change func(string) string) error {
	to := filepath.Join(dir, rival, task, filepath.Base(model))
	if err := copySmall(to, model); err != nil {
		return err
	}
	if err := copySmall(filepath.Join(dir, rival, task, "log"), filepath.Join(filepath.Dir(model), "log")); err != nil {
		return err
	}
	file := filepath.Join(to, "job.json")
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.WriteFile(file, []byte(change(replace(`"at":"\d{4}`, `"at":"2020`)(string(text)))), 0o600)
}

// plantSized is a job with an entry of size bytes, which the disk need not hold.
func plantSized(dir, model, task string, size int64) error {
	if err := plantJob(dir, model, task, func(text string) string { return text }); err != nil {
		return err
	}
	entry := filepath.Join(dir, rival, task, filepath.Base(model), "log", "00000001")
	if err := os.MkdirAll(filepath.Dir(entry), 0o700); err != nil {
		return err
	}
	if err := os.Remove(entry); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.Create(entry)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(size), f.Close())
}

func plantTask(dir, entry string) error {
	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o700); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "log", "00000000"), []byte(entry), 0o600)
}

// copySmall copies a folder's regular files as they are now. A file that vanishes
// meanwhile, or that is large, is left out: the copy is damage in any case.
func copySmall(to, from string) error {
	return filepath.WalkDir(from, func(name string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(name, from))
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > 64<<10 {
			return nil
		}
		text, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		return os.WriteFile(target, text, 0o600)
	})
}

// damageStore is a hit: another writer leaves one piece of damage in the round's store.
func damageStore(r *round, p planned) (bool, error) {
	if r.overS3 {
		return false, nil // the server's folder is the server's: a writer there is a disk that lies
	}
	models, err := filepath.Glob(filepath.Join(r.lane.storePath(), "chaos", r.taskName(), "*", "job.json"))
	if err != nil || len(models) == 0 {
		return false, err
	}
	d := damages[p.which%uint64(len(damages))]
	if r.damaged[d.name] {
		return false, nil
	}
	switch err := d.plant(r.lane.storePath(), filepath.Dir(models[0])); {
	case errors.Is(err, unix.ENOSPC), errors.Is(err, fs.ErrExist):
		return false, nil // the disk is full just now, or half of it was planted then
	case err != nil:
		return false, fmt.Errorf("damage the store: %s: %w", d.name, err)
	}
	if r.damaged == nil {
		r.damaged = map[string]bool{}
	}
	r.damaged[d.name] = true
	return true, nil
}

// judgeDamage looks at a store that another writer has damaged: each command that
// shows all jobs shows the round's, nothing of what was planted reaches the terminal
// raw, and gc goes on.
func (r *round) judgeDamage(ctx context.Context) {
	if len(r.damaged) == 0 {
		return
	}
	names := strings.Join(sorted(r.damaged), ", ")
	for _, args := range [][]string{{"status"}, {"status", "--json"}, {"data"}, {"gc", "--dry-run"}} {
		text, err := r.runStatusCommand(ctx, args...)
		if err != nil {
			r.noteWrong("beside %s: %v", names, err)
			continue
		}
		if raw := rawControl(text); raw != "" {
			r.noteWrong("beside %s: drover %s prints %q raw", names, strings.Join(args, " "), raw)
		}
		if args[0] == "status" && !bytes.Contains(text, []byte(r.taskName())) {
			r.noteWrong("beside %s: drover %s does not show %s: %s", names, strings.Join(args, " "), r.taskName(), text)
		}
	}
}

// runStatusCommand runs a command that looks at everything. It may say with its status that it
// could not read all of it; what it must not do is panic or be killed.
func (r *round) runStatusCommand(ctx context.Context, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	out, err := r.lane.droverCommand(ctx, false, args...).CombinedOutput()
	if ctx.Err() != nil {
		return out, fmt.Errorf("drover %s does not end within %s", strings.Join(args, " "), longest)
	}
	if bytes.Contains(out, []byte("goroutine ")) || bytes.Contains(out, []byte("panic: ")) {
		return out, fmt.Errorf("drover %s panics: %s", strings.Join(args, " "), out)
	}
	if args[len(args)-1] == "--json" && err == nil && !json.Valid(out) && !linesOfJSON(out) {
		return out, fmt.Errorf("drover %s prints no JSON: %s", strings.Join(args, " "), out)
	}
	return out, nil
}

func linesOfJSON(text []byte) bool {
	for line := range bytes.Lines(text) {
		if !json.Valid(line) && !bytes.HasPrefix(line, []byte("note: ")) && !bytes.HasPrefix(line, []byte("warning: ")) {
			return false
		}
	}
	return true
}

var control = regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f]|\u009b|[\u202a-\u202e]")

// rawControl finds a control character that a terminal would act on.
func rawControl(text []byte) string { return string(control.Find(text)) }

func sorted(set map[string]bool) (names []string) {
	for _, d := range damages {
		if set[d.name] {
			names = append(names, d.name)
		}
	}
	return names
}
