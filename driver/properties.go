package driver

import "slices"

// Properties are the constants of a target: what holds for every job there, whatever it
// needs. They are read once, without a request to an engine.
type Properties struct {
	// Attached is true when the agents live beside the command line: Ctrl-C stops them, and
	// only the attached command line replaces lost ones. Elsewhere the engine replaces them.
	Attached bool
	// Apart is true when the agents do not see this machine's programs: its Python, packages
	// and PATH do not exist there.
	Apart bool
	// Containers is true when the target runs images, so that a Place counts. Shown says what
	// containers see of this machine.
	Containers bool
	// InPlace is true when all agents are on this machine and their programs find its folders
	// under their own names, as the caller does: a program can then run where its code stands.
	InPlace bool
	// Stdin is true when agents started by Start on this machine inherit Boot.Stdin.
	Stdin bool
	// Shown are folders of this machine. The agents see the files of the file systems that
	// hold these folders, under their names; in a container they see those that the Place
	// lists. "/" stands for all files. Other files that a job names are stored with it.
	Shown []string
	// Stores are the kinds of store that agents can open: "folder", "s3", "gs". Nil: all.
	Stores []string
	// Identity names the account or role that agents have there, in words for the plan, where
	// their machines have credentials of their own: "the job role of their queue"; an Offer may
	// say it more closely. No short-lived credential is made for such agents, and the store that
	// they open is named without a profile of the caller's. "": agents have only what is handed
	// to them.
	Identity string
	// Pulls is true when the target's machines pull images from registries, and have none of
	// this machine's. The plan refuses an image that lies in no registry.
	Pulls bool
	// PullsFrom says whether the target's machines can pull an image of a name, of a target that Pulls. Another image is copied
	// below the Offer's Registry first. Nil: they pull any.
	PullsFrom func(image string) bool
	// Entrypoint is true when an agent's command is handed to the image's ENTRYPOINT, which the
	// target cannot replace. The plan then looks it up.
	Entrypoint bool
	// Framework is what a job runs in that names no image: Amazon's prebuilt image of that framework, as with
	// --framework, "pytorch". "": the target has an image of its own.
	Framework string
	// SSM is true when jobs there are those that simple-sagemaker makes, so that what its command lines say of AWS counts: the
	// type and disk of machines, spot capacity, images, and, as options of the target, where SageMaker puts archives (output)
	// and how long spot capacity is waited for (wait). Processing jobs have the detail "processing".
	SSM bool
	// Keeps is true when the target can keep machines for a while for the next placement (Needs.Keep).
	Keeps bool
	// TimeLimit is true when the engine itself ends an agent after Needs.Time, also where no
	// agent and no command line is left to do it. Else each agent enforces the limit on its
	// program, and a plan for other machines says so.
	TimeLimit bool
	// OfDetail gives the properties for jobs with a detail of the target's name, as ami in ec2/ami, where they
	// differ. Nil: all jobs have these.
	OfDetail func(detail string) Properties
}

// At gives the properties for jobs with a detail of the target's name.
func (p Properties) At(detail string) Properties {
	if p.OfDetail == nil {
		return p
	}
	return p.OfDetail(detail)
}

// Inherits says whether agents have the environment of the process that starts them.
func (p Properties) Inherits() bool { return p.Attached && !p.Apart }

// ShowsAll says whether agents see every file of this machine.
func (p Properties) ShowsAll() bool { return slices.Contains(p.Shown, "/") }

// Opens says whether its agents can open a kind of store.
func (p Properties) Opens(kind string) bool {
	return p.Stores == nil || slices.Contains(p.Stores, kind)
}
