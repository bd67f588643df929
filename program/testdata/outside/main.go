// Command outside is drover with targets of its own, shed and yard, and no other: drivers in
// another module, which know drover by its public packages alone.
package main

import (
	"example.org/outside/shed"
	"example.org/outside/yard"

	"github.com/drover-run/drover/program"
)

func main() { program.Main("outside", shed.Target, yard.Target) }
