package agent

import (
	"maps"
	"slices"

	"github.com/drover-run/drover/internal/record/redact"
)

// openSecrets reads the values that the job's secrets refer to. They go into the
// program's environment and nowhere else; all that is recorded passes the redactor.
// One that is not here is why the program cannot start. What the target has brought
// beyond them, as where packages come from, is there for any reader.
func (a *agent) openSecrets() {
	a.Machine.Environ = slices.Clone(a.Machine.Environ)
	for _, name := range slices.Sorted(maps.Keys(a.Machine.Secrets)) {
		if _, ok := a.Job.Spec.Secrets[name]; !ok {
			a.Machine.Environ = append(a.Machine.Environ, name+"="+a.Machine.Secrets[name])
		}
	}
	if len(a.Job.Spec.Secrets) == 0 {
		return
	}
	values, err := a.SecretValues()
	if err != nil {
		a.ready.failed = err
		return
	}
	a.Secrets, a.Redact = values, redact.NewRedactor(values)
}
