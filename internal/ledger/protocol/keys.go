package protocol

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/drover-run/drover/job"
)

func NamedDir(p job.Path, k, rank int) string {
	return fmt.Sprintf("%s/attempts/%d/out/%d", JobDir(p), k, rank)
}

// RoundsDir holds the log of what rounds of a map are about to name.
func RoundsDir(p job.Path) string { return JobDir(p) + "/rounds" }

// KnownDir names the tasks that have state and perhaps no job, by which all others
// are found.
const KnownDir = SweepDir + "/tasks/"

// ChunkID names chunk k of the manifest, counted from 0, or of the extension that
// entry ext of the job's log made; ext is 0 for the manifest's own.
func ChunkID(ext, k int) string {
	if ext > 0 {
		return fmt.Sprintf("x%d-%06d", ext, k)
	}
	return fmt.Sprintf("%06d", k)
}

// ChildID names the chunk that entry n of its parent's log has handed over.
func ChildID(parent string, n int) string { return fmt.Sprintf("%s.%d", parent, n) }

// ChunkDir is where a chunk's log lies below its job. The two hex digits spread
// the logs over a bucket's partitions; of the manifest's own they are the low byte
// of its number, so that a page of a listing says which of them no agent has touched.
func ChunkDir(id string) string {
	if k, err := strconv.Atoi(id); err == nil {
		return fmt.Sprintf("chunks/%02x/%s", k&0xff, id)
	}
	h := fnv.New32a()
	h.Write([]byte(id))
	return fmt.Sprintf("chunks/%02x/%s", h.Sum32()&0xff, id)
}

func InputDir(p job.Path, name string) string { return TaskDir(p) + "/input/" + name }

func FirstPart(key string) string {
	for i := range key {
		if key[i] == '/' {
			return key[:i]
		}
	}
	return key
}

// The keys of the object layout in docs/protocol.md.
func TaskDir(p job.Path) string { return p.Project + "/" + p.Task }

func JobDir(p job.Path) string { return TaskDir(p) + "/" + p.Job }

func JobKey(p job.Path) string { return JobDir(p) + "/job.json" }

func AttemptKey(p job.Path, k int, what string, rank int) string {
	return fmt.Sprintf("%s/attempts/%d/%s/%d", JobDir(p), k, what, rank)
}

func AgentKey(p job.Path, id string) string { return JobDir(p) + "/agents/" + id }

func IDKey(short string) string { return "ids/" + short }

// LogsPrefix is where the job's log objects lie.
func LogsPrefix(p job.Path) string { return JobDir(p) + "/logs" }

// MetricsPrefix is where the numbers found in its output lie, UsagePrefix what
// its nodes used.
func MetricsPrefix(p job.Path) string { return JobDir(p) + "/metrics" }

func UsagePrefix(p job.Path) string { return JobDir(p) + "/usage" }

// ItemsPrefix is where the lists of a map's items lie, and OutPrefix what each try
// of an item left: see OutKey.
func ItemsPrefix(p job.Path) string { return JobDir(p) + "/items" }

func OutPrefix(p job.Path, item int, try string) string {
	return fmt.Sprintf("%s/out/%d/%s", JobDir(p), item, try)
}

// OutputPrefix is where the archives made after the end lie.
func OutputPrefix(p job.Path) string { return JobDir(p) + "/output" }

func StateDir(p job.Path, rank int) string { return fmt.Sprintf("%s/state/%d", TaskDir(p), rank) }

// SweepDir holds the sweeps' log and lists. No project can be called so.
const SweepDir = "_gc"
