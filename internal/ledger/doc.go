// Package ledger holds the packages that implement docs/protocol.md: which agent does what,
// and what is done, as facts in a store. Everything that changes is a small log of numbered
// entries; a process writes an entry by creating the object with the next number; the state
// is the fold of a log's entries. Read them in this order:
//
//   - protocol: the object layout, the entries of each log, their codec and bounds, and Log,
//     which reads and appends;
//   - liveness: heartbeats, leases, and the evidence against an agent;
//   - runs and chunks: the folds of a run, a map and its chunks, and the pure decisions
//     Run.Next, Map.Next and Map.NextOf;
//   - tasks: the log of a task, how a job is submitted, loaded and found;
//   - states: generations of checkpoints and of shared state;
//   - runagent and mapagent: an agent's part in a run and in a map;
//   - attached: the part of an attached command line;
//   - control: what a user tells a job: cancel, drain, pause, amend, another round;
//   - views: what a reader sees of a job;
//   - removal: gc's part: what is named, sweeps, and how a job is removed.
//
// They depend on a store, a clock and randomness alone, so that the simulators in this
// package's tests drive them through crashes, pauses and lost replies. They refuse to know
// processes, machines, files and terminals. Proved by these simulations with planted mutants
// (docs/design/002, 012).
package ledger
