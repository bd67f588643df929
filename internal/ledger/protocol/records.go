package protocol

import (
	"time"

	"github.com/drover-run/drover/store"
)

// Snapshot is a closed chunk in one object: an index that any process can make again
// from its log. It is written once the entry that closed the chunk is in the log.
type Snapshot struct {
	V       int      `json:"v"`
	ID      string   `json:"id"`
	N       int      `json:"n"` // number of the entry that closed it
	Results []Result `json:"results,omitempty"`
	// Cut says that results were left out, because they were too many bytes: they
	// are in the log.
	Cut bool `json:"cut,omitempty"`
}

// The phases that a reader acts on. Left is that of an agent's last heartbeat,
// Queued that of one that waits until its machine has room, Resting that of one which
// has heeded a pause, and Draining one that lets what runs end: the job was stopped
// so, or the agent is drained.
const (
	Left     = "left"
	Queued   = "queued"
	Resting  = "paused"
	Draining = "draining"
)

// Works says whether an agent in that phase of a map is prepared.
func Works(phase string) bool {
	return phase == "running" || phase == "idle" || phase == Resting || phase == Draining
}

// Join says that an agent takes part in an attempt as a rank. Written once, by
// create-if-absent: the agent that writes it has the rank.
type Join struct {
	V       int       `json:"v"`
	Nonce   string    `json:"nonce"`
	Agent   string    `json:"agent"`
	At      time.Time `json:"at"`
	Host    Host      `json:"host"`
	Name    string    `json:"name,omitempty"`    // host name, for people
	Address string    `json:"address,omitempty"` // where peers reach it
	Port    int       `json:"port,omitempty"`    // fresh for each attempt (R2)
	// Stack names its network stack: an agent with the same one reaches it by loopback.
	Stack string `json:"stack,omitempty"`
	Procs int    `json:"procs,omitempty"` // processes that this node will run
	Token string `json:"token"`           // of this attempt and rank alone (R2)
}

// Verdict says how a rank's part in an attempt ended.
type Verdict string

// The verdicts. Only Broke and Setup are held against the user; Halted ranks
// were ended because of another, or because the job was stopped.
const (
	Done        Verdict = "done"        // exit status 0, outputs stored and verified
	Broke       Verdict = "failed"      // the program's own non-zero exit
	TimedOut    Verdict = "timed out"   // --timeout
	Setup       Verdict = "setup"       // it never started: no environment, no program
	Halted      Verdict = "halted"      // ended because of another rank, or a stop
	Interrupted Verdict = "interrupted" // the machine had notice
	AskedToStop Verdict = "asked"       // Ctrl-C: interrupted by a person
)

// Exit says how a rank ended. Written once, after its outputs are stored (R5).
type Exit struct {
	V       int       `json:"v"`
	Nonce   string    `json:"nonce"`
	Agent   string    `json:"agent"`
	At      time.Time `json:"at"`
	Verdict Verdict   `json:"verdict"`
	Code    int       `json:"code"`             // exit status as a shell would say it
	Signal  string    `json:"signal,omitempty"` // the signal that ended it
	Reason  string    `json:"reason,omitempty"` // one line for people
	Hint    string    `json:"hint,omitempty"`
	// Message is what it left in output/message, for people.
	Message string `json:"message,omitempty"`
	// Trace is what the program said last, when it failed.
	Trace string `json:"trace,omitempty"`
	// Outputs are digests of file lists by name: model, output, files.
	Outputs map[string]store.Digest `json:"outputs,omitempty"`
	Started time.Time               `json:"started,omitzero"` // the program's process
	Ended   time.Time               `json:"ended,omitzero"`
	CPU     time.Duration           `json:"cpu,omitempty"`         // user and system, in ns
	MaxRSS  int64                   `json:"max_rss,omitempty"`     // bytes, of the largest process
	Peak    int64                   `json:"peak_memory,omitempty"` // bytes, of the whole tree at once
	Notes   []string                `json:"notes,omitempty"`       // what a person should know about the outputs
}

// Heartbeat is an agent's heartbeat: the one object that is rewritten. It is a hint,
// never proof of a result.
type Heartbeat struct {
	V       int       `json:"v"`
	Agent   string    `json:"agent"`
	Counter int64     `json:"counter"`
	At      time.Time `json:"at"`
	Host    Host      `json:"host"`
	Name    string    `json:"name,omitempty"`
	Phase   string    `json:"phase"` // preparing queued waiting running saving leaving left
	Attempt int       `json:"attempt,omitempty"`
	Rank    int       `json:"rank"`
	Since   time.Time `json:"since,omitzero"`  // the program runs since
	Live    string    `json:"live,omitempty"`  // socket that serves live output
	Note    string    `json:"note,omitempty"`  // what it is doing, for people
	Queue   string    `json:"queue,omitempty"` // what it waits for on its machine, for people
	// Saved is the number of the newest generation it saved, and when.
	Saved   int       `json:"saved,omitempty"`
	SavedAt time.Time `json:"saved_at,omitzero"`

	// Of a map's agent: results it recorded, final failures among them, tries that
	// run now, and the chunks it holds.
	Recorded int      `json:"recorded,omitempty"`
	Failed   int      `json:"failed,omitempty"`
	Flight   int      `json:"flight,omitempty"`
	Slots    int      `json:"slots,omitempty"`
	Chunks   []string `json:"chunks,omitempty"`
	Asked    bool     `json:"asked,omitempty"` // it left because a person stopped it
	// Lost counts files that items left in their working folder and that are not kept;
	// LostFirst is one of them.
	Lost      int    `json:"lost,omitempty"`
	LostFirst string `json:"lost_first,omitempty"`
	// Changed counts files of the user's own that changed while items had them as links;
	// ChangedFirst is one of them.
	Changed      int    `json:"changed,omitempty"`
	ChangedFirst string `json:"changed_first,omitempty"`
}
