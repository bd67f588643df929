package cli

import (
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
)

func TestAMistypedTrialIsOneErrorWithTheNextStep(t *testing.T) {
	d := newDesk(t)
	for _, row := range []struct{ typed, text, hint string }{
		{"map --from 1-9 --pilot 0 -- true", "read --pilot: 0", "Use 1 or more, such as --pilot 20."},
		{"map --from 1-9 --pilot -1 -- true", "read --pilot: -1", "Use 1 or more, such as --pilot 20."},
		{"map --from 1-9 --pilot some -- true", `read --pilot: "some" is not a whole number`, "drover help map lists the flags."},
		{"map --from 1-9 --seed 1 -- true", "read --seed: it is for --drill", "Add --drill, or leave it out."},
		{"map --from 1-9 --drill --detach -- true", "it cannot run detached", "Omit --detach."},
		{"run --pilot 3 work.sh", `drover run has no flag "--pilot"`, ""},
	} {
		out, _, err := d.typed(strings.Fields(row.typed)...)
		if fault.Exit(err) != fault.ExitUsage || out != "" || !strings.Contains(err.Error(), row.text) || !strings.HasPrefix(fault.Hint(err), row.hint) {
			t.Errorf("drover %s: %v\n  %s\n%s", row.typed, err, fault.Hint(err), out)
		}
	}
}
