package job

import (
	"errors"
	"io/fs"
	"maps"
	"path"
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

// ParseSecret reads what --secret takes: NAME, NAME=env:OTHER or NAME=file:PATH.
// ref is the reference as it stands in Spec.Secrets: env:NAME, env:OTHER or
// file:PATH. A path may be relative here; before the spec is made normal the
// caller makes it absolute, as the program does not run in its folder.
func ParseSecret(text string) (name, ref string, err error) {
	name, ref, given := strings.Cut(text, "=")
	if !given {
		ref = fromEnv + name
	}
	if err := validSecretName("read --secret", name); err != nil {
		return "", "", err
	}
	if err := validRef("read --secret", name, ref); err != nil {
		return "", "", err
	}
	return name, ref, nil
}

func validSecretName(doing, name string) error {
	if !validEnvName(name) || key(name) {
		return fault.New(fault.Invalid, "Write it as --secret WANDB_API_KEY, with the value in the variable of that name.", "%s: the name is not a valid name of an environment variable", doing)
	}
	return nil
}

// validRef refuses what is no reference. It takes relative paths.
func validRef(doing, name, ref string) error {
	hint := "Write --secret " + name + " to take it from your environment, or --secret " + name + "=file:PATH; drover keeps the reference, never the value."
	if other, ok := strings.CutPrefix(ref, fromEnv); ok {
		if !validEnvName(other) || key(other) {
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

// checkSecrets sees that Secrets holds references and nothing else.
func checkSecrets(s Spec) error {
	if len(s.Secrets) > maxEnv {
		return fault.New(fault.Invalid, "Put them into a file, and name that with --secret NAME=file:PATH.", "check job: %d secrets, at most %d", len(s.Secrets), maxEnv)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		ref := s.Secrets[name]
		if err := validSecretName("check job: secrets", name); err != nil {
			return err
		}
		if err := validRef("check job: secret", name, ref); err != nil {
			return err
		}
		if file, ok := strings.CutPrefix(ref, fromFile); ok && !path.IsAbs(file) {
			return fault.New(fault.Invalid, "Write the whole path, from / on.", "check job: secret %s: its path is not absolute", name)
		}
		if _, both := s.Env[name]; both {
			return fault.New(fault.Invalid, "Leave one of them out.", "check job: %s is both a secret and an environment variable", name)
		}
	}
	return nil
}

// checkPlainEnv refuses variables that look like secrets: a spec is stored as it
// is, and shown to every user that may read the store.
func checkPlainEnv(s Spec) error {
	if s.PlainEnv {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		why := ""
		switch value := s.Env[name]; {
		case secretValue(value):
			why = "value"
		case secretName(name) && !harmless(value):
			why = "name"
		default:
			continue
		}
		return fault.New(fault.Invalid, "Use --secret "+name+", which keeps it out of drover, or --plain-env.", "check job: environment variable %s looks like a secret by its %s", name, why)
	}
	return nil
}

// LooksSecret says whether a variable looks like a secret by its name or its value.
func LooksSecret(name, value string) bool {
	return secretValue(value) || secretName(name) && !harmless(value)
}

// SuspiciousArg gives the first argument that looks like a secret, for a note:
// arguments are stored, and every user of the machine can list them.
func SuspiciousArg(args []string) (i int, ok bool) {
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
		if err := validRef("read secret", name, ref); err != nil {
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
		return "", fault.New(fault.Missing, "Let the user who runs the job read it: chmod u+r "+file+".", "read secret %s: %s may not be read", name, file)
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
