// Package resource bounds what a tree of processes may use and measures what it uses.
//
// Where the kernel allows it, the program starts in a cgroup of its own, drover-<token> and
// the identity of its maker, with its supervisor outside. Elsewhere a Meter watches the tree
// and ends it. A Limiter is the agent's side; Bounds are what the supervisor is told.
//
// It refuses to know how a tree is started and killed. It is proved by group_linux_test.go,
// by a fake cgroup v1 and v2; by meter_linux_test.go; and, with real trees, by
// limits_linux_test.go, usage_linux_test.go and stale_groups_linux_test.go of package proc.
package resource
