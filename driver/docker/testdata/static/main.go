// Command static is all there is in the image drover.test/static:1.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func main() {
	verb, number := "hello", 0
	if len(os.Args) > 1 {
		verb = os.Args[1]
	}
	if len(os.Args) > 2 {
		number, _ = strconv.Atoi(os.Args[2])
	}
	switch verb {
	case "hello":
		fmt.Println("hello from nothing but a program")
	case "sleep":
		time.Sleep(time.Duration(number) * time.Second)
	case "exit":
		os.Exit(number)
	}
}
