package report

// Kept is one folder that a task keeps.
type Kept struct {
	Name  string `json:"name"` // state, checkpoints, model, output or files
	Node  int    `json:"node"` // of an output: 0, it is that of all
	Job   string `json:"job,omitempty"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// GetOptions say what is brought, and how. The zero value brings all, and replaces
// nothing that is not drover's own.
type GetOptions struct {
	// Parts names what is wanted of model, output, files and logs of a run; none: all.
	Parts []string
	// Overwrite replaces files of the user's own that have the name of one that is
	// brought. Without it, the new file comes beside them.
	Overwrite bool
	// Watch is called after each file of a map's items. May be nil.
	Watch func(GotItems)
}

// Changes are what Get did to files that were in the folder before.
type Changes struct {
	// Kept counts files of the user's own that have the name of one that was brought;
	// Beside says of the first of them where the new file is.
	Kept   int      `json:"kept,omitempty"`
	Beside []Beside `json:"beside,omitempty"`
	// Removed counts files of an earlier Get that the result does not have any more;
	// Gone are the first of them.
	Removed int      `json:"removed,omitempty"`
	Gone    []string `json:"gone,omitempty"`
}

// Beside is a file that could not have its name. Both paths are below the folder.
type Beside struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// Got says what Get brought, and where it is.
type Got struct {
	Dir   string
	Parts []Part    // of a run
	Items *GotItems // of a map
	Notes []string  // what a user should know: names that two nodes, or two items, both wrote
	Changes
}

// Part is one of the folders in Got.Dir.
type Part struct {
	Name  string // model, output, files, logs
	Path  string
	Files int
	Bytes int64
}

// Made says what a job has made, for people before they fetch it.
type Made struct {
	Model, Output bool
	Files         int    // beside the script
	First         string // of them
	// InPlace says that Get into the caller's folder brings those files to their own
	// places.
	InPlace bool
}

// GotState says what GetState brought.
type GotState struct {
	Kept
	Changes
}

// GotItems says what Get brought of a map.
type GotItems struct {
	Items int // that have outputs
	Files int
	Bytes int64
	// There counts those of Files that were there before, with the same content.
	There int
	// Left counts files that were not brought, because an earlier item has an output
	// of the same name; Got.Notes names the first of them.
	Left int
}
