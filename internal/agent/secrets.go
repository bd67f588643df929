package agent

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/job"
)

// openSecrets reads the values that the job's secrets refer to. They go into the
// program's environment and nowhere else; all that is recorded passes the redactor.
// One that is not here is why the program cannot start. What the target has brought
// beyond them, as where packages come from, is there for whoever looks.
func (a *agent) openSecrets() {
	a.Machine.Environ = slices.Clone(a.Machine.Environ)
	for _, name := range slices.Sorted(maps.Keys(a.Machine.Secrets)) {
		if _, ok := a.job.Spec.Secrets[name]; !ok {
			a.Machine.Environ = append(a.Machine.Environ, name+"="+a.Machine.Secrets[name])
		}
	}
	if len(a.job.Spec.Secrets) == 0 {
		return
	}
	values, err := a.secretValues()
	if err != nil {
		a.ready.failed = err
		return
	}
	a.secrets, a.redact = values, record.NewRedactor(values)
}

// secretValues are what the target has brought, else what is here.
func (a *agent) secretValues() (map[string]string, error) {
	brought := a.Machine.Secrets
	if brought == nil {
		return job.Resolve(a.job.Spec.Secrets, a.Machine.Environ, os.ReadFile)
	}
	values := map[string]string{}
	for name := range a.job.Spec.Secrets {
		value, ok := brought[name]
		if !ok {
			return nil, fault.New(fault.Bug, "", "read secret %s: the target did not provide it", name)
		}
		values[name] = value
	}
	return values, nil
}

// noteSecrets says which values are too short to be found in the output.
func (a *agent) noteSecrets() {
	for _, name := range a.redact.Short() {
		a.note("secret %s is too short to be redacted from the output", name)
	}
}

// withSecrets is the program's environment with its secrets, and without the
// variables that these were read from.
func (a *agent) withSecrets(environ []string) []string {
	for name, ref := range a.job.Spec.Secrets {
		if from, ok := strings.CutPrefix(ref, "env:"); ok && from != name {
			environ = without(environ, from)
		}
	}
	for name, value := range a.secrets {
		environ = append(environ, name+"="+value)
	}
	return environ
}

func without(environ []string, name string) []string {
	var kept []string
	for _, kv := range environ {
		if !strings.HasPrefix(kv, name+"=") {
			kept = append(kept, kv)
		}
	}
	return kept
}

// redacted is an exit without secrets: reasons and traces are the program's words.
func (a *agent) redacted(e ledger.Exit) ledger.Exit {
	if a.redact == nil {
		return e
	}
	e.Reason, e.Hint, e.Message, e.Trace = a.redact.String(e.Reason), a.redact.String(e.Hint), a.redact.String(e.Message), a.redact.String(e.Trace)
	for i, n := range e.Notes {
		e.Notes[i] = a.redact.String(n)
	}
	return e
}
