package job

import (
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/unit"
)

func checkNames(s Spec) error {
	if err := ValidName("project", s.Project); err != nil {
		return err
	}
	return ValidName("task", s.Task)
}

func checkProgram(s Spec) error {
	switch {
	case s.Verb != Run && s.Verb != Shell && s.Verb != Process && s.Verb != Map:
		return fault.New(fault.Invalid, "Use verb: run, shell, process or map.", "check job: unknown verb %q", string(s.Verb))
	case strings.TrimSpace(s.Program) == "":
		return fault.New(fault.Invalid, "Try `drover run train.py`, or `drover shell 'nvidia-smi -L'`.", "check job: no script or program given")
	case s.Verb == Shell && len(s.Args) > 0:
		return fault.New(fault.Invalid, "Quote the whole line: `drover shell 'echo $((6*7)) | tr 4 5'`.", "check job: shell takes one command line, got %d words", len(s.Args)+1)
	case len(s.Args) > maxArgs:
		return fault.New(fault.Invalid, "Put them into a file and pass its name.", "check job: %d arguments, at most %d", len(s.Args), maxArgs)
	}
	for _, a := range append([]string{s.Program}, s.Args...) {
		if strings.ContainsRune(a, 0) {
			return fault.New(fault.Invalid, "", "check job: argument %q holds a NUL byte", a)
		}
	}
	return nil
}

// checkText refuses bytes that are no UTF-8: a spec is stored as JSON, which would put
// other letters in their place, and the program would be given those.
func checkText(s Spec) error {
	texts := slices.Concat([]string{s.Program, s.Source, s.Machine}, s.Args, s.Entrypoint, s.Deps)
	for _, in := range s.Inputs {
		texts = append(texts, in.Path, in.Subdir)
	}
	for _, named := range []map[string]string{s.Hyperparameters, s.Env, s.Tags} {
		for _, k := range slices.Sorted(maps.Keys(named)) { // sorted: the same spec gets the same refusal
			texts = append(texts, k, named[k])
		}
	}
	for _, t := range texts {
		if !utf8.ValidString(t) {
			return fault.New(fault.Invalid, "Write it into a file, and pass the name of that.", "check job: %q is not UTF-8", t)
		}
	}
	return nil
}

func checkNumbers(s Spec) error {
	longest := max(s.Timeout, s.Grace, s.ItemTimeout, s.KeepWarm)
	switch {
	case s.Nodes < 1 || s.Nodes > maxNodes:
		return fault.New(fault.Invalid, "Use `--nodes 1` to 1000.", "check job: %d nodes", s.Nodes)
	case s.Retries < 0 || s.Retries > maxRetries:
		return fault.New(fault.Invalid, "Use `--retries 0` to 1000.", "check job: %d retries", s.Retries)
	case s.KeepWarm < 0:
		return fault.New(fault.Invalid, "Use a length of time such as 90s or 2h.", "check job: --keep-warm %s is negative", s.KeepWarm)
	case s.Timeout < 0:
		return fault.New(fault.Invalid, "Use a length of time such as 90s or 2h.", "check job: time limit %s is negative", s.Timeout)
	case s.Grace < 0:
		return fault.New(fault.Invalid, "Use a length of time such as 30s.", "check job: grace %s is negative", s.Grace)
	case longest > Duration(unit.MaxDuration): // stored, it could not be read again
		return fault.New(fault.Invalid, "Use 36500d, a hundred years, or less.", "check job: %s is too long a time", longest)
	case s.Procs < 0 || s.Procs > maxProcs:
		return fault.New(fault.Invalid, "Use `--procs-per-node 1` to 1024.", "check job: %d processes on each node", s.Procs)
	case s.GPUs < 0 || s.GPUs > maxGPUs:
		return fault.New(fault.Invalid, "Use `--gpus 1` to 64.", "check job: %d GPUs", s.GPUs)
	}
	return nil
}

