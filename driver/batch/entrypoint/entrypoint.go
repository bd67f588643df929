// Package entrypoint hands a command to the ENTRYPOINT of an image, which AWS Batch cannot replace: the
// command is written so that the ENTRYPOINT runs it. It asks nothing of a registry. Its tests run the programs that are
// on the machine.
package entrypoint

import (
	"path"
	"strings"

	"github.com/drover-run/drover/fault"
)

// passOn are programs that become the words after their options, by the names of their files: init processes, and
// scripts of widely used images that end in exec "$@".
var passOn = map[string]bool{
	"tini": true, "tini-static": true, "dumb-init": true, "docker-init": true, "catatonit": true,
	"docker-entrypoint.sh": true, "nvidia_entrypoint.sh": true, "_entrypoint.sh": true,
}

// HandOver gives the command by which a container with an ENTRYPOINT runs a script of sh: AWS Batch cannot replace
// it, and appends the command to it. passes says that the user knows it to run the words it is given.
func HandOver(entrypoint []string, script string, passes bool) ([]string, error) {
	plain := []string{"/bin/sh", "-c", script}
	if len(entrypoint) == 0 || passes {
		return plain, nil
	}
	program, rest := path.Base(entrypoint[0]), entrypoint[1:]
	switch {
	case passOn[program] && onlyOptions(rest):
		return plain, nil
	case program == "env" && onlyVariables(rest):
		return plain, nil
	case (program == "conda" || program == "micromamba" || program == "mamba") && len(rest) > 0 && rest[0] == "run" && endsInEnvironment(rest):
		return plain, nil
	case isShell(program) && len(rest) == 0:
		return []string{"-c", script}, nil
	case isShell(program) && isCommandOption(rest):
		return []string{script}, nil
	case strings.HasPrefix(program, "python") && len(rest) == 0:
		return []string{"-c", "import os, sys; os.execv('/bin/sh', ['/bin/sh', '-c', sys.argv[1]])", script}, nil
	}
	return nil, fault.New(fault.Invalid, "Use an image without one; or, where it runs the words that it is given, say `--target-arg entrypoint=passes`.",
		"the image's ENTRYPOINT %s takes the command, and AWS Batch cannot replace it", strings.Join(entrypoint, " "))
}

func isShell(program string) bool {
	return program == "sh" || program == "bash" || program == "dash" || program == "ash"
}

// isCommandOption says whether a shell's options end in the one before its command: -c, -lc, -l -c.
func isCommandOption(words []string) bool {
	for _, w := range words {
		if !strings.HasPrefix(w, "-") || strings.HasPrefix(w, "--") && w != "--login" {
			return false
		}
	}
	return len(words) > 0 && strings.HasSuffix(words[len(words)-1], "c") && !strings.HasPrefix(words[len(words)-1], "--")
}

// onlyOptions says whether no program is among the words.
func onlyOptions(words []string) bool {
	for _, w := range words {
		if !strings.HasPrefix(w, "-") {
			return false
		}
	}
	return true
}

// onlyVariables says whether the words of env are variables alone.
func onlyVariables(words []string) bool {
	for _, w := range words {
		if !strings.Contains(w, "=") || strings.HasPrefix(w, "-") {
			return false
		}
	}
	return true
}

// endsInEnvironment says whether the words of conda run are options alone, of which -n and -p have a value.
func endsInEnvironment(words []string) bool {
	for i := 1; i < len(words); i++ {
		switch w := words[i]; {
		case w == "-n" || w == "--name" || w == "-p" || w == "--prefix":
			i++
		case !strings.HasPrefix(w, "-"):
			return false
		}
	}
	return true
}
