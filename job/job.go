// Package job holds drover's nouns and their rules: what may be asked for, what
// states there are and which may follow which, how things are named.
//
// It does no I/O and knows no clock: a Spec in, a refusal or a normal form out.
// Its tables are proved by its own tests and used by every floor above.
package job

import (
	"path"
	"slices"
	"time"
)

// Verb says how a job runs its program.
type Verb string

// The verbs that start jobs.
const (
	Run     Verb = "run"     // a script or program with its arguments
	Shell   Verb = "shell"   // one command line for bash (sh where bash is missing)
	Process Verb = "process" // like run, under SageMaker's processing contract
	Map     Verb = "map"     // a program for each of many items
)

// Launcher says how the program of a run is started on its nodes, and by which
// variables its processes find each other.
type Launcher string

// The launchers. Alone, without one, the program is started once on each node
// and finds MASTER_ADDR and MASTER_PORT when there are several.
const (
	Alone    Launcher = ""
	Torch    Launcher = "torch"    // RANK, LOCAL_RANK, WORLD_SIZE ... for each process; drover starts them
	TorchRun Launcher = "torchrun" // the program runs below torchrun itself, one on each node
	MPI      Launcher = "mpi"      // the program runs below mpiexec, which is started on node 0
	TF       Launcher = "tf"       // TF_CONFIG
)

// Launchers are the names that --launcher takes. "none" is Alone.
var Launchers = []Launcher{Torch, TorchRun, MPI, TF, "none"}

