// Package mount gives a program its own view of the machine's files: binds, overlays and a
// hostname, in a mount namespace.
//
// A View is what a caller asks for. Resolve follows its links and checks it on the agent's
// side; the Layout that comes of it is applied by the supervisor, inside the namespace, and
// tells the agent where the machine has what the program sees.
//
// It refuses to know which program has the view, and how the namespace is made. It is proved
// by layout_test.go and overlay_linux_test.go and, with programs, by view_test.go,
// view_linux_test.go, view_edges_linux_test.go and overlay_linux_test.go of package proc.
package mount
