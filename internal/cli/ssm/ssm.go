// Package ssm reads the command lines of simple-sagemaker, which has a program named
// ssm: its four verbs, its flags and what it does with all other words.
//
// The grammar is frozen: it is that of release 0.9.24, flags and hyperparameters
// in any order, and no flag is ever added, for each would take a name away from
// the hyperparameters of scripts. Where it departs from the tool, Differences says so
// and why. It refuses to know jobs, targets and files: words in, a Command out.
// Proved by the tool's own parser, on the lines in testdata/lines.json.
package ssm

import (
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

// Release is the release of the tool that has this grammar.
const Release = "0.9.24"

// Verb is what is done.
type Verb string

// The verbs.
const (
	Run     Verb = "run"
	Shell   Verb = "shell"
	Process Verb = "process"
	Data    Verb = "data"
)

// Verbs are all of them, in the tool's order.
var Verbs = []Verb{Run, Shell, Data, Process}

// The two distributions of an input: each node has all of it, or its share.
const (
	Replicated = "FullyReplicated"
	Sharded    = "ShardedByS3Key"
)

// Input is what stands after -i (Path alone), --iis (Name and Path) or --iit
// (Name, Task and What, which is state, model, source or output).
type Input struct {
	Name, Path, Task, What string
	Distribution, Subdir   string
}

// Pair is what stands after --md, --tag and --env.
type Pair struct{ Name, Value string }

// Hyperparameter is a word that begins with -- and is no flag, with its value.
// Bare is one without: it is handed over without, too.
type Hyperparameter struct {
	Name, Value string
	Bare        bool
}

// Command is one command line. What was not typed has the tool's default; Typed
// tells the two apart.
type Command struct {
	Verb   Verb
	Help   bool // -h stands in it: nothing else was looked at
	Strict bool // --strict stands before the verb

	Project, Task, Prefix, Bucket string

	Source, Entry         string   // of run
	CommandLine, DirFiles string   // of shell
	Code                  string   // of process, and the four that follow
	Entrypoint            []string // in place of the image's own
	Interpreter           []string // --command: before Code
	Arguments             []string // those of --arguments
	Env                   []Pair
	Dependencies          []string

	Machine                           string
	Nodes, Volume, MaxWait, MaxRun    int // Volume in GB, the limits in minutes
	Spot                              bool
	AWSRepo, Repo, ImageTag           string
	Dockerfile                        string // a folder, a file, or its text
	Framework, FrameworkVersion, Py   string
	Inputs, Buckets, Tasks            []Input // -i, --iis, --iit
	ModelURI                          string
	Distribution                      string // JSON: how TensorFlow's processes find each other
	Force, CleanState                 bool
	Metrics, Tags                     []Pair
	Output                            string
	TakeState, TakeModel, TakeOutputs bool // --download_state and its like

	// Hyperparameters are in the order in which their names first stood.
	Hyperparameters []Hyperparameter
	// Words stand after "--": they are the program's as they are.
	Words []string

	// Typed holds the flags that were typed, by their first name without dashes.
	Typed map[string]bool
	// Notes are lines for the person: what was read other than it may look.
	Notes []string
}

// Read reads a command line without the program's name. env looks a variable up,
// for --env NAME. No file is looked at: Check does that.
//
// Faults are Invalid, and their hints use the tool's own flags.
func Read(args []string, env func(string) (string, bool)) (Command, error) {
	c := Command{Typed: map[string]bool{}}
	for len(args) > 0 && args[0] == "--strict" {
		c.Strict, args = true, args[1:]
	}
	if len(args) == 0 {
		return c, refuse("Name one: ssm run -h, ssm shell -h, ssm process -h or ssm data -h.", "no verb is given")
	}
	if args[0] == "-h" || args[0] == "--help" {
		c.Help = true
		return c, nil
	}
	c.Verb = Verb(args[0])
	if !slices.Contains(Verbs, c.Verb) {
		hint := "The verb comes first: ssm run, ssm shell, ssm process or ssm data."
		if near := nearest(args[0], verbNames()); near != "" {
			hint = "Did you mean ssm " + near + "?"
		}
		return c, refuse(hint, "%q is no verb of ssm", args[0])
	}
	rest := args[1:]
	if i := slices.Index(rest, "--"); i >= 0 {
		c.Words, rest = slices.Clone(rest[i+1:]), rest[:i]
	}
	c.setDefaults()
	s := scanner{c: &c, env: env, left: rest, known: namesOf(c.Verb)}
	if err := s.scanAll(); err != nil || c.Help {
		return c, err
	}
	if err := c.checkRequired(); err != nil {
		return c, err
	}
	return c, c.reportNotes()
}

// Check looks at what the tool looks at before it begins: that the files are
// there. exists says whether a path is.
func (c Command) Check(exists func(path string) bool) error {
	if c.Help {
		return nil
	}
	paths := slices.Clone(c.Dependencies)
	for _, p := range []string{c.Source, c.Code} {
		if p != "" {
			paths = append(paths, p)
		}
	}
	for _, p := range paths {
		if !exists(p) {
			return refuse("Check the path.", "%q is not there", p)
		}
	}
	for _, in := range c.Inputs {
		if !strings.HasPrefix(in.Path, "s3://") && !exists(in.Path) {
			return refuse("Name a file or folder: -i ./data.", "-i: %q is not there", in.Path)
		}
	}
	for _, in := range c.Buckets {
		if !slices.ContainsFunc(schemes, func(s string) bool { return strings.HasPrefix(in.Path, s) }) && !exists(in.Path) {
			return refuse("Name an address or a path: --iis "+in.Name+" s3://BUCKET/KEY.", "--iis %s: %q is no address, and no file here", in.Name, in.Path)
		}
	}
	return nil
}

// schemes begin what --iis takes beside a path: the tool takes the first alone.
var schemes = []string{"s3://", "file://", "https://", "http://", "gs://"}

// DataDistribution is how -i is distributed. The tool reads --iit and then --iis
// into the same variable, so that the last of them decides for -i too.
func (c Command) DataDistribution() string {
	for _, list := range [][]Input{c.Buckets, c.Tasks} {
		if len(list) > 0 {
			return list[len(list)-1].Distribution
		}
	}
	if len(c.Inputs) > 0 {
		return c.Inputs[0].Distribution
	}
	return Replicated
}

// ProgramArgs are the words that the program gets: those after "--" first, then
// the hyperparameters in the order of their names. That is what a script sees
// under the tool: SageMaker's toolkit sorts the names and writes one of a single
// letter with one dash, and the tool puts what came after "--" before them.
func (c Command) ProgramArgs() []string {
	args := slices.Clone(c.Words)
	sorted := slices.Clone(c.Hyperparameters)
	slices.SortStableFunc(sorted, func(a, b Hyperparameter) int { return strings.Compare(a.Name, b.Name) })
	for _, h := range sorted {
		dashes := "--"
		if len(h.Name) == 1 {
			dashes = "-"
		}
		args = append(args, dashes+h.Name)
		if !h.Bare {
			args = append(args, h.Value)
		}
	}
	return args
}

// HyperparameterText is the hyperparameters as the program finds them in SM_HPS:
// each is text. A bare one is "true".
func (c Command) HyperparameterText() map[string]string {
	if len(c.Hyperparameters) == 0 {
		return nil
	}
	m := map[string]string{}
	for _, h := range c.Hyperparameters {
		m[h.Name] = h.Value
		if h.Bare {
			m[h.Name] = "true"
		}
	}
	return m
}

func verbNames() (names []string) {
	for _, v := range Verbs {
		names = append(names, string(v))
	}
	return names
}

func refuse(hint, format string, args ...any) error {
	return fault.New(fault.Invalid, hint, "read command line: "+format, args...)
}
