package ssm

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// option is one flag of the tool.
type option struct {
	names  []string // the first is the tool's own word for it, in full
	verbs  string   // the first letters of the verbs that have it: r s p d
	group  string   // its heading in the help
	args   string   // what stands after it, for people
	least  int      // of the words after it
	most   int      // 0: none, it is a switch; -1: any number
	greedy bool     // it takes all words up to the next flag, whether it may have them or not
	aws    bool     // it says something about AWS, and nothing elsewhere
	need   bool     // it has to be there
	text   string
	set    func(s *scanner, name string, values []string) error
}

// typedKey is the name by which Typed knows it.
func (o *option) typedKey() string { return strings.TrimPrefix(o.names[0], "--") }

// belongsTo says whether a verb has it.
func (o *option) belongsTo(v Verb) bool { return strings.Contains(o.verbs, string(v[0])) }

// options are all flags of all verbs, in the order of the help. Nothing is added
// here: see the package.
var options = []option{
	{names: []string{"--project_name", "-p"}, verbs: "rspd", group: "Task", args: "NAME", least: 1, most: 1, need: true, text: "project", set: text(func(c *Command) *string { return &c.Project })},
	{names: []string{"--task_name", "-t"}, verbs: "rspd", group: "Task", args: "NAME", least: 1, most: 1, need: true, text: "task: its state survives; once completed it is skipped", set: text(func(c *Command) *string { return &c.Task })},
	{names: []string{"--prefix"}, verbs: "rspd", group: "Task", args: "TEXT", least: 1, most: 1, aws: true, text: "prefix of keys in the S3 bucket", set: text(func(c *Command) *string { return &c.Prefix })},
	{names: []string{"--bucket_name", "-b"}, verbs: "rspd", group: "Task", args: "NAME", least: 1, most: 1, aws: true, text: "S3 bucket", set: text(func(c *Command) *string { return &c.Bucket })},

	{names: []string{"--entry_point", "-e"}, verbs: "r", group: "Code", args: "FILE", least: 1, most: 1, need: true, text: "script to run: .py or .sh; with -s a file at the root of that folder", set: text(func(c *Command) *string { return &c.Entry })},
	{names: []string{"--source_dir", "-s"}, verbs: "r", group: "Code", args: "FOLDER", least: 1, most: 1, text: "folder that is shipped as code", set: text(func(c *Command) *string { return &c.Source })},
	{names: []string{"--cmd_line", "--cmd"}, verbs: "s", group: "Code", args: "'LINE'", least: 1, most: 1, text: "command line for bash", set: text(func(c *Command) *string { return &c.CommandLine })},
	{names: []string{"--dir_files"}, verbs: "s", group: "Code", args: "FOLDER", least: 1, most: 1, text: "folder whose files lie where the line runs", set: text(func(c *Command) *string { return &c.DirFiles })},
	{names: []string{"--code"}, verbs: "p", group: "Code", args: "FILE", least: 1, most: 1, text: "script to run, from /opt/ml/processing/input/code", set: text(func(c *Command) *string { return &c.Code })},
	{names: []string{"--entrypoint", "-e"}, verbs: "p", group: "Code", args: "WORD...", least: 1, most: -1, greedy: true, text: "program that is run, without --code", set: list(func(c *Command) *[]string { return &c.Entrypoint })},
	{names: []string{"--command"}, verbs: "p", group: "Code", args: "WORD...", least: 1, most: -1, greedy: true, text: "words before --code (default: python3)", set: list(func(c *Command) *[]string { return &c.Interpreter })},
	{names: []string{"--dependencies", "-d"}, verbs: "rsp", group: "Code", args: "PATH...", least: 1, most: -1, greedy: true, text: "more files and folders to put beside the code", set: list(func(c *Command) *[]string { return &c.Dependencies })},

	{names: []string{"--instance_type", "--it"}, verbs: "rsp", group: "Instance", args: "TYPE", least: 1, most: 1, text: "type of instance; a label where there are no types", set: text(func(c *Command) *string { return &c.Machine })},
	{names: []string{"--instance_count", "--ic"}, verbs: "rsp", group: "Instance", args: "N", least: 1, most: 1, text: "how many instances (default: 1)", set: number(func(c *Command) *int { return &c.Nodes })},
	{names: []string{"--volume_size", "-v"}, verbs: "rsp", group: "Instance", args: "GB", least: 1, most: 1, aws: true, text: "size of each instance's volume", set: number(func(c *Command) *int { return &c.Volume })},
	{names: []string{"--no_spot"}, verbs: "rs", group: "Instance", aws: true, text: "on-demand instances", set: onOff(func(c *Command) *bool { return &c.Spot }, false)},
	{names: []string{"--use_spot_instances"}, verbs: "rs", group: "Instance", aws: true, text: "spot instances (the default)", set: onOff(func(c *Command) *bool { return &c.Spot }, true)},
	{names: []string{"--max_wait_mins"}, verbs: "rs", group: "Instance", args: "MINUTES", least: 1, most: 1, aws: true, text: "how long to wait for spot instances", set: number(func(c *Command) *int { return &c.MaxWait })},
	{names: []string{"--max_run_mins"}, verbs: "rsp", group: "Instance", args: "MINUTES", least: 1, most: 1, text: "time limit (default: 1440, a day)", set: number(func(c *Command) *int { return &c.MaxRun })},

	{names: []string{"--docker_file_path_or_content", "--df"}, verbs: "rsp", group: "Image", args: "PATH|TEXT", least: 1, most: 1, text: "Dockerfile: its folder, or its lines", set: text(func(c *Command) *string { return &c.Dockerfile })},
	{names: []string{"--framework", "-f"}, verbs: "rsp", group: "Image", args: "NAME", least: 1, most: 1, text: "prebuilt image: pytorch or tensorflow; of process any", set: framework},
	{names: []string{"--framework_version", "--fv"}, verbs: "rsp", group: "Image", args: "VERSION", least: 1, most: 1, text: "its version", set: text(func(c *Command) *string { return &c.FrameworkVersion })},
	{names: []string{"--py_version", "--pv"}, verbs: "rs", group: "Image", args: "VERSION", least: 1, most: 1, text: "its Python", set: text(func(c *Command) *string { return &c.Py })},
	{names: []string{"--aws_repo_name", "--ar"}, verbs: "rsp", group: "Image", args: "NAME", least: 1, most: 1, aws: true, text: "repository in AWS's registry", set: text(func(c *Command) *string { return &c.AWSRepo })},
	{names: []string{"--repo_name", "--rn"}, verbs: "rsp", group: "Image", args: "NAME", least: 1, most: 1, aws: true, text: "local repository", set: text(func(c *Command) *string { return &c.Repo })},
	{names: []string{"--image_tag"}, verbs: "rsp", group: "Image", args: "TAG", least: 1, most: 1, aws: true, text: "tag of the image that is built", set: text(func(c *Command) *string { return &c.ImageTag })},

	{names: []string{"--input_path", "-i"}, verbs: "rsp", group: "Data", args: "PATH [DISTRIBUTION] [SUBDIR]", least: 1, most: 3, greedy: true, text: "data: the channel data (SM_CHANNEL_DATA)", set: input(0, func(c *Command) *[]Input { return &c.Inputs })},
	{names: []string{"--input_s3", "--iis"}, verbs: "rsp", group: "Data", args: "NAME URI [DISTRIBUTION] [SUBDIR]", least: 2, most: 4, greedy: true, text: "more data; may be repeated", set: input(1, func(c *Command) *[]Input { return &c.Buckets })},
	{names: []string{"--input_task", "--iit"}, verbs: "rsp", group: "Data", args: "NAME TASK state|model|source|output [DISTRIBUTION] [SUBDIR]", least: 3, most: 5, greedy: true, text: "what another task has left; may be repeated", set: input(2, func(c *Command) *[]Input { return &c.Tasks })},
	{names: []string{"--model_uri"}, verbs: "rs", group: "Data", args: "PATH|URI", least: 1, most: 1, text: "a trained model: the channel model", set: text(func(c *Command) *string { return &c.ModelURI })},
	{names: []string{"--clean_state", "--cs"}, verbs: "rspd", group: "Data", text: "clear the task's state first", set: onOff(func(c *Command) *bool { return &c.CleanState }, true)},
	{names: []string{"--keep_state", "--ks"}, verbs: "rsp", group: "Data", text: "keep the task's state (the default)", set: onOff(func(c *Command) *bool { return &c.CleanState }, false)},

	{names: []string{"--force_running", "--fr"}, verbs: "rsp", group: "Running", text: "run though the task is completed", set: onOff(func(c *Command) *bool { return &c.Force }, true)},
	{names: []string{"--distribution"}, verbs: "rs", group: "Running", args: "JSON", least: 1, most: 1, text: "how a framework's processes find each other", set: distribution},
	{names: []string{"--metric_definitions", "--md"}, verbs: "rs", group: "Running", args: "NAME REGEX", least: 2, most: 2, text: "number in the output; may be repeated", set: pair(func(c *Command) *[]Pair { return &c.Metrics })},
	{names: []string{"--tag"}, verbs: "rsp", group: "Running", args: "KEY VALUE", least: 2, most: 2, text: "label of the job; may be repeated", set: pair(func(c *Command) *[]Pair { return &c.Tags })},
	{names: []string{"--env"}, verbs: "p", group: "Running", args: "NAME VALUE|NAME=VALUE|NAME", least: 1, most: 2, text: "environment variable; NAME alone copies yours; may be repeated", set: variable},
	{names: []string{"--arguments"}, verbs: "p", group: "Running", args: "WORD...", least: 1, most: -1, greedy: true, text: "words for the program; so are those after --", set: list(func(c *Command) *[]string { return &c.Arguments })},

	{names: []string{"--output_path", "-o"}, verbs: "rspd", group: "Download", args: "FOLDER", least: 1, most: 1, text: "folder that receives logs/, and what the next three name", set: text(func(c *Command) *string { return &c.Output })},
	{names: []string{"--download_state"}, verbs: "rspd", group: "Download", text: "state/ too", set: onOff(func(c *Command) *bool { return &c.TakeState }, true)},
	{names: []string{"--download_model"}, verbs: "rspd", group: "Download", text: "model/ too", set: onOff(func(c *Command) *bool { return &c.TakeModel }, true)},
	{names: []string{"--download_output"}, verbs: "rspd", group: "Download", text: "output/ too", set: onOff(func(c *Command) *bool { return &c.TakeOutputs }, true)},
	{names: []string{"--help", "-h"}, verbs: "rspd", group: "Download", text: "this page", set: onOff(func(c *Command) *bool { return &c.Help }, true)},
}

