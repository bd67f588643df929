//go:build !race

package gc

const raceOn = false
