// Package job holds drover's nouns and their rules: what may be asked for, what
// states there are and which may follow which, how things are named.
//
// It does no I/O and knows no clock: a Spec in, a refusal or a normal form out.
// Its tables are proved by its own tests and used by every floor above.
package job

import (
	"encoding/json"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/fault"
)

// Verb says how a job runs its program.
type Verb string

// The verbs that start jobs.
const (
	Run   Verb = "run"   // a script or program with its arguments
	Shell Verb = "shell" // one command line for bash (sh where bash is missing)
)

// Spec is what a person asks for. Normal fills in what was left out.
type Spec struct {
	Project string `json:"project" yaml:"project,omitempty" jsonschema:"description=Groups tasks. Default: drover.yaml or the folder's name"`
	Task    string `json:"task" yaml:"task,omitempty" jsonschema:"description=A named logical step whose state survives. Default: from the script and what it is given"`
	// Named is true when the person chose the task's name: only then is a
	// finished task skipped (DESIGN section 7).
	Named bool `json:"named,omitempty" yaml:"-"`

	Verb    Verb     `json:"verb" yaml:"verb,omitempty" jsonschema:"enum=run,enum=shell,description=run: a script or program. shell: one command line"`
	Program string   `json:"program" yaml:"program" jsonschema:"description=The script\\, program or command line"`
	Args    []string `json:"args,omitempty" yaml:"args,omitempty" jsonschema:"description=Arguments\\, handed over verbatim"`

	Source string   `json:"source,omitempty" yaml:"source,omitempty" jsonschema:"description=Folder shipped as code. Default: the script's folder"`
	Deps   []string `json:"deps,omitempty" yaml:"deps,omitempty" jsonschema:"description=More files or folders put beside the code"`
	Inputs []Input  `json:"inputs,omitempty" yaml:"inputs,omitempty" jsonschema:"description=Named data the program reads"`

	Env     map[string]string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"description=Environment variables. Never for secrets"`
	Python  string            `json:"python,omitempty" yaml:"python,omitempty" jsonschema:"description=Interpreter to use: a path or a name"`
	NoEnv   bool              `json:"no_env,omitempty" yaml:"no_env,omitempty" jsonschema:"description=Take the interpreter as it is\\, whatever the requirements say"`
	Nodes   int               `json:"nodes" yaml:"nodes,omitempty" jsonschema:"minimum=1,description=How many machines run the same command. Default: 1"`
	Retries int               `json:"retries,omitempty" yaml:"retries,omitempty" jsonschema:"minimum=0,description=How often the program may fail and be started again. Interruptions are free. Default: 0"`
	Timeout Duration          `json:"timeout,omitempty" yaml:"timeout,omitempty" jsonschema:"description=Time limit of one attempt\\, such as 90s or 2h. Default: none"`
	Grace   Duration          `json:"grace,omitempty" yaml:"grace,omitempty" jsonschema:"description=Time between SIGTERM and SIGKILL. Default: 30s"`

	On     string `json:"on,omitempty" yaml:"on,omitempty" jsonschema:"description=Target: a place to run. Default: local"`
	Output string `json:"-" yaml:"output,omitempty" jsonschema:"description=Local folder that receives model\\, outputs and logs"`
}

// Input is one named data source (SageMaker: a channel).
type Input struct {
	Name string `json:"name" yaml:"name" jsonschema:"description=The program finds it at /opt/ml/input/data/NAME and in SM_CHANNEL_NAME"`
	Path string `json:"path" yaml:"path" jsonschema:"description=A local file or folder"`
}

// The limits of a spec. They stop slips of the pen, not use; what one target
// allows is less and is that target's to say.
const (
	maxArgs  = 4096
	maxEnv   = 512
	maxNodes = 1000
	// DefaultGrace is Kubernetes' and Slurm's own time between asking and killing.
	DefaultGrace = Duration(30 * time.Second)
)

// Normal returns the spec with defaults filled in, or a fault of kind Invalid
// that quotes what the person typed.
func (s Spec) Normal() (Spec, error) {
	if s.Verb == "" {
		s.Verb = Run
	}
	if s.Nodes == 0 {
		s.Nodes = 1
	}
	if s.Grace == 0 {
		s.Grace = DefaultGrace
	}
	if s.On == "" {
		s.On = "local"
	}
	checks := []func(Spec) error{checkNames, checkProgram, checkNumbers, checkInputs, checkEnv}
	for _, check := range checks {
		if err := check(s); err != nil {
			return s, err
		}
	}
	return s, nil
}

func checkNames(s Spec) error {
	if err := ValidName("project", s.Project); err != nil {
		return err
	}
	return ValidName("task", s.Task)
}

func checkProgram(s Spec) error {
	switch {
	case s.Verb != Run && s.Verb != Shell:
		return fault.New(fault.Invalid, "Use verb: run or verb: shell.", "check job: unknown verb %q", string(s.Verb))
	case strings.TrimSpace(s.Program) == "":
		return fault.New(fault.Invalid, "Try drover run train.py, or drover shell 'nvidia-smi -L'.", "check job: no script or program given")
	case s.Verb == Shell && len(s.Args) > 0:
		return fault.New(fault.Invalid, "Quote the whole line: drover shell 'echo $((6*7)) | tr 4 5'.", "check job: shell takes one command line, got %d words", len(s.Args)+1)
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

func checkNumbers(s Spec) error {
	switch {
	case s.Nodes < 1 || s.Nodes > maxNodes:
		return fault.New(fault.Invalid, "Use --nodes 1 to 1000.", "check job: %d nodes", s.Nodes)
	case s.Retries < 0 || s.Retries > 1000:
		return fault.New(fault.Invalid, "Use --retries 0 to 1000.", "check job: %d retries", s.Retries)
	case s.Timeout < 0:
		return fault.New(fault.Invalid, "Use a length of time such as 90s or 2h.", "check job: time limit %s is negative", s.Timeout)
	case s.Grace < 0:
		return fault.New(fault.Invalid, "Use a length of time such as 30s.", "check job: grace %s is negative", s.Grace)
	}
	return nil
}

func checkInputs(s Spec) error {
	seen := map[string]bool{}
	for _, in := range s.Inputs {
		if err := ValidName("input", in.Name); err != nil {
			return err
		}
		if seen[in.Name] {
			return fault.New(fault.Invalid, "Give each input its own name.", "check job: two inputs are named %q", in.Name)
		}
		seen[in.Name] = true
		if in.Path == "" {
			return fault.New(fault.Invalid, "Give it a file or folder.", "check job: input %q has no path", in.Name)
		}
	}
	return nil
}

func checkEnv(s Spec) error {
	if len(s.Env) > maxEnv {
		return fault.New(fault.Invalid, "Put them into a file that the program reads.", "check job: %d environment variables, at most %d", len(s.Env), maxEnv)
	}
	for _, k := range slices.Sorted(maps.Keys(s.Env)) { // sorted: the same spec gets the same refusal
		if !validEnvName(k) {
			return fault.New(fault.Invalid, "Use NAME=value with letters, digits and _.", "check job: %q is no name for an environment variable", k)
		}
		if strings.ContainsRune(s.Env[k], 0) {
			return fault.New(fault.Invalid, "", "check job: environment variable %s holds a NUL byte", k)
		}
	}
	return nil
}

func validEnvName(k string) bool {
	if k == "" || k[0] >= '0' && k[0] <= '9' {
		return false
	}
	return !strings.ContainsFunc(k, func(r rune) bool {
		return r != '_' && !(r >= 'a' && r <= 'z') && !(r >= 'A' && r <= 'Z') && !(r >= '0' && r <= '9')
	})
}

// Same says whether two specs in normal form ask for the same command: what a second command
// is compared by before it attaches to a live job. Where results go (-o) and
// what is merely shown do not count.
func (s Spec) Same(o Spec) bool {
	return s.Verb == o.Verb && s.Program == o.Program && slices.Equal(s.Args, o.Args) &&
		s.Source == o.Source && slices.Equal(s.Deps, o.Deps) && slices.Equal(s.Inputs, o.Inputs) &&
		s.Nodes == o.Nodes
}

// IsScript says whether the program is a Python script by its name.
func (s Spec) IsScript() bool { return s.Verb == Run && path.Ext(s.Program) == ".py" }

// Duration is a length of time that reads and writes as "1h30m" in YAML and
// JSON; a bare number means seconds.
type Duration time.Duration

// String is the time package's form.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes "1m30s".
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads "1m30s" or a bare number of seconds.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	*d = v
	return err
}

// UnmarshalJSON reads what UnmarshalText reads, and a JSON number of seconds;
// null changes nothing.
func (d *Duration) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		return nil
	}
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		text = string(b)
	}
	return d.UnmarshalText([]byte(text))
}

// ParseDuration reads "90s", "2h30m", "1.5d" or a bare number of seconds, up to
// a hundred years.
func ParseDuration(text string) (Duration, error) {
	body := strings.TrimSpace(text)
	number, unit := body, time.Second
	if days, ok := strings.CutSuffix(body, "d"); ok {
		number, unit = days, 24*time.Hour
	}
	var v float64
	if n, err := strconv.ParseFloat(number, 64); err == nil {
		v = n * float64(unit)
	} else {
		span, err := time.ParseDuration(body)
		if err == nil && span >= 0 && span <= maxDuration {
			return Duration(span), nil
		}
		v = math.NaN()
	}
	if !(v >= 0 && v <= float64(maxDuration)) { // so written, NaN is refused too
		return 0, fault.New(fault.Invalid, "Write it as 90s, 15m, 2h or 1d.", "read length of time: %q is none", text)
	}
	return Duration(math.Round(v)), nil
}

// maxDuration is far from where a Duration would overflow (292 years).
const maxDuration = 36500 * 24 * time.Hour