// namesOf are the flags of a verb by their names, _ in place of -.
func namesOf(v Verb) map[string]*option {
	known := map[string]*option{}
	for i := range options {
		if o := &options[i]; o.belongsTo(v) {
			for _, n := range o.names {
				known[n] = o
			}
		}
	}
	return known
}

// setDefaults are the tool's own.
func (c *Command) setDefaults() {
	if c.Verb == Data {
		return
	}
	c.Nodes, c.Volume, c.MaxRun, c.ImageTag = 1, 30, 24*60, "latest"
	c.Machine, c.Framework, c.Spot = "ml.m5.large", "pytorch", true
	if c.Verb == Process {
		c.Machine, c.Framework, c.FrameworkVersion, c.Spot = "ml.t3.medium", "sklearn", "0.20.0", false
	}
}

func (c *Command) checkRequired() error {
	for i := range options {
		if o := &options[i]; o.need && o.belongsTo(c.Verb) && !c.Typed[o.typedKey()] {
			short := o.names[len(o.names)-1]
			return refuse("Add "+short+" "+o.args+".", "ssm %s needs %s (%s)", c.Verb, short, o.names[0])
		}
	}
	return nil
}

// setter is what a flag does with its values.
type setter = func(s *scanner, name string, values []string) error

func text(field func(*Command) *string) setter {
	return func(s *scanner, _ string, v []string) error {
		*field(s.c) = v[0]
		return nil
	}
}

