package agent

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/record/redact"
	"github.com/drover-run/drover/job/secret"
)

// openSecrets reads the values that the job's secrets refer to. They go into the
// program's environment and nowhere else; all that is recorded passes the redactor.
// One that is not here is why the program cannot start. What the target has brought
// beyond them, as where packages come from, is there for any reader.
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
	a.secrets, a.redact = values, redact.NewRedactor(values)
}

// secretValues are what the target has brought, else what is here.
func (n *node) secretValues() (map[string]string, error) {
	brought := n.Machine.Secrets
	if brought == nil {
		return secret.Resolve(n.job.Spec.Secrets, n.Machine.Environ, os.ReadFile)
	}
	values := map[string]string{}
	for name := range n.job.Spec.Secrets {
		value, ok := brought[name]
		if !ok {
			return nil, fault.New(fault.Bug, "", "read secret %s: the target did not provide it", name)
		}
		values[name] = value
	}
	return values, nil
}

// noteSecrets says which values are too short to be found in the output.
func (n *node) noteSecrets() {
	for _, name := range n.redact.Short() {
		n.logNote("secret %s is too short to be redacted from the output", name)
	}
}

// withSecrets is the program's environment with its secrets, and without the
// variables that these were read from.
func (n *node) withSecrets(environ []string) []string {
	for name, ref := range n.job.Spec.Secrets {
		if from, ok := strings.CutPrefix(ref, "env:"); ok && from != name {
			environ = without(environ, from)
		}
	}
	for name, value := range n.secrets {
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

// redactExit is an exit without secrets: reasons and traces are the program's words.
func (n *node) redactExit(e protocol.Exit) protocol.Exit {
	if n.redact == nil {
		return e
	}
	e.Reason, e.Hint, e.Message, e.Trace = n.redact.String(e.Reason), n.redact.String(e.Hint), n.redact.String(e.Message), n.redact.String(e.Trace)
	for i, note := range e.Notes {
		e.Notes[i] = n.redact.String(note)
	}
	return e
}
