package report

import "slices"

// Waiting is something that agents wait for before they can begin, as their target says it.
type Waiting struct {
	Agents int    // that wait for it
	Reason string // the engine's own words
	Hint   string // what to do about it, in one sentence; "": nothing is known
}

// CountWaiting adds one agent that waits to the others, of which those with most agents come
// first.
func CountWaiting(all []Waiting, reason, hint string) []Waiting {
	at := slices.IndexFunc(all, func(w Waiting) bool { return w.Reason == reason && w.Hint == hint })
	if at < 0 {
		return append(all, Waiting{1, reason, hint})
	}
	all[at].Agents++
	for ; at > 0 && all[at-1].Agents < all[at].Agents; at-- {
		all[at-1], all[at] = all[at], all[at-1]
	}
	return all
}