func list(field func(*Command) *[]string) setter {
	return func(s *scanner, _ string, v []string) error {
		*field(s.c) = slices.Clone(v) // the last one counts, as with argparse
		return nil
	}
}

func onOff(field func(*Command) *bool, value bool) setter {
	return func(s *scanner, _ string, _ []string) error {
		*field(s.c) = value
		return nil
	}
}

// number reads what Python's int does: blanks around it, a sign, _ between digits.
func number(field func(*Command) *int) setter {
	return func(s *scanner, name string, v []string) error {
		digits := strings.TrimSpace(v[0])
		body := strings.TrimLeft(digits, "+-")
		if !strings.HasPrefix(body, "_") && !strings.HasSuffix(body, "_") && !strings.Contains(body, "__") {
			digits = strings.ReplaceAll(digits, "_", "")
		}
		n, err := strconv.Atoi(digits)
		if err != nil {
			return refuse("Write it as "+name+" 2.", "%s: %q is no whole number", name, v[0])
		}
		*field(s.c) = n
		return nil
	}
}

func pair(field func(*Command) *[]Pair) setter {
	return func(s *scanner, _ string, v []string) error {
		*field(s.c) = append(*field(s.c), Pair{v[0], v[1]})
		return nil
	}
}

// variable reads NAME VALUE, NAME=VALUE, and NAME for the caller's own value.
func variable(s *scanner, name string, v []string) error {
	p := Pair{Name: v[0]}
	if len(v) == 2 {
		p.Value = v[1]
	} else if key, value, ok := strings.Cut(v[0], "="); ok {
		p = Pair{key, value}
	} else if p.Value, ok = s.env(v[0]); !ok {
		return refuse("Set it, or write "+name+" "+v[0]+" VALUE.", "%s: %s is not set here", name, v[0])
	}
	s.c.Env = append(s.c.Env, p)
	return nil
}

