// Command outside is drover with a target of its own, shed, and no other: a driver in another
// module, which knows drover by its public packages alone.
package main

import (
	"example.org/outside/shed"

	"github.com/drover-run/drover/program"
)

func main() { program.Main("outside", shed.Target) }
