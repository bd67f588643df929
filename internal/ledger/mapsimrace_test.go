//go:build race

package ledger

// raceOn says that the race detector runs, under which a switch between two
// processes of a world costs sixteen times as much: fewer worlds are played. They run
// one process at a time, so it has little to find there.
const raceOn = true
