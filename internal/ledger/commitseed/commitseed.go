// Package commitseed tells tests what they vary from commit to commit: which worlds of a simulation
// they play beside the ones they always play, and which third of many similar cases: mutants, damages,
// moments of a kill. Tests that a user starts by hand play all cases. Proved by the simulations that ask it.
package commitseed

import (
	"os"
	"strconv"
)

// Number is that of the commit which make test plays, by its first 32 bits; ok is false where the
// tests were started in another way.
func Number() (n uint64, ok bool) {
	n, err := strconv.ParseUint(os.Getenv("DROVER_TEST_COMMIT"), 16, 32)
	return n, err == nil
}

// Plays says whether number i of many similar cases is of the commit's third.
func Plays(i int) bool {
	third := Third()
	return third == 0 || i%3 == third%3
}

// Fewer is a number of worlds: some in make test, which plays others of its commit beside them, and
// otherwise all.
func Fewer(some, all int) int {
	if _, ok := Number(); ok {
		return some
	}
	return all
}

// Third is the commit's third of what is numbered: 1, 2 or 3; 0: all.
func Third() int {
	n, ok := Number()
	if !ok {
		return 0
	}
	return int(n%3) + 1
}
