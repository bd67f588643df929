package protocol

import "github.com/drover-run/drover/store"

// Begun says with what state all ranks of an attempt begin, where they share one (R9):
// under the rules of ssm. It stands in the log of rank 0's state, and the first
// for an attempt counts: a rank that comes to the same attempt later begins with that, too.
// What its ranks save from then on are generations in their own logs as ever (R6);
// docs/design/008 says how all of it becomes one folder.
type Begun struct {
	Job        string `json:"job"`
	Submission int    `json:"submission"` // as in Restored
	Attempt    int    `json:"attempt"`
	Agent      string `json:"agent"`
	// Own are the folders in the state that belong to one rank each, by rank. None
	// of a state that was stored with drover put: no agent writes it.
	Own []string `json:"own,omitempty"`
	// State is the digest of a list of files; empty: an empty folder.
	State store.Digest `json:"state,omitempty"`
	Bytes int64        `json:"bytes,omitempty"`
}

func (b Begun) Order() Restored { return Restored{Submission: b.Submission, Attempt: b.Attempt} }

func (s Saved) Order() Restored { return Restored{Submission: s.Submission, Attempt: s.Attempt} }

// Equal says of two writers' orders that neither is before the other.
func (r Restored) Equal(o Restored) bool { return !r.Before(o) && !o.Before(r) }

// Restored says that from here on an attempt writes the state of a rank: it
// fences every older writer (R6).
type Restored struct {
	Job        string `json:"job"`
	Submission int    `json:"submission"` // the job's last `submitted` in its task's log
	Attempt    int    `json:"attempt"`
	Agent      string `json:"agent"`
	Generation int    `json:"generation"` // entry number of what was restored; -1: nothing
}

// Saved is one generation of a rank's state. Its blobs were stored before.
type Saved struct {
	Job        string `json:"job"`
	Submission int    `json:"submission"`
	Attempt    int    `json:"attempt"`
	Agent      string `json:"agent"`
	// State and Checkpoints are digests of file lists; empty: an empty folder. Files is
	// that of the files which the program made or changed in its working folder.
	State       store.Digest `json:"state,omitempty"`
	Checkpoints store.Digest `json:"checkpoints,omitempty"`
	Files       store.Digest `json:"files,omitempty"`
	Code        store.Digest `json:"code,omitempty"` // what was shipped into that folder; empty: nothing
	Bytes       int64        `json:"bytes,omitempty"`
}

// Lists are the digests of the file lists that a generation names.
func (s Saved) Lists() (all []store.Digest) {
	for _, d := range []store.Digest{s.State, s.Checkpoints, s.Files} {
		if d != "" {
			all = append(all, d)
		}
	}
	return all
}

// By says whether a generation was saved by the writer that r names.
func (s Saved) By(r Restored) bool {
	return s.Submission == r.Submission && s.Attempt == r.Attempt && s.Agent == r.Agent
}

// Replaces says whether r counts once it stands behind h, which counted: of a newer attempt, or as the same agent has chosen
// again what it begins with.
func (r Restored) Replaces(h Restored) bool {
	return h.Before(r) || r.Submission == h.Submission && r.Attempt == h.Attempt && r.Agent == h.Agent
}

// Before orders writers: by their job's place, then by attempt.
func (r Restored) Before(o Restored) bool {
	if r.Submission != o.Submission {
		return r.Submission < o.Submission
	}
	return r.Attempt < o.Attempt
}
