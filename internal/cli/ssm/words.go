package ssm

import (
	"slices"
	"strings"
)

// spelled are drover's flags as ssm spells them.
var spelled = map[string]string{"force": "--force_running", "nodes": "--ic", "machine": "--it", "timeout": "--max_run_mins", "metric": "--md",
	"clean-state": "--cs", "keep-state": "--ks", "task": "-t", "project": "-p", "output": "-o", "source": "-s", "dependency": "-d", "input": "--iis",
	"dockerfile": "--df", "on": "DROVER_ON", "store": "DROVER_STORE", "on-demand": "--no_spot", "disk": "-v"}

// InWords says a hint of drover's in words that ssm has, or not at all: a flag that
// ssm lacks would be taken for a hyperparameter. Commands that look or stop, such as
// drover why, are drover's under either name.
func InWords(hint string) string {
	if strings.Contains(hint, "come before the script") || strings.Contains(hint, "come after it") {
		return ""
	}
	for _, start := range []string{"drover run", "drover shell", "drover map", "drover process", "drover ssm"} {
		if strings.Contains(hint, start) {
			return ""
		}
	}
	words := strings.Split(hint, " ")
	ours := false
	for i, w := range words {
		if w == "drover" {
			ours = true // what follows is a command line of its own
		}
		bare := strings.Trim(w, "\"'`.,;:?()")
		theirs := ours
		ours = ours && !strings.HasSuffix(w, ".")
		if theirs || !strings.HasPrefix(bare, "-") || len(bare) < 2 {
			continue
		}
		name, value, has := strings.Cut(bare, "=")
		if isFlag(name) {
			spread(words[i+1:], name)
			continue
		}
		s, ok := spelled[strings.TrimPrefix(name, "--")]
		if !ok || !strings.HasPrefix(name, "--") {
			return ""
		}
		if has {
			s += "=" + value
		}
		words[i] = strings.Replace(w, bare, s, 1)
		spread(words[i+1:], s)
		if strings.HasPrefix(s, "DROVER_") && i+1 < len(words) {
			words[i] += "=" + words[i+1]
			words[i+1] = ""
		}
	}
	return strings.ReplaceAll(strings.Join(words, " "), "  ", " ")
}

// spread makes two words of NAME=VALUE behind a flag that takes two.
func spread(words []string, flag string) {
	if len(words) > 0 && slices.Contains([]string{"--tag", "--md", "--iis"}, flag) {
		words[0] = strings.Replace(words[0], "=", " ", 1)
	}
}

// isFlag says whether any verb has it.
func isFlag(name string) bool {
	for i := range options {
		for _, n := range options[i].names {
			if n == canonical(name) {
				return true
			}
		}
	}
	return false
}
