package jobfile

import (
	_ "embed"
	"slices"
)

// schema is made from job.Spec's tags by this package's tests (go test -update),
// which also refuse a stale one. It is embedded rather than made on demand: the
// generator would link a second YAML parser and Go's own for one constant.
//
//go:embed schema.json
var schema []byte

// Schema is the JSON schema of a job file (draft 2020-12), for editors and CI. A
// file that it accepts has a shape that Parse accepts. The same bytes are
// published as docs/job.schema.json.
func Schema() []byte { return slices.Clone(schema) }
