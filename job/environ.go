package job

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/secret"
)

func checkEnv(s Spec) error {
	if len(s.Env) > maxEnv {
		return fault.New(fault.Invalid, "Put them into a file that the program reads.", "check job: %d environment variables, at most %d", len(s.Env), maxEnv)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) { // sorted: the same spec gets the same refusal
		if !secret.ValidVariable(k) {
			return fault.New(fault.Invalid, "Use NAME=value with letters, digits and _.", "check job: %q is not a valid name of an environment variable", k)
		}
		if strings.ContainsRune(s.Env[k], 0) {
			return fault.New(fault.Invalid, "", "check job: environment variable %s holds a NUL byte", k)
		}
	}
	return nil
}

// checkSecrets sees that Secrets holds references and nothing else.
func checkSecrets(s Spec) error {
	if len(s.Secrets) > maxEnv {
		return fault.New(fault.Invalid, "Put them into a file, and name that with `--secret NAME=file:PATH`.", "check job: %d secrets, at most %d", len(s.Secrets), maxEnv)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		ref := s.Secrets[name]
		if err := secret.CheckName("check job: secrets", name); err != nil {
			return err
		}
		if err := secret.CheckReference("check job: secret", name, ref); err != nil {
			return err
		}
		if file, ok := secret.FilePath(ref); ok && !path.IsAbs(file) {
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
		why := secret.Evidence(name, s.Env[name])
		if why == "" {
			continue
		}
		return fault.New(fault.Invalid, "Use `--secret "+name+"`, which keeps it out of drover, or `--plain-env`.", "check job: environment variable %s looks like a secret by its %s", name, why)
	}
	return nil
}
