package job

import (
	"strings"
	"time"
)

// Format is the format of the facts in a store, from job.json to the last entry of a log. A drover
// reads one format and refuses a store of any other. 2: submission, gone and idle-flag were called
// place, told and bell in format 1.
const Format = 2

// Job is one accepted execution of a task: what job.json holds. It is written
// once, before the task's log names the job, and never changes.
type Job struct {
	V     int    `json:"v"` // Format
	ID    string `json:"id"`
	Short string `json:"short"` // its key under ids/
	Spec  Spec   `json:"spec"`
	Code  Code   `json:"code"`
	// Inputs are the versions this job uses, by name: digests of file lists.
	Inputs map[string]string `json:"inputs,omitempty"`
	// Contents are digests of what the inputs hold, by name, whatever their files'
	// times: what a later command is compared with.
	Contents map[string]string `json:"contents,omitempty"`
	// Manifest says where the items of a map lie, and ChunkSize how many of them a
	// chunk has (rule M7 of docs/protocol.md).
	Manifest  Manifest `json:"manifest,omitzero"`
	ChunkSize int      `json:"chunk_size,omitempty"`
	// Since is the first place in the task's log with checkpoints that this job may
	// begin with; earlier ones belong to work that ended well (DESIGN section 3).
	Since int `json:"since"`
	// StateSince is the first place with a /state that this job may begin with; 0 but
	// after --clean-state.
	StateSince int `json:"state_since,omitempty"`
	// Lineage says of each input that is another task's which job it came from.
	Lineage map[string]Origin `json:"lineage,omitempty"`
	// Environment names what the program will run in, for the comparison that
	// -t skipping makes.
	Environment string `json:"environment,omitempty"`
	// Interpreter is the Python that the plan found, where agents run on the
	// machine that made it: the copy of the code may lie where another is found.
	Interpreter string `json:"interpreter,omitempty"`
	// Inherited are the variables that the program has from the command that submitted
	// the job, where the target's agents inherit them; nil: they do not. Those of a
	// placement that another command asked for are with its entry.
	Inherited *Inherited `json:"inherited,omitempty"`
	// SettingsKey is a digest of the spec's settings and of Inherited: of a task without
	// a name, jobs with another one may be another task's (ledger.Beside).
	SettingsKey string `json:"settings_key,omitempty"`
	// Detail names the place of its agents in full, as the target did when the job was
	// submitted: a short name, such as that of a target alone, may come to mean another place.
	// "": what Spec.On says.
	Detail string `json:"detail,omitempty"`
	// Image is the container image that its agents run in, as exactly as the target
	// can name it; "": the target's own choice, if it has containers. ImageBuilt is
	// the digest of the Dockerfile and the files that drover built it from; "": it
	// did not. Entrypoint is the image's, where the target hands commands to it. Python is the
	// version that the target's own choice should bring.
	Image      string   `json:"image,omitempty"`
	ImageBuilt string   `json:"image_built,omitempty"`
	Entrypoint []string `json:"entrypoint,omitempty"`
	Python     string   `json:"python,omitempty"`
	// Seen are folders of the submitting machine that items lie in: agents that see
	// little of that machine are shown these.
	Seen   []string  `json:"seen,omitempty"`
	User   string    `json:"user,omitempty"`
	Host   string    `json:"host,omitempty"`
	Folder string    `json:"folder,omitempty"` // where it was typed
	At     time.Time `json:"at"`
	Drover string    `json:"drover,omitempty"` // version that submitted it
}

// Target is where its agents are, as SplitTarget reads it.
func (j Job) Target() string {
	if j.Detail == "" {
		return j.Spec.On
	}
	name, _ := SplitTarget(j.Spec.On)
	return JoinTarget(name, j.Detail)
}

// Code is what was shipped.
type Code struct {
	Blob   string `json:"blob,omitempty"`   // digest of the archive; empty: nothing was shipped
	Digest string `json:"digest,omitempty"` // of the files in it, whatever packed them
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
	Script string `json:"script,omitempty"` // the program's path inside, when it came along
	// Python is the script, or a module's file, that a Python interpreter named as the
	// program runs; "-" when it is not in the code. The environment is prepared for it.
	Python string `json:"python,omitempty"`
	// Paths are folders of the code that Python is to look for modules in, after the
	// caller's own PYTHONPATH: those of packages that "pip install -e" shows at home, and
	// of a src layout.
	Paths []string `json:"paths,omitempty"`
	// Root is the folder of the submitting machine, Job.Host, that was shipped, without
	// symbolic links; "" where only single files were. Sub is the working folder in it and
	// in what was shipped, slash-separated; "" is the whole.
	Root string `json:"root,omitempty"`
	Sub  string `json:"sub,omitempty"`
	// Commit is what git had checked out there, and Dirty says that files differed from it.
	Commit string `json:"commit,omitempty"`
	Dirty  bool   `json:"dirty,omitempty"`
	// InPlace says that the program runs in Root, as the machine Job.Host has it: what was
	// shipped lies over it, and what the program writes over that.
	InPlace bool `json:"in_place,omitempty"`
	// Partial says that Root is above the caps of what is shipped: of it no more was shipped
	// than what the command names, and the program finds the rest there (InPlace).
	Partial bool `json:"partial,omitempty"`
	// Unshipped is a digest of what lay in Root and was not shipped: names, sizes and
	// times; "" is nothing. With UnshippedMore there was too much to look at.
	Unshipped     string `json:"unshipped,omitempty"`
	UnshippedMore bool   `json:"unshipped_more,omitempty"`
	Note          string `json:"note,omitempty"` // why less came along than a person might expect
	// LeftOut are files that were in the folder and are no code, such as logs, by their
	// names there; one that ends in a slash is a folder. They do not make another code.
	LeftOut []string `json:"left_out,omitempty"`
}

// Origin is a thing that another job left: an input that was chained.
type Origin struct {
	Job   string `json:"job"`  // project/task/job
	Short string `json:"id"`   // its short id
	What  string `json:"what"` // state, model, output or source
	// Attempt is the attempt that made the model or output.
	Attempt int `json:"attempt,omitempty"`
}

// Path says where a job lies in the store.
type Path struct {
	Project string `json:"project"`
	Task    string `json:"task"`
	Job     string `json:"job"`
}

// String is project/task/job.
func (p Path) String() string { return p.Project + "/" + p.Task + "/" + p.Job }

// ParsePath reads what String has written. ok is false for any other text.
func ParsePath(text string) (p Path, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 || parts[2] == "" {
		return p, false
	}
	p = Path{parts[0], parts[1], parts[2]}
	return p, p.Check() == nil
}

// Path of the job in the store.
func (j Job) Path() Path { return Path{j.Spec.Project, j.Spec.Task, j.ID} }

// Event is one thing that happened to a job, for people and programs alike.
type Event struct {
	V    int               `json:"v"`
	Time time.Time         `json:"time"`
	Job  string            `json:"job"`
	Kind string            `json:"kind"` // submitted placed attempt joined environment started saved exit cancelled settled ...
	Text string            `json:"text"`
	Data map[string]string `json:"data,omitempty"`
}