var frameworks = []string{"pytorch", "tensorflow"}

func framework(s *scanner, name string, v []string) error {
	if s.c.Verb != Process && !slices.Contains(frameworks, v[0]) {
		hint := "Use pytorch or tensorflow."
		if near := nearest(v[0], frameworks); near != "" {
			hint = "Did you mean " + name + " " + near + "?"
		}
		return refuse(hint, "%s: there is no framework %q", name, v[0])
	}
	s.c.Framework = v[0]
	return nil
}

func distribution(s *scanner, name string, v []string) error {
	if !json.Valid([]byte(v[0])) {
		return refuse(`Write it as `+name+` '{"parameter_server": {"enabled": true}}'.`, "%s: %q is no JSON", name, v[0])
	}
	s.c.Distribution = v[0]
	return nil
}

// kinds are what one task may take from another.
var kinds = []string{"state", "model", "source", "output"}

// input reads a source of data: named words come first, then its distribution
// and the folder in it.
func input(named int, field func(*Command) *[]Input) setter {
	return func(s *scanner, name string, v []string) error {
		in := Input{Distribution: Replicated}
		rest := v[named+1:]
		switch named {
		case 0:
			in.Path = v[0]
		case 1:
			in.Name, in.Path = v[0], v[1]
		default:
			in.Name, in.Task, in.What = v[0], v[1], v[2]
			if !slices.Contains(kinds, in.What) {
				return refuse(meant(in.What, kinds, "Use state, model, source or output."), "%s %s %s: %q is nothing that a task leaves", name, in.Name, in.Task, in.What)
			}
		}
		if len(rest) > 0 {
			in.Distribution = rest[0]
			if ways := []string{Replicated, Sharded}; !slices.Contains(ways, in.Distribution) {
				return refuse(meant(in.Distribution, ways, "Use FullyReplicated or ShardedByS3Key."), "%s %s: %q is no distribution", name, v[0], in.Distribution)
			}
		}
		if len(rest) > 1 {
			in.Subdir = rest[1]
		}
		*field(s.c) = append(*field(s.c), in)
		return nil
	}
}
