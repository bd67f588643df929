package config

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/terminal"
)

// Confirmations is the folder of what the user has confirmed, in drover's own state: for
// each project file one file of 0600, named by the project file's path, with the digest
// of its content. "" is a machine without a place for that, where nothing is confirmed.
type Confirmations string

// confirmation is the content of such a file.
type confirmation struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// recordPath is the record's file, and the project file's path without links in its
// folders: the same file has the same record however one came there.
func (c Confirmations) recordPath(path string) (record, real string) {
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		path = filepath.Join(dir, filepath.Base(path))
	}
	return filepath.Join(string(c), digestOf([]byte(path))), path
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// confirmedDigest returns the digest of the content that was confirmed for path; "" is none. A
// record that others could have written counts for nothing.
func (c Confirmations) confirmedDigest(path string) string {
	if c == "" {
		return ""
	}
	name, real := c.recordPath(path)
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 {
		return ""
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return ""
	}
	var got confirmation
	if json.NewDecoder(f).Decode(&got) != nil || got.Path != real {
		return ""
	}
	return got.SHA256
}

// Confirm records the content of a project file, in place of what was confirmed before.
func (c Confirmations) Confirm(path string, body []byte) error {
	if c == "" {
		return fault.New(fault.Invalid, "Set HOME.", "confirm %s: this user has no folder to record it in", path)
	}
	name, real := c.recordPath(path)
	text, err := json.Marshal(confirmation{real, digestOf(body)})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(string(c), 0o700); err != nil {
		return fault.Wrap(err, fault.Denied, "", "confirm %s", path)
	}
	f, err := os.CreateTemp(string(c), "new-*") // 0600
	if err != nil {
		return fault.Wrap(err, fault.Denied, "", "confirm %s", path)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fault.Wrap(errors.Join(err, os.Remove(f.Name())), fault.Denied, "", "confirm %s", path)
	}
	return nil
}

// Forget removes the record of a project file, if there is one.
func (c Confirmations) Forget(path string) error {
	if c == "" {
		return nil
	}
	name, _ := c.recordPath(path)
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fault.Wrap(err, fault.Denied, "", "forget %s", path)
	}
	return nil
}

// Use returns a key's value, to be acted on. A value that needs a confirmation and has
// none is refused, with the command that confirms it.
func (c *Config) Use(key string) (string, error) {
	f := c.Get(key)
	if c.Refuses(key, f) {
		why := "the file was not confirmed"
		if c.project.changed {
			why = "the file has changed since it was confirmed"
		}
		return "", fault.New(fault.Invalid, "Read the file; if you mean what it says: `drover config trust "+terminal.Quoted(f.From)+"`.",
			"use %s of %s: it %s, and %s", key, terminal.PlainText(f.From), WhatFor(filepath.Dir(f.From), key, f.Value), why)
	}
	if f.Value != "" && (f.From == c.UserFile || f.From == c.ProjectPath()) {
		c.Used[key] = f.From
	}
	return f.Value, nil
}

// Refuses says whether a value needs a confirmation that its file does not have.
func (c *Config) Refuses(key string, f Found) bool {
	return c.project != nil && f.Value != "" && f.From == c.project.path && !c.project.confirmed && needsConfirmation(filepath.Dir(f.From), key, f.Value)
}

// Fill gives a field that is empty the value of a key.
func (c *Config) Fill(field *string, key string) error {
	if *field != "" {
		return nil
	}
	v, err := c.Use(key)
	if err == nil {
		*field = v
	}
	return err
}

// UsedLine is "project, store from /home/me/proj/drover.yaml; on from ..." of the keys
// that were used and that a file sets; "" is none.
func (c *Config) UsedLine() string {
	line := ""
	for _, file := range []string{c.ProjectPath(), c.UserFile} {
		words := ""
		for _, key := range slices.Sorted(maps.Keys(c.Used)) {
			if c.Used[key] == file {
				words += ", " + key
			}
		}
		if words != "" {
			line += fmt.Sprintf("; %s from %s", words[2:], file)
		}
	}
	if line == "" {
		return ""
	}
	return terminal.PlainText(line[2:])
}

// WhatFor says why a key is not used from a file that was not confirmed; "-" is a key
// that is used from any.
func WhatFor(folder, key, value string) string {
	if !needsConfirmation(folder, key, value) {
		return "-"
	}
	switch m := TargetKey.FindStringSubmatch(key); {
	case key == "python":
		return "is a program that runs"
	case key == "image_mirror":
		return "is where images that run come from"
	case key == "image_registry":
		return "receives images with your code"
	case key == "agent_profile", key == "agent_role":
		return "is whom agents act as"
	case key == "output":
		return "receives results"
	case m != nil && m[2] == "args":
		return "holds options of the target's engine"
	}
	return "receives code, results and your credentials"
}
