//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "chaos: find processes: this system has no /proc: run it on Linux")
	os.Exit(2)
}
