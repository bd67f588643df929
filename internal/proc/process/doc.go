// Package process lists the processes of this machine, tells one from all others, and kills
// those that a caller describes.
//
// An Identity names one process for ever. A mark in the environment says to which trees a
// process belongs, and is inherited by whatever it starts.
//
// It refuses to know why a process is to end. It is proved by list_test.go,
// list_linux_test.go and stat_linux_test.go, with real processes, hostile names and fuzz.
package process
