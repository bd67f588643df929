// Package wire is what an agent and the supervisor of a tree say to each other, over a socket:
// its end tells each of the other's death.
//
// The first message down is an Order; later ones are Requests. Every message up is a Report.
//
// It refuses to know what either side does with a message. It is proved by wire_test.go and
// wire_linux_test.go, and by all that starts a tree.
package wire
