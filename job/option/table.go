package option

import (
	"reflect"
	"slices"
	"strings"

	"github.com/drover-run/drover/job"
)

// Option is what is known of one field of Spec: what another value of it means to a second
// command, the flag that sets it, and the key of the config that gives it when nothing was
// typed. Its name and text in a job file are the tags of the field.
type Option struct {
	Field       string // of Spec or of a struct within it, in Go
	Class       Class
	Flag, Short string // the names of its flag; "": no flag sets it
	Usage       string // what the flag does
	ItemsUsage  string // the same of a map, where it differs
	Config      string // key of the config; "": none
	phrase      string // what names it in a difference; "": its flag
}

// options are the fields of Spec, those of the structs within it beside the others.
var options = []Option{
	{Field: "Project", Class: ClassCommand, phrase: "project"},
	{Field: "Task", Class: ClassCommand, Flag: "task", Short: "t", phrase: "task",
		Usage:      "name of the task: its state survives, and it is skipped when complete",
		ItemsUsage: "name of the task: it is skipped when all items have succeeded"},
	{Field: "Verb", Class: ClassCommand, phrase: "verb"},
	{Field: "Program", Class: ClassCommand, phrase: "program"},
	{Field: "Args", Class: ClassCommand, phrase: "arguments"},
	{Field: "Source", Class: ClassCommand, Flag: "source", Short: "s",
		Usage:      "folder shipped as code, and the working folder (default: the git repository, or the folder where it is typed)",
		ItemsUsage: "folder shipped as code (default: the program's folder, or the current one)"},
	{Field: "Deps", Class: ClassCommand, Flag: "dependency", Short: "d",
		Usage: "another file or folder to put into the working folder, ignored by git or not; may be repeated"},
	{Field: "Inputs", Class: ClassCommand, Flag: "input", Short: "i", phrase: "inputs",
		Usage:      "data the program reads: PATH or NAME=URI[:sharded][:subfolder], a URI being a path, a glob, https://, s3://, gs:// or task:NAME/model; may be repeated",
		ItemsUsage: "data that every item reads: PATH or NAME=URI[:sharded][:subfolder]; may be repeated"},
	{Field: "Results", Class: ClassCommand, Flag: "result", phrase: "results",
		Usage: "folder that comes back: NAME=FOLDER; may be repeated (default: output=/opt/ml/processing/output)"},
	{Field: "Nodes", Class: ClassCommand, Flag: "nodes", phrase: "number of nodes",
		Usage: "how many nodes run the command together"},
	{Field: "Procs", Class: ClassCommand, Flag: "procs-per-node",
		Usage: "processes on each node, with a launcher (default: one for each GPU, or one)"},
	{Field: "Launcher", Class: ClassCommand, Flag: "launcher",
		Usage: "how processes are started and find each other: torch, torchrun, mpi, tf or none"},
	{Field: "Rules", Class: ClassCommand, phrase: "drover or ssm"},
	{Field: "Hyperparameters", Class: ClassCommand, phrase: "hyperparameters"},
	{Field: "Entrypoint", Class: ClassCommand, Flag: "entrypoint", phrase: "entrypoint",
		Usage: "words put before the script, such as 'bash -e' (default: what its name says)"},
	{Field: "From", Class: ClassCommand, Flag: "from", phrase: "where items come from",
		Usage: "items: a file, - for standard input, a folder, a glob, any of these in a bucket (s3://, gs://), or a range such as 1-1000"},
	{Field: "Format", Class: ClassCommand, Flag: "format",
		Usage: "of the items: lines, csv or jsonl (default: by the file's ending, else lines)"},
	{Field: "ByShell", Class: ClassCommand, Flag: "shell",
		Usage: "the command is one line for the shell; what placeholders stand for is quoted"},
	{Field: "Stdin", Class: ClassCommand, Flag: "stdin",
		Usage: "give the item to the program as its standard input too"},
	{Field: "Stream", Class: ClassCommand, Flag: "stream",
		Usage: "the program stays, and asks for items: for item in drover.items()"},
	{Field: "Fetch", Class: ClassCommand, Flag: "fetch",
		Usage: "items are addresses (https://, s3://, gs://, file://) or paths: bring each here before it begins, as {}"},
	{Field: "Out", Class: ClassCommand, Flag: "out",
		Usage: "file or folder that each item must leave, written to {out}: thumbs/{.stem}.png; may be repeated ({out2} ...)"},

	{Field: "Env", Class: ClassSetting, Flag: "env",
		Usage: "environment variable: NAME=VALUE, or NAME to copy yours; may be repeated"},
	{Field: "Secrets", Class: ClassSetting, Flag: "secret",
		Usage: "secret variable, read where it runs: NAME, NAME=env:OTHER or NAME=file:PATH; may be repeated"},
	{Field: "Python", Class: ClassSetting, Flag: "python", Config: "python",
		Usage: "interpreter: a path, a name or a version"},
	{Field: "NoEnv", Class: ClassSetting, Flag: "no-env",
		Usage: "take the interpreter as it is, whatever requirements.txt says"},
	{Field: "Packages", Class: ClassSetting, Flag: "packages",
		Usage: "install the Linux packages of packages.txt, as root"},
	{Field: "GPUs", Class: ClassSetting, Flag: "gpus",
		Usage:      "GPUs for each node alone (default: it sees all there are)",
		ItemsUsage: "GPUs for each item"},
	{Field: "Machine", Class: ClassSetting, Flag: "machine", Config: "machine",
		Usage: "types of machines of which any will do, such as g5.xlarge,g6.*; one name is a label where there are no types"},
	{Field: "Where", Class: ClassSetting, Flag: "where", Config: "where",
		Usage: "machines to run on: 'type =~ p3.* and zone != us-east-1a' (docs/how-to/placement.md)"},
	{Field: "NoMounts", Class: ClassSetting, Flag: "no-mounts",
		Usage: "no private /opt/ml and /state; variables say where the folders are (sudo works then)"},
	{Field: "Image", Class: ClassSetting, Flag: "image",
		Usage: "container image, such as python:3.12-slim, tar:./FILE or oci:./FOLDER (default: one with the Python that you have)"},
	{Field: "Dockerfile", Class: ClassSetting, Flag: "dockerfile",
		Usage: "build the image: a folder with a Dockerfile, a file, or its text; skipped when nothing changed"},
	{Field: "Framework", Class: ClassSetting, Flag: "framework",
		Usage: "prebuilt SageMaker image: NAME[:VERSION[:PYTHON]], such as pytorch:2.8.0:py312"},
	{Field: "Shm", Class: ClassSetting, Flag: "shm",
		Usage: "size of /dev/shm in the container, such as 2G"},
	{Field: "Mounts", Class: ClassSetting, Flag: "mount",
		Usage: "folder of the machine that the container sees: SOURCE:TARGET or SOURCE:TARGET:ro; may be repeated"},
	{Field: "On", Class: ClassSetting, Flag: "on", Config: "on",
		Usage: "target (default: $DROVER_ON, the config, local)"},
	{Field: "TargetArgs", Class: ClassSetting, Flag: "target-arg",
		Usage: "option of the target's own engine, of sbatch for --on slurm: account=bio, exclusive; NAME=@FILE gives the text of a file; may be repeated"},
	{Field: "Metrics", Class: ClassSetting, Flag: "metric",
		Usage: "number in the output: NAME=REGEX with one group, or hf, lightning, keras, pairs, none; may be repeated"},
	{Field: "StdinOf", Class: ClassSetting, phrase: "standard input"},

	{Field: "CPUs", Class: ClassBound, Flag: "cpus",
		Usage:      "cores for each node: waited for, and no more are used",
		ItemsUsage: "cores for each item: what fits runs at once"},
	{Field: "Memory", Class: ClassBound, Flag: "memory",
		Usage:      "memory for each node, such as 512M or 16G: waited for, and no more is used",
		ItemsUsage: "memory for each item, such as 512M or 16G: what fits runs at once, and no more is used"},
	{Field: "Disk", Class: ClassBound, Flag: "disk",
		Usage:      "disk that each node's folders may fill, such as 10G",
		ItemsUsage: "disk for files that --fetch brings, and for outputs that wait to be stored, each: 20G (default 10G)"},
	{Field: "Processes", Class: ClassBound, Flag: "procs",
		Usage:      "processes and threads of each node at once",
		ItemsUsage: "processes and threads of each item at once"},
	{Field: "Timeout", Class: ClassBound, Flag: "timeout",
		Usage: "time limit of one attempt, such as 90s or 2h"},
	{Field: "Grace", Class: ClassBound, Flag: "grace",
		Usage:      "time between SIGTERM and SIGKILL, and between the stop signal and SIGTERM (default 30s)",
		ItemsUsage: "time between SIGTERM and SIGKILL of each item, and between the stop signal and SIGTERM (default 30s)"},
	{Field: "StopSignal", Class: ClassBound, Flag: "stop-signal",
		Usage: "what Ctrl-C sends first: " + strings.Join(job.StopSignals, ", ") + " (default SIGINT)"},
	{Field: "Retries", Class: ClassBound, Flag: "retries",
		Usage:      "how often the program may fail and start again; interruptions are free",
		ItemsUsage: "how often an item may fail and be tried again; interruptions are free"},
	{Field: "ItemTimeout", Class: ClassBound, Flag: "item-timeout",
		Usage: "time limit of one try of an item, such as 90s or 2h"},
	{Field: "RetryOn", Class: ClassBound, Flag: "retry-on",
		Usage: "try an item again after these failures alone, such as 75,100-110,SIGSEGV,OOM,timeout (default: after any)"},
	{Field: "MemoryStep", Class: ClassBound, Flag: "memory-step",
		Usage: "after an item runs out of memory, multiply its memory by this, such as 2x, up to what the machine has"},
	{Field: "MaxFails", Class: ClassBound, Flag: "max-fails",
		Usage: "stop when more items have failed: a number, or percent such as 5%"},
	{Field: "Workers", Class: ClassBound, Flag: "workers",
		Usage: "agents that work on the items"},
	{Field: "Slots", Class: ClassBound, Flag: "slots", Short: "j", phrase: "-j",
		Usage: "items that each worker runs at once (default: what fits, or one for each core)"},
	{Field: "Spot", Class: ClassBound, Flag: "spot",
		Usage: "spot capacity; --spot=first: on-demand machines where there is none"},
	{Field: "KeepWarm", Class: ClassBound, Flag: "keep-warm",
		Usage: "let machines stay for so long for the next job, such as 10m, on a target that keeps them"},

	{Field: "Queue", Class: ClassLabel, Flag: "queue",
		Usage: "queue to wait in (default: default); the config limits queues"},
	{Field: "Priority", Class: ClassLabel, Flag: "priority",
		Usage: "among waiting jobs the highest goes first"},
	{Field: "Now", Class: ClassLabel, Flag: "now",
		Usage: "do not wait for cores, memory and GPUs that other jobs hold"},
	{Field: "Tags", Class: ClassLabel, Flag: "tag",
		Usage: "label to find the job by: KEY=VALUE; may be repeated"},

	{Field: "Named", Class: ClassOnce, phrase: "-t"},
	{Field: "Share", Class: ClassOnce, phrase: "the queue's share"},
	{Field: "PlainEnv", Class: ClassOnce, Flag: "plain-env",
		Usage: "let --env hold what looks like a secret"},
	{Field: "CleanState", Class: ClassOnce, Flag: "clean-state",
		Usage: "begin with an empty /state"},
	{Field: "NewCode", Class: ClassOnce, Flag: "new-code",
		Usage:      "run nothing with code as it was: refused while a job with other code is live",
		ItemsUsage: "run what is left, and items without success, with the code as it is now; results so far stay"},
	{Field: "ProjectOf", Class: ClassOnce, phrase: "the folder"},
	{Field: "Output", Class: ClassOnce, Flag: "output", Short: "o", Config: "output",
		Usage:      "folder, or s3://bucket/folder, that receives model/, output/, files/ and logs/",
		ItemsUsage: "folder that receives what --out names, of items that have succeeded"},
}

// Of returns the option of a field of Spec. A field that Spec does not have is a
// mistake in the program.
func Of(field string) Option {
	i := slices.IndexFunc(options, func(o Option) bool { return o.Field == field })
	if i < 0 {
		panic("no option is named " + field)
	}
	return options[i]
}

// All returns all options, by class.
func All() []Option { return slices.Clone(options) }

// displayName is what names the option in a difference.
func (o Option) displayName() string {
	if o.phrase != "" {
		return o.phrase
	}
	return "--" + o.Flag
}

// ConfigFields returns the fields of s that the config gives when nothing was typed, by
// their keys.
func ConfigFields(s *job.Spec) map[string]*string {
	fields := map[string]*string{}
	for _, o := range options {
		if o.Config != "" {
			fields[o.Config] = reflect.ValueOf(s).Elem().FieldByName(o.Field).Addr().Interface().(*string)
		}
	}
	return fields
}
