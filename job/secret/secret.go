// Package secret holds what is known of secrets without their values: references to them,
// as --secret takes them and a Spec keeps them, how these are resolved where the program
// runs, and what looks like a secret and should be a reference.
//
// It refuses to know where references are stored, and which users may read them. Tables of keys as
// their issuers give them, and of what only looks like one, prove it.
package secret

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

const (
	fromEnv  = "env:"
	fromFile = "file:"
	// maxSecret stays below what Linux takes as one variable, 128 KiB with its name.
	maxSecret = 64 << 10
)

// No text below quotes what was typed: a user that gets a reference wrong has often
// typed the secret itself, and errors end in terminals, logs and tickets.

// Parse reads what --secret takes: NAME, NAME=env:OTHER or NAME=file:PATH.
// ref is the reference as it stands in Spec.Secrets: env:NAME, env:OTHER or
// file:PATH. A path may be relative here; before the spec is made normal the
// caller makes it absolute, as the program does not run in its folder.
func Parse(text string) (name, ref string, err error) {
	name, ref, given := strings.Cut(text, "=")
	if !given {
		ref = fromEnv + name
	}
	if err := CheckName("read --secret", name); err != nil {
		return "", "", err
	}
	if err := CheckReference("read --secret", name, ref); err != nil {
		return "", "", err
	}
	return name, ref, nil
}

func CheckName(doing, name string) error {
	if !ValidVariable(name) || key(name) {
		return fault.New(fault.Invalid, "Write it as `--secret WANDB_API_KEY`, with the value in the variable of that name.", "%s: the name is not a valid name of an environment variable", doing)
	}
	return nil
}

// FilePath is the path of a reference to a file; ok is false for another one.
func FilePath(ref string) (file string, ok bool) { return strings.CutPrefix(ref, fromFile) }

// CheckReference refuses what is no reference. It takes relative paths.
func CheckReference(doing, name, ref string) error {
	hint := "Write `--secret " + name + "` to take it from your environment, or `--secret " + name + "=file:PATH`; drover keeps the reference, never the value."
	if other, ok := strings.CutPrefix(ref, fromEnv); ok {
		if !ValidVariable(other) || key(other) {
			return fault.New(fault.Invalid, hint, "%s: %s: after env: comes the name of an environment variable", doing, name)
		}
		return nil
	}
	file, ok := strings.CutPrefix(ref, fromFile)
	switch {
	case !ok:
		return fault.New(fault.Invalid, hint, "%s: %s: it is neither env:NAME nor file:PATH", doing, name)
	case file == "" || strings.ContainsRune(file, 0) || key(file):
		return fault.New(fault.Invalid, hint, "%s: %s: after file: comes a path", doing, name)
	case file[0] == '~':
		return fault.New(fault.Invalid, `Write "$HOME/..." for your home folder: the shell leaves ~ as it is behind file:.`, "%s: %s: the path begins with ~", doing, name)
	}
	return nil
}

// Evidence is what makes a variable look like a secret: its "value" or its "name", or "".
func Evidence(name, value string) string {
	switch {
	case secretValue(value):
		return "value"
	case secretName(name) && !harmless(value):
		return "name"
	}
	return ""
}

// FindArgument gives the first argument that looks like a secret, for a note:
// arguments are stored, and every user of the machine can list them.
func FindArgument(args []string) (i int, ok bool) {
	for i, a := range args {
		flag, value, joined := strings.Cut(a, "=")
		if !joined {
			value = a
		}
		if secretValue(value) {
			return i, true
		}
		if !strings.HasPrefix(flag, "-") {
			continue
		}
		named := secretName(strings.ReplaceAll(strings.TrimLeft(flag, "-"), "-", "_"))
		switch {
		case named && joined && !harmless(value):
			return i, true
		case named && !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") && !harmless(args[i+1]):
			return i + 1, true
		}
	}
	return 0, false
}

// Resolve reads the values that Spec.Secrets refers to, where the program will
// run: environ is that of its agent, read is os.ReadFile or what stands for it.
// One newline at the end of a file is not part of the secret. What is not there,
// cannot be read or is empty is a fault of kind Missing. No error holds a value.
func Resolve(secrets map[string]string, environ []string, read func(path string) ([]byte, error)) (values map[string]string, err error) {
	values = map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		ref := secrets[name]
		if err := CheckReference("read secret", name, ref); err != nil {
			return nil, err
		}
		var value string
		if file, ok := strings.CutPrefix(ref, fromFile); ok {
			value, err = secretFile(name, file, read)
		} else {
			value, err = secretVariable(name, strings.TrimPrefix(ref, fromEnv), environ)
		}
		if err != nil {
			return nil, err
		}
		switch {
		case strings.ContainsRune(value, 0):
			return nil, fault.New(fault.Invalid, "Give the program the file's path instead, in an environment variable.", "read secret %s: it holds a NUL byte, and an environment variable cannot", name)
		case len(value) > maxSecret:
			return nil, fault.New(fault.Invalid, "Give the program the file's path instead, in an environment variable.", "read secret %s: it has %d bytes, at most %d", name, len(value), maxSecret)
		}
		values[name] = value
	}
	return values, nil
}

func secretVariable(name, variable string, environ []string) (string, error) {
	value, set := "", false
	for _, kv := range environ { // the last one counts, as for a program that is started with it
		if k, v, ok := strings.Cut(kv, "="); ok && k == variable {
			value, set = v, true
		}
	}
	if value != "" {
		return value, nil
	}
	why := "is not set"
	if set {
		why = "is empty"
	}
	return "", fault.New(fault.Missing, "Set "+variable+" where you start the job, and type the same command again.", "read secret %s: environment variable %s %s where the job runs", name, variable, why)
}

func secretFile(name, file string, read func(path string) ([]byte, error)) (string, error) {
	b, err := read(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fault.New(fault.Missing, "Put it there, on the machine where the job runs, or name another file.", "read secret %s: %s is not there", name, file)
	case errors.Is(err, fs.ErrPermission):
		return "", fault.New(fault.Missing, "Let the user who runs the job read it: `chmod u+r "+file+"`.", "read secret %s: %s may not be read", name, file)
	case err != nil:
		return "", fault.Wrap(err, fault.Missing, "Name a file that holds the secret and nothing else.", "read secret %s", name)
	}
	value := string(b)
	if cut, ok := strings.CutSuffix(value, "\n"); ok {
		value = strings.TrimSuffix(cut, "\r")
	}
	if value == "" {
		return "", fault.New(fault.Missing, "Write the secret into it.", "read secret %s: %s is empty", name, file)
	}
	return value, nil
}
