//go:build !race

package items

const raceEnabled = false