// Spec is what a person asks for. Normal fills in what was left out.
type Spec struct {
	Project string `json:"project" yaml:"project,omitempty" jsonschema:"description=Groups tasks. Default: drover.yaml or the folder's name"`
	Task    string `json:"task" yaml:"task,omitempty" jsonschema:"description=A named logical step whose state survives. Default: from the script and what it is given"`
	// Named is true when the person chose the task's name: only then is a
	// finished task skipped (DESIGN section 7).
	Named bool `json:"named,omitempty" yaml:"-"`

	Verb    Verb     `json:"verb" yaml:"verb,omitempty" jsonschema:"enum=run,enum=shell,enum=process,enum=map,description=run: a script or program. shell: one command line. process: a script or program under SageMaker's processing contract. map: a program for each item"`
	Program string   `json:"program" yaml:"program" jsonschema:"description=The script\\, program or command line"`
	Args    []string `json:"args,omitempty" yaml:"args,omitempty" jsonschema:"description=Arguments\\, handed over verbatim"`

	Source string   `json:"source,omitempty" yaml:"source,omitempty" jsonschema:"description=Folder shipped as code. Default: the git repository of the script or the folder where the command is typed"`
	Deps   []string `json:"deps,omitempty" yaml:"deps,omitempty" jsonschema:"description=More files or folders put into the working folder"`
	Inputs []Input  `json:"inputs,omitempty" yaml:"inputs,omitempty" jsonschema:"description=Named data the program reads"`
	// Results are the folders that a processing job leaves; Normal gives it one.
	Results []Result `json:"results,omitempty" yaml:"results,omitempty" jsonschema:"description=With verb process: folders that come back. Default: output at /opt/ml/processing/output"`

	Env    map[string]string `json:"env,omitempty" yaml:"env,omitempty" jsonschema:"description=Environment variables. Never for secrets"`
	Python string            `json:"python,omitempty" yaml:"python,omitempty" jsonschema:"description=Interpreter to use: a path or a name"`
	NoEnv  bool              `json:"no_env,omitempty" yaml:"no_env,omitempty" jsonschema:"description=Take the interpreter as it is\\, whatever the requirements say"`
	Nodes  int               `json:"nodes" yaml:"nodes,omitempty" jsonschema:"minimum=1,description=How many machines run the same command. Default: 1"`
	// Procs is how many processes a launcher starts on each node; 0: one for each
	// GPU, or one where there are none, as SageMaker does.
	Procs    int      `json:"procs_per_node,omitempty" yaml:"procs_per_node,omitempty" jsonschema:"minimum=0,description=Processes on each node\\, with a launcher. Default: one for each GPU\\, or one"`
	Launcher Launcher `json:"launcher,omitempty" yaml:"launcher,omitempty" jsonschema:"enum=torch,enum=torchrun,enum=mpi,enum=tf,enum=none,description=How processes are started and find each other. Default: none"`
	GPUs     int      `json:"gpus,omitempty" yaml:"gpus,omitempty" jsonschema:"minimum=0,description=GPUs for each node alone. Default: the program sees all there are"`
	Machine  string   `json:"machine,omitempty" yaml:"machine,omitempty" jsonschema:"description=Types of machines\\, of which any will do: names and globs such as g5.xlarge\\,g6.*. One name is a label where the target has no types"`
	// Where is a placement expression (package where), in canonical form once Normal has
	// read it; "": any machine.
	Where string `json:"where,omitempty" yaml:"where,omitempty" jsonschema:"description=What machines the job may run on\\, such as type =~ p3.* and zone != us-east-1a. Default: any"`
	// KeepWarm is how long machines may stay for the next placement, where a target keeps them.
	KeepWarm Duration `json:"keep_warm,omitempty" yaml:"keep_warm,omitempty" jsonschema:"description=How long machines may stay for the next job\\, such as 10m\\, on a target that keeps them. Default: not at all"`
	// Spot says how machines are bought where a target has spot capacity.
	Spot Spot `json:"spot,omitempty" yaml:"spot,omitempty" jsonschema:"enum=only,enum=first,enum=never,description=only: spot capacity. first: on-demand where there is no spot capacity. never: on-demand. Default: the target's choice"`
	// NoMounts keeps the machine's own view: /opt/ml is where variables say.
	NoMounts bool `json:"no_mounts,omitempty" yaml:"no_mounts,omitempty" jsonschema:"description=No private /opt/ml and /state: the variables say where these folders are. For programs that need sudo"`
	Limits   `yaml:",inline"`
	// Packages are Linux packages (packages.txt) that may be installed on the
	// machine: only as root, and only when the person said so.
	Packages bool `json:"packages,omitempty" yaml:"packages,omitempty" jsonschema:"description=Install the Linux packages that packages.txt names\\, as root"`

	Queue    string `json:"queue,omitempty" yaml:"queue,omitempty" jsonschema:"description=Where the job waits for room. Default: default"`
	Priority int    `json:"priority,omitempty" yaml:"priority,omitempty" jsonschema:"minimum=-1000,maximum=1000,description=Among waiting jobs the highest goes first. Default: 0"`
	Now      bool   `json:"now,omitempty" yaml:"now,omitempty" jsonschema:"description=Do not wait for cores\\, memory and GPUs that other jobs hold"`
	// Share is what the queue may use of the machine in all, from the config of
	// the submitter; zero fields are not limited.
	Share Share `json:"share,omitzero" yaml:"-"`

	Metrics []Metric          `json:"metrics,omitempty" yaml:"metrics,omitempty" jsonschema:"description=Numbers to find in the output. Default: name=number pairs and what common frameworks print"`
	Tags    map[string]string `json:"tags,omitempty" yaml:"tags,omitempty" jsonschema:"description=Labels to find the job by"`
	// Secrets are references by the name of the environment variable that the
	// program gets: env:NAME or file:PATH, read where it runs; never a value.
	Secrets map[string]string `json:"secrets,omitempty" yaml:"secrets,omitempty" jsonschema:"description=Environment variables whose values stay out of drover: env:NAME or file:PATH"`
	// PlainEnv lets Env hold what looks like a secret.
	PlainEnv bool `json:"plain_env,omitempty" yaml:"plain_env,omitempty" jsonschema:"description=Let env hold what looks like a secret"`
	// StdinOf names what the command that submitted a run had on its standard input for the
	// program to read: "file:" or "pipe:" and what tells it from others; "": nothing.
	StdinOf string `json:"stdin_of,omitempty" yaml:"-"`
	// CleanState begins with an empty /state: what earlier jobs left is not offered.
	CleanState bool `json:"clean_state,omitempty" yaml:"clean_state,omitempty" jsonschema:"description=Begin with an empty /state"`

	// Container is what the programs run in, where the target has containers.
	Container `yaml:",inline"`
	// Rules name the system with the rules that the command follows.
	Rules Rules `json:"rules,omitempty" yaml:"-"`
	// Hyperparameters are the whole of SM_HPS, as text; nil: they are read from
	// the arguments. Args holds what the program is given in either case.
	Hyperparameters map[string]string `json:"hyperparameters,omitempty" yaml:"hyperparameters,omitempty" jsonschema:"description=SM_HPS and hyperparameters.json. Default: what the arguments say"`
	// Entrypoint are the words before the program of a processing job; none: what
	// the program's name says.
	Entrypoint []string `json:"entrypoint,omitempty" yaml:"entrypoint,omitempty" jsonschema:"description=With verb process: words before the program\\, such as [bash\\, -e]. Default: what its name says"`

	// Items are a map's. What Limits and GPUs say is then for each item.
	Items `yaml:",inline"`

	Retries int      `json:"retries,omitempty" yaml:"retries,omitempty" jsonschema:"minimum=0,description=How often the program may fail and be started again. Interruptions are free. Default: 0"`
	Timeout Duration `json:"timeout,omitempty" yaml:"timeout,omitempty" jsonschema:"description=Time limit of one attempt\\, such as 90s or 2h. Default: none"`
	Grace   Duration `json:"grace,omitempty" yaml:"grace,omitempty" jsonschema:"description=Time between SIGTERM and SIGKILL\\, and between the stop signal and SIGTERM. Default: 30s"`
	// StopSignal is what Ctrl-C sends first; "" is SIGINT.
	StopSignal string `json:"stop_signal,omitempty" yaml:"stop_signal,omitempty" jsonschema:"enum=SIGINT,enum=SIGTERM,enum=SIGHUP,enum=SIGQUIT,enum=SIGUSR1,enum=SIGUSR2,description=What Ctrl-C sends the program first. SIGTERM follows after the grace. Default: SIGINT"`

	On string `json:"on,omitempty" yaml:"on,omitempty" jsonschema:"description=Target: a place to run. Default: local"`
	// TargetArgs are options of targets' own engines, by the target's name; a target
	// sees its own and those of AnyTarget.
	TargetArgs map[string][]string `json:"target_args,omitempty" yaml:"target_args,omitempty" jsonschema:"description=Options of a target's own scheduler\\, by target: {slurm: [--account=bio]}; any: whichever target the job goes to"`
	// NewCode asks that nothing runs with code as it was when a job was submitted: what
	// is left of a map that has changed code runs with the new one.
	NewCode bool `json:"-" yaml:"-"`
	// ProjectOf is the folder that gave Project its name; "": the project was named.
	ProjectOf string `json:"-" yaml:"-"`
	Output    string `json:"-" yaml:"output,omitempty" jsonschema:"description=Local folder that receives model\\, outputs and logs"`
}

