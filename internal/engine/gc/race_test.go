//go:build race

package gc

// raceOn says that the race detector runs, under which a history takes ten times
// as long: fewer are played. Other tests look for races, these play one at a time.
const raceOn = true