func checkLauncher(s Spec) error {
	switch {
	case s.Launcher != Alone && !slices.Contains(Launchers, s.Launcher):
		hint := "Use torch, torchrun, mpi, tf or none."
		if near := nearest(string(s.Launcher)); near != "" {
			hint = "Did you mean `--launcher " + near + "`?"
		}
		return fault.New(fault.Invalid, hint, "check job: unknown launcher %q", string(s.Launcher))
	case s.Launcher != Alone && s.Verb == Shell:
		return fault.New(fault.Invalid, "Use `drover run --launcher "+string(s.Launcher)+"` with a script or program.", "check job: shell takes no launcher")
	case s.Procs > 1 && (s.Launcher == Alone || s.Launcher == TF):
		return fault.New(fault.Invalid, "Add `--launcher` torch or `--launcher mpi`.", "check job: %d processes on each node need a launcher that starts them", s.Procs)
	case s.Launcher == TorchRun && !s.IsScript():
		return fault.New(fault.Invalid, "Name a .py script, or use `--launcher torch`.", "check job: torchrun starts Python scripts, not %q", s.Program)
	}
	return nil
}

func nearest(typed string) string {
	var names []string
	for _, l := range Launchers {
		names = append(names, string(l))
	}
	return fault.Nearest(typed, names)
}

// checkResults sees that a processing job's folders are where SageMaker allows
// them, each of its own.
func checkResults(s Spec) error {
	if s.Verb != Process {
		if len(s.Results) > 0 {
			return fault.New(fault.Invalid, "Use verb: process, or write into $SM_OUTPUT_DATA_DIR.", "check job: results are for processing jobs")
		}
		return nil
	}
	names := map[string]bool{}
	for _, r := range s.Results {
		if err := ValidName("result", r.Name); err != nil {
			return err
		}
		if names[r.Name] {
			return fault.New(fault.Invalid, "Give each result its own name.", "check job: two results are named %q", r.Name)
		}
		names[r.Name] = true
		if err := checkBelow("result", r.Name, r.From); err != nil {
			return err
		}
	}
	return nil
}

// checkApart sees that no folder of a processing job lies in another: what is
// brought there, left there and taken from there would mix.
func checkApart(s Spec) error {
	if s.Verb != Process {
		return nil
	}
	folders := map[string]string{ProcessingCode: "the code"}
	if s.Rules == SSM {
		folders[ProcessingState], folders[ProcessingBefore] = "the state", "the state before"
	}
	for _, in := range s.Inputs {
		if other, ok := folders[in.To]; ok {
			return apart("input "+in.Name, in.To, other)
		}
		folders[in.To] = "input " + in.Name
	}
	for _, r := range s.Results {
		if other, ok := folders[r.From]; ok {
			return apart("result "+r.Name, r.From, other)
		}
		folders[r.From] = "result " + r.Name
	}
	for _, inner := range slices.Sorted(maps.Keys(folders)) {
		for outer := path.Dir(inner); strings.HasPrefix(outer, Processing); outer = path.Dir(outer) {
			if other, ok := folders[outer]; ok {
				return apart(folders[inner], inner, other)
			}
		}
	}
	return nil
}

func apart(what, folder, other string) error {
	return fault.New(fault.Invalid, "Give each a folder of its own below "+Processing+".", "check job: %s: %s is where %s is", what, folder, other)
}

// checkBelow refuses a folder that is not below /opt/ml/processing, or is not
// written the one way there is.
func checkBelow(what, name, folder string) error {
	if path.Clean(folder) == folder && strings.HasPrefix(folder, Processing+"/") {
		return nil
	}
	return fault.New(fault.Invalid, "Use a folder such as "+Processing+"/"+what+"/"+name+".", "check job: %s %s: %q is not below %s", what, name, folder, Processing)
}

func checkInputs(s Spec) error {
	seen := map[string]bool{}
	for _, in := range s.Inputs {
		if err := validChannel(in.Name); err != nil {
			return err
		}
		if seen[in.Name] {
			return fault.New(fault.Invalid, "Give each input its own name.", "check job: two inputs are named %q", in.Name)
		}
		seen[in.Name] = true
		if in.Path == "" {
			return fault.New(fault.Invalid, "Give it a file or folder.", "check job: input %q has no path", in.Name)
		}
		if _, _, err := in.TaskRef(); err != nil {
			return err
		}
		if in.Subdir != "" && (path.Clean(in.Subdir) != in.Subdir || !filepath.IsLocal(in.Subdir)) {
			return fault.New(fault.Invalid, "Name a folder inside it, such as train.", "check job: input %s: subfolder %q is not inside", in.Name, in.Subdir)
		}
		if in.To == "" {
			continue
		}
		if s.Verb != Process {
			return fault.New(fault.Invalid, "Use verb: process, or leave it out.", "check job: input %s: only processing jobs choose the folder", in.Name)
		}
		if err := checkBelow("input", in.Name, in.To); err != nil {
			return err
		}
	}
	return nil
}