// Input is one named data source (SageMaker: a channel).
type Input struct {
	Name string `json:"name" yaml:"name" jsonschema:"description=The program finds it at /opt/ml/input/data/NAME and in SM_CHANNEL_NAME"`
	// Path is where it comes from: a file, folder or glob here, file://, https://,
	// s3://, gs:// or task:NAME/state|model|output|source (task:PROJECT/NAME/...).
	Path string `json:"path" yaml:"path" jsonschema:"description=A file\\, folder or glob here\\, file://\\, https://, s3://, gs:// or task:NAME/model (state\\, output\\, source)"`
	// Sharded gives key i, in the order of their bytes, to node i mod N alone.
	Sharded bool `json:"sharded,omitempty" yaml:"sharded,omitempty" jsonschema:"description=Each node gets its share of the files"`
	// Subdir is the only folder of it that counts; "": all.
	Subdir string `json:"subdir,omitempty" yaml:"subdir,omitempty" jsonschema:"description=Only this folder of it"`
	// To is where a processing job finds it, below /opt/ml/processing.
	To string `json:"to,omitempty" yaml:"to,omitempty" jsonschema:"description=With verb process: the folder it finds it in. Default: /opt/ml/processing/input/NAME"`
}

// Result is one folder that a processing job leaves (SageMaker: an output).
type Result struct {
	Name string `json:"name" yaml:"name" jsonschema:"description=It comes back as output/NAME\\, or as output/ when it is the only one and has this name"`
	From string `json:"from" yaml:"from" jsonschema:"description=The folder\\, below /opt/ml/processing"`
}

// Processing is the folder that the inputs and results of a processing job are
// in, and ProcessingCode the one of its code.
const (
	Processing     = "/opt/ml/processing"
	ProcessingCode = Processing + "/input/code"
)

// The limits of a spec. They stop slips of the pen, not use; what one target
// allows is less and is that target's to say.
const (
	maxArgs    = 4096
	maxEnv     = 512
	maxNodes   = 1000
	maxProcs   = 1024
	maxRetries = 1000
	maxGPUs    = 64
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
	signal, err := ParseStopSignal(s.StopSignal)
	if err != nil {
		return s, err
	}
	s.StopSignal = signal
	if s, err = s.normalPlacement(); err != nil {
		return s, err
	}
	if s.On == "" {
		s.On = "local"
	}
	if s.Queue == "" {
		s.Queue = DefaultQueue
	}
	if s.Launcher == "none" {
		s.Launcher = Alone
	}
	if s.Verb == Process {
		s = s.processing()
	}
	if s.Verb == Map && s.Workers == 0 {
		s.Workers = 1
	}
	if s.CPUs == 0 && s.Verb != Map {
		s.CPUs = s.Share.CPUs / float64(max(s.Nodes, 1)) // of a queue that is limited it takes its all
	}
	if s.Memory == 0 && s.Verb != Map {
		s.Memory = s.Share.Memory / Bytes(max(s.Nodes, 1))
	}
	checks := []func(Spec) error{checkNames, checkProgram, checkText, checkNumbers, checkLimits, checkQueue, checkLauncher, checkItems, checkInputs, checkResults, checkApart, checkEnv, checkSecrets, checkPlainEnv, checkMetrics, checkTags, checkContainer, checkCustoms}
	for _, check := range checks {
		if err := check(s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// processing fills in what SageMaker's own tools would say of a processing job.
func (s Spec) processing() Spec {
	s.Inputs = slices.Clone(s.Inputs)
	for i, in := range s.Inputs {
		switch {
		case in.To != "":
		case s.Rules == SSM && in.Name == "data":
			s.Inputs[i].To = Processing + "/data"
		case s.Rules == SSM:
			s.Inputs[i].To = Processing + "/input/data/" + in.Name
		default:
			s.Inputs[i].To = Processing + "/input/" + in.Name
		}
	}
	if len(s.Results) == 0 {
		s.Results = []Result{{Name: "output", From: Processing + "/output"}}
	}
	return s
}

// IsScript says whether the program is a Python script by its name.
func (s Spec) IsScript() bool { return s.Verb != Shell && !s.ByShell && path.Ext(s.Program) == ".py" }
