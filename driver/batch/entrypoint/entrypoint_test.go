package entrypoint

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// What is handed to an ENTRYPOINT of programs that are on this machine runs the script.
func TestAnEntrypointRunsTheScript(t *testing.T) {
	t.Parallel()
	for _, entrypoint := range [][]string{nil, {"/usr/bin/env"}, {"env", "A=b"}, {"/bin/sh"}, {"bash"}, {"/bin/sh", "-c"}, {"/bin/bash", "-l", "-c"}, {"bash", "-euc"}, {"python3"}, {"/usr/bin/python3"}} {
		command, err := HandOver(entrypoint, `echo "it runs: $0" 'and "quotes"'`, false)
		if err != nil {
			t.Error(err)
			continue
		}
		words := append(slices.Clone(entrypoint), command...)
		if _, err := exec.LookPath(words[0]); err != nil {
			t.Logf("%s is not here", words[0])
			continue
		}
		out, err := exec.Command(words[0], words[1:]...).CombinedOutput()
		if err != nil || !strings.HasPrefix(string(out), "it runs: ") || !strings.HasSuffix(string(out), ` and "quotes"`+"\n") {
			t.Errorf("%q: %v\n%s", words, err, out)
		}
	}
}

func TestAnEntrypointThatTakesTheCommandIsRefused(t *testing.T) {
	t.Parallel()
	for text, passes := range map[string]bool{
		"/usr/bin/tini --": true, "tini -g --": true, "/opt/nvidia/nvidia_entrypoint.sh": true, "/usr/local/bin/_entrypoint.sh": true, "docker-entrypoint.sh": true,
		"conda run -n train": true, "conda run --no-capture-output -n train": true, "micromamba run -p /env": true,
		"tini -- python": false, "aws": false, "python train.py": false, "/entry.sh": false, "bash -l": false, "bash -c ls": false, "sh --rcfile c": false, "env -S x": false, "conda run -n train python": false, "conda": false,
	} {
		_, err := HandOver(strings.Fields(text), "true", false)
		if (err == nil) != passes {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := HandOver(strings.Fields(text), "true", true); err != nil {
			t.Errorf("%s, of which the user knows: %v", text, err)
		}
	}
}
