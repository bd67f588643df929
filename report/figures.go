package report

import (
	"fmt"

	"github.com/drover-run/drover/job"
)

// Advice is what a map's items could ask for instead, and what that changes.
type Advice struct {
	Memory job.Bytes `json:"memory,omitempty"` // of each item; 0: leave it
	CPUs   float64   `json:"cpus,omitempty"`   // of each item; 0: leave it
	Now    int       `json:"at_once"`          // on one worker
	Then   int       `json:"at_once_then"`
	Text   string    `json:"text"` // all of it in a sentence
}

// Difference is an item that two jobs over the same items have not ended alike.
type Difference struct {
	Item  int    `json:"item"`
	Value string `json:"value"`
	// What differs first: "state", "exit status", "result" or the name of an output.
	What   string `json:"what"`
	Before string `json:"before"`
	After  string `json:"after"`
	// Anyway says that a third, undisturbed run differed from the first in this item
	// too: it is not what befell the second that makes the difference.
	Anyway bool `json:"anyway,omitempty"`
}

// Group is items of a map that ended without success in the same way, as far as their
// status and the last line that they printed tell.
type Group struct {
	Why string `json:"why"` // "exit status 3", "quarantined"
	// Signature is that line with what differs from item to item left out: "cannot
	// identify image file '...'". Empty: they printed none, or there are too many kinds.
	Signature string `json:"signature,omitempty"`
	Items     int    `json:"items"`
	First     int    `json:"first"`          // number of the first of them
	Said      string `json:"said,omitempty"` // the line of that one
	// Pattern is an expression that their lines match, for RetryOptions and
	// ResultOptions. Empty: none is known.
	Pattern string `json:"pattern,omitempty"`
}

// Words are a group in a line: "cannot identify image file '...' (exit status 3)".
func (g Group) Words() string {
	said := g.Signature
	if g.Items == 1 {
		said = g.Said
	}
	if said == "" {
		return g.Why
	}
	return fmt.Sprintf("%s (%s)", said, g.Why)
}

// Figures sum up the items of a map that have ended with a result: what they took,
// and in which ways they failed.
type Figures struct {
	Seconds Spread `json:"seconds"`
	CPU     Spread `json:"cpu_seconds"`
	Memory  Spread `json:"max_rss_bytes"` // of each item's largest process
	Cores   Spread `json:"cores"`         // kept busy; of items that took at least a tenth of a second
	// Groups are the items that ended without success, the largest group first.
	Groups []Group    `json:"groups,omitempty"`
	Limits job.Limits `json:"limits"` // that bind items which start now
}

// Pilot is what a sample of a map's items came to, and what follows for all.
type Pilot struct {
	V        int       `json:"v"`
	Job      string    `json:"job"`
	Items    int       `json:"items"` // that were run
	Of       int       `json:"of"`
	Tally    job.Tally `json:"tally"`
	Mean     float64   `json:"seconds_mean"` // of an item, all its tries together
	Least    float64   `json:"seconds_least"`
	Most     float64   `json:"seconds_most"`
	CPU      float64   `json:"cpu_seconds_mean"`
	MaxRSS   int64     `json:"max_rss_bytes"` // of the largest process
	Forecast Forecast  `json:"forecast"`
}

// Forecast is what running all items will take, if they are like those of the pilot.
type Forecast struct {
	Seconds float64 `json:"seconds"`
	// Low and High are what it may be by chance: of 20 items that differ much, the
	// mean is not that of all. They are at most 1 in 20 times passed.
	Low   float64 `json:"seconds_low"`
	High  float64 `json:"seconds_high"`
	Slots int     `json:"slots"` // items at once, on all workers
	// Writes, Lists and Reads are requests to an object store, and Dollars what its
	// maker takes for them.
	Writes  int     `json:"store_writes"`
	Lists   int     `json:"store_lists"`
	Reads   int     `json:"store_reads"`
	Dollars float64 `json:"store_dollars"`
}

// TopOptions say which results come first.
type TopOptions struct {
	// By names a number: a field of results that are JSON objects, as in scores.f1,
	// or of a program's last line; else what an item printed last as f1=0.91, as
	// metrics are found.
	By        string
	N         int  // how many, at least 1
	Ascending bool // the smallest first, not the largest
}

// Ranked is an item, and the number that it was ordered by.
type Ranked struct {
	Number float64 `json:"number"`
	ItemResult
}

// Ranking is the head of an order. All others were counted and left out.
type Ranking struct {
	Top     []Ranked
	Without int // have succeeded, and their results have no such number
	Open    int // have not succeeded
}
