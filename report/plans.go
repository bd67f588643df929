package report

// Sending is what Submit sends.
type Sending int

// What a plan's Watch hears of.
const (
	SendingItems  Sending = iota // files that items name
	SendingInputs                // those of the input that is stored just now, of which some may be there
)

// Action is what a command comes to, given what is there already.
type Action string

// The actions.
const (
	ActionStart   Action = "start"   // a new job
	ActionAttach  Action = "attach"  // it is live: follow it
	ActionResume  Action = "resume"  // no agent is working on it: go on with it
	ActionReplace Action = "replace" // interrupted, and the code has changed: a new job from its checkpoints
	ActionSkip    Action = "skip"    // a named task that is complete and unchanged
	ActionExtend  Action = "extend"  // a map that is live gets items that it does not have
	ActionReopen  Action = "reopen"  // a map that has ended goes on: what had no success, and new items
)

// Cost is about what a job asks of an object store (E8 of docs/protocol.md), and what the
// store's maker takes for that. What inputs, outputs and environments ask for is not in
// it: a request for each object of theirs.
type Cost struct {
	Requests Requests // however long its program or its items take
	Minute   Requests // so many more in each minute that it works
	Price    StorePrice
	// Here says that the job's facts are in such a store. Else the price is S3's, for a
	// user that thinks of moving there.
	Here bool
}

// After is what it asks for when the work takes so long.
func (c Cost) After(minutes float64) Requests {
	return c.Requests.Add(c.Minute.Times(minutes))
}

// Of is what requests come to.
func (c Cost) Of(r Requests) Dollars {
	return c.Price.Requests(r.Writes, r.Lists, r.Reads)
}

// PlannedCode is the files that go along with a plan's program.
type PlannedCode struct {
	Dir           string // the folder that they are read from
	WorkingFolder string // in it, where the program runs; "": Dir itself
	Files         int
	Bytes         int64
	Digest        string
	Note          string     // why less goes along than a person may expect; "": nothing to say
	Notes         []string   // what else was left out, a line each
	Left          []LeftFile // what was left out because the program makes it
	Unshipped     Unshipped
	ChangedFiles  []string // those that differ from the job that is there, by name
}

// LeftFile is a file that is no code, and why.
type LeftFile struct{ Name, Why string }

// Unshipped counts the ignored files in a code's folder, which do not go along.
type Unshipped struct {
	Files     int
	Bytes     int64
	More      bool     // there are more: not all were counted
	Names     []string // of the first few; a folder, with a slash, stands for all in it
	MoreNames bool     // Names are not all
	InPlace   bool     // the program finds them all the same
	Partial   bool     // the folder is too large to be shipped: they are not ignored ones alone
}

// PlannedPython is the Python environment that a plan's script will find; empty where that is
// found out on the machine.
type PlannedPython struct {
	Interpreter string // "": none is needed
	Source      string // what it was chosen by
	Why         string // one sentence
	Build       bool   // it is still to be built
}

// PlannedImage is what a planned job's agents run in.
type PlannedImage struct {
	Reference string // "": the target's own choice
	Python    string // the version that such a choice should bring, as "3.12"; "": any
	Why       string // for people; "" for the target's own choice
}

// PlannedItems is what a plan knows of a map's items.
type PlannedItems struct {
	Count  int
	Format string
	Fields []string
	Notes  []string // what was skipped or kept, for people
	New    int      // of these, items that the job which is there does not have
	Gone   int      // items that it has and are not given any more: their results stay
	Again  int      // items of it that ended without success and run again
	Chunks int
	// Uploads are the files that they name and the target does not see, as often as they are
	// named, and UploadBytes all these together.
	Uploads     int
	UploadBytes int64
}
