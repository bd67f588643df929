package house_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

// sound is a small house that breaks no rule. The broken ones are this one with
// a file added or replaced.
const sound = `
-- go.mod --
module example.org/d

go 1.26.5

require example.org/lib v1.0.0
require github.com/aws/sdk v1.0.0 // indirect
require example.org/tools v1.0.0 // indirect

tool example.org/tools/lint

replace example.org/lib => ./_lib
replace github.com/aws/sdk => ./_sdk
replace example.org/tools => ./_tools
-- _lib/go.mod --
module example.org/lib
-- _lib/lib.go --
package lib
-- _sdk/go.mod --
module github.com/aws/sdk
-- _sdk/sdk.go --
package sdk
-- _tools/go.mod --
module example.org/tools
-- _tools/lint/lint.go --
package main
func main() {}
-- docs/deps.md --
Prose.

| module | why | licence | way out |
|---|---|---|---|
| ` + "`example.org/lib`" + ` | reads | MIT | by hand |
| ` + "`example.org/tools`" + ` | checks | MIT | none needed |
-- docs/protocol.md --
### L1* A rule

- Without it: nothing holds.
- In code: ` + "`Listen` (`store/store.go`)" + `
- Proved by: ` + "`TestOnly`, mutants L1" + `
-- ARCHITECTURE.md --
` + "```house" + `
5  cmd/drover             picks, the only main
       |
4  drover                 the SDK, for others
       |
3  driver      host       two of a kind
       |
1  store                  keeps things
       |
0  job         fault      nouns alone
` + "```" + `
-- cmd/drover/main.go --
// Package main is the program.
package main

import (
	_ "example.org/d/driver/local"
	_ "example.org/d/drover"
	_ "example.org/lib"
)

func main() {}
-- drover/drover.go --
// Package drover is the SDK.
package drover

import _ "example.org/d/driver"
-- driver/driver.go --
// Package driver is a contract.
package driver

import _ "example.org/d/store"

// Driver is small.
type Driver interface{ Start(); Stop() }
-- driver/local/local.go --
// Package local is a driver, which may know its own name.
package local

import _ "example.org/d/driver"

func Is(on string) bool { return on == "local" }
-- driver/drivertest/drivertest.go --
// Package drivertest is a suite.
package drivertest

import "time"

func Poll() { time.Sleep(1) }
-- store/store.go --
// Package store keeps (L1).
package store

import (
	"net"

	_ "example.org/d/fault"
)

var Listen = func() (net.Listener, error) { return net.Listen("unix", "here") }
-- job/job.go --
// Package job is nouns.
package job

import "example.org/d/fault"

const Local = "local"

func On(on string) string {
	if on == "" {
		on = Local
	}
	return on
}

func Check() error { return fault.New(0, "", "check job: it has no name") }
-- fault/fault.go --
// Package fault is kinds of failure.
package fault

func New(kind int, hint, format string) error { return nil }

type Fault struct{ Text string }
-- bench/main.go --
// Package main is a tool beside the house.
package main

import _ "example.org/d/bench/round"

func main() {}
-- bench/round/round.go --
// Package round is of that tool.
package round
-- internal/tests/only_mutants_test.go --
package tests_test

var mutants = []string{"L1*"}

func TestOnly() {}
`

// broken names, for each rule, additions to the sound house and a piece of the
// sentence they must be answered with.
var broken = map[string][]struct{ files, want string }{
	"every package loads": {
		{"-- store/more.go --\npackage other\n", "package example.org/d/store does not load"},
		{"-- store/more.go --\npackage store\nimport _ \"example.org/nowhere\"\n", "example.org/nowhere"},
	},
	"arrows point down": {
		{"-- store/more.go --\npackage store\nimport _ \"example.org/d/drover\"\n", "store imports drover, upwards"},
		{"-- driver/more.go --\npackage driver\nimport _ \"example.org/d/internal/host\"\n-- internal/host/host.go --\npackage host\n", "driver imports internal/host, sideways"},
		{"-- fault/more_darwin.go --\npackage fault\nimport _ \"example.org/d/store\"\n", "fault imports store, upwards"},
		{"-- job/job.go --\npackage job\n", "the exception job -> fault is used by no package"},
	},
	"every room is drawn": {
		{"-- internal/attic/attic.go --\npackage attic\n", "internal/attic is in the code and not in the picture"},
		{"-- cmd/second/main.go --\npackage main\nimport _ \"example.org/d/drover\"\nfunc main() {}\n", `draw room "cmd/second"`},
		{"-- bench/clock/clock.go --\npackage clock\nimport _ \"example.org/d/fault\"\n", "bench/clock is in the code and not in the picture"},
		{"-- bench/clock/clock.go --\npackage clock\n-- store/clocked.go --\npackage store\nimport _ \"example.org/d/bench/clock\"\n", "bench/clock is in the code and not in the picture"},
	},
	"only promises are public": {
		{"-- host/host.go --\npackage host\n", "host can be imported by anybody"},
	},
	"the ground stands on the standard library": {
		{"-- job/more.go --\npackage job\nimport _ \"example.org/lib\"\n", "job imports example.org/lib: floor 0"},
	},
	"only cmd/drover picks": {
		{"-- drover/more.go --\npackage drover\nimport _ \"example.org/d/driver/local\"\n", "drover imports driver/local: only cmd/drover"},
		{"-- program/more.go --\n// Package program runs.\npackage program\nimport _ \"example.org/d/driver/local\"\n", "program imports driver/local: only cmd/drover"},
		{"-- drover/more.go --\npackage drover\nimport _ \"example.org/d/internal/host/x\"\n-- internal/host/x/x.go --\npackage x\n", "drover imports internal/host/x: only"},
	},
	"the SDK links no cloud": {
		{"-- store/more.go --\npackage store\nimport _ \"github.com/aws/sdk\"\n", "package drover links github.com/aws/sdk"},
		{"-- drover/drover.go --\n\n", "package drover is not there"},
	},
	"no templates are linked": {
		{"-- _lib/lib.go --\npackage lib\nimport _ \"text/template\"\n", "example.org/lib imports text/template"},
		{"-- store/more.go --\npackage store\nimport _ \"html/template\"\n", "store imports html/template"},
		{"-- cmd/drover/main.go --\n\n", "cmd/drover is not there"},
	},
	"public packages name no internal type": {
		{"-- drover/more.go --\npackage drover\nimport \"example.org/d/internal/engine\"\ntype Plan = engine.Plan\n", "Plan names engine.Plan"},
		{"-- drover/more.go --\npackage drover\nimport \"example.org/d/internal/engine\"\ntype Plan struct{ engine.Plan }\n", "Plan names engine.Plan"},
		{"-- drover/more.go --\npackage drover\nimport \"example.org/d/internal/engine\"\nfunc Do(p engine.Plan) {}\n", "Do names engine.Plan"},
	},
	"every package introduces itself": {
		{"-- store/s3/s3.go --\npackage s3\n", "store/s3 has no package comment"},
	},
	"packages have plain names": {
		{"-- store/util/util.go --\npackage util\n", `store/util is named "util"`},
		{"-- driver/slurm/slurm.go --\npackage helpers\n", `driver/slurm is named "helpers"`},
	},
	"every dependency is explained": {
		{"-- store/more_test.go --\npackage store_test\nimport _ \"github.com/aws/sdk\"\n", "no line for github.com/aws/sdk"},
		{"-- docs/deps.md --\n| `example.org/lib` | reads | MIT | |\n", "line of example.org/lib needs four cells"},
		{"-- docs/deps.md --\n| `example.org/lib` | reads | MIT | by hand |\n", "no line for example.org/tools"},
		{"-- docs/deps.md --\n| `example.org/gone` | was used | MIT | by hand |\n", "explains example.org/gone"},
	},
	"go has the fixes we rely on": {
		{"-- go.mod --\nmodule example.org/d\n\ngo 1.26.4\n", "go.mod names go1.26.4: os.Root has known escapes before go1.26.5"},
		{"-- go.mod --\nmodule example.org/d\n\ngo 1.26\n", "go.mod names go1.26: "},
	},
	"files stay short": {
		{"-- store/long.go --\npackage store\n" + strings.Repeat("//\n", splitLines), "store/long.go has 801 lines"},
	},
	"nothing happens at init": {
		{"-- store/more.go --\npackage store\nfunc init() { println() }\n", "store/more.go:2: an init function"},
	},
	"interfaces stay small": {
		{"-- store/more.go --\npackage store\ntype Big interface{ A(); B(); C(); D(); E(); F(); G() }\n", "store/more.go:2: an interface of 7 methods"},
	},
	"receivers stay small": {
		{"-- store/more.go --\npackage store\ntype big[T any] struct{}\n" + manyMethods(), "store.big has 41 methods"},
	},
	"packages stay small": {
		{longFiles(4), "store has 28"},
	},
	"identifiers are words of the field": {
		{"-- store/more.go --\npackage store\ntype larders struct{}\n", "store/more.go: larders"},
		{"-- store/more.go --\npackage store\ntype shelf struct{ openBell int }\n", "store/more.go: openBell"},
		{"-- store/more.go --\npackage store\nfunc mayBury() {}\n", "store/more.go: mayBury"},
	},
	"comments have nouns as subjects": {
		{"-- store/more.go --\npackage store\n" + strings.Repeat("// whoever reads\n", mostPronounLines+1), "store/more.go:3: // whoever reads"},
	},
	"contexts carry no values": {
		{"-- store/more.go --\npackage store\nimport c \"context\"\nvar x = c.WithValue(nil, 1, 2)\n", "store/more.go:3: a value put into a context"},
	},
	"nobody opens a port": {
		{"-- store/more.go --\npackage store\nimport \"net\"\nvar l, _ = net.Listen(\"tcp\", \":0\")\n", "store/more.go:3: opens a port"},
		{"-- store/more.go --\npackage store\nimport \"net/http\"\nvar _ = http.ListenAndServe(\":0\", nil)\n", "store/more.go:3: opens a port"},
	},
	"nobody asks for a target by name": {
		{"-- store/more.go --\npackage store\nfunc f(on string) bool { return \"slurm\" != on }\n", `store/more.go:2: asks whether something is "slurm"`},
		{"-- store/more.go --\npackage store\nfunc f(on string) {\n\tswitch on {\n\tcase \"x\", \"batch\":\n\t}\n}\n", `store/more.go:4: asks whether something is "batch"`},
		{"-- job/more.go --\npackage job\nfunc f(on string) bool { return on == Local }\n", `job/more.go:2: asks whether something is "local"`},
		{"-- drover/more.go --\npackage drover\nimport j \"example.org/d/job\"\nfunc f(on string) bool { return on == j.Local }\n", `drover/more.go:3: asks whether something is "local"`},
	},
	"errors begin with the verb": {
		{"-- store/more.go --\npackage store\nimport \"errors\"\nvar e = errors.New(\"Failed to open\")\n", `store/more.go:3: an error that begins "Failed"`},
		{"-- store/more.go --\npackage store\nimport \"fmt\"\nvar e = fmt.Errorf(\"could not\" + \"%w\", nil)\n", `begins "could not"`},
		{"-- store/more.go --\npackage store\nimport \"example.org/d/fault\"\nvar e = fault.New(0, \"\", \"cannot open\")\n", `begins "cannot"`},
		{"-- store/more.go --\npackage store\nimport \"example.org/d/fault\"\nvar e = fault.Fault{Text: \"error: x\"}\n", `begins "error"`},
	},
	"nobody sleeps in tests": {
		{"-- store/more_test.go --\npackage store_test\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "store/more_test.go:3: a test that sleeps"},
		{"-- store/storetest/s.go --\npackage storetest\nimport \"time\"\nfunc f() { time.Sleep(1) }\n", "store/storetest/s.go:3: a test that sleeps"},
	},
	"cited rules are explained": {
		{"-- store/more.go --\npackage store\n\n// x keeps M7.\nvar x int\n", "store/more.go:3: cites rule M7, which docs/protocol.md does not have"},
		{"-- store/more_test.go --\npackage store_test\n\nvar x = \"E9: it is not so\"\n", "store/more_test.go:3: cites rule E9"},
		{"-- store/s3/s3.go --\n// Package s3 keeps.\npackage s3\n", `the exception for "R2" in store/s3/s3.go is used no more`},
	},
	"rules are cited": {
		{"-- store/store.go --\n// Package store keeps.\npackage store\n", "no code cites rule L1"},
		{"-- internal/tests/only_mutants_test.go --\npackage tests_test\n", "no test cites rule L1"},
		{"-- store/more.go --\npackage store\n\n// x keeps I6.\nvar x int\n-- docs/protocol.md --\n### I6 A property\n", "code cites rule I6: take it off"},
	},
	"the protocol names what is there": {
		{page("`Listen` (`store/gone.go`)", "`TestOnly`"), "there is no file store/gone.go"},
		{page("`Spoken` (`store/store.go`)", "`TestOnly`"), "rule L1 names Spoken, which none of the files beside it declares"},
		{page("`Listen` (`store/store.go`); finding `lost`", "`TestOnly`"), "rule L1 names the finding lost"},
		{page("`Listen` (`store/store.go`)", "`TestNothing`"), "rule L1 names TestNothing, which is no test"},
		{page("`Listen` (`store/store.go`)", "check L1"), "rule L1 names check L1, and there are none"},
		{page("`Listen` (`store/store.go`)", "mutants L2"), "rule L1 names mutants L2, and there are none"},
		{page("", "`TestOnly`"), "rule L1 needs a line each"},
		{page("`Listen` (`store/store.go`)", "`TestOnly`\n### L1 Again"), "rule L1 is there twice"},
	},
	"the protocol names every field": {
		{"-- internal/ledger/log.go --\npackage ledger\ntype TaskEntry struct{ Held map[int]*Part `json:\"held,omitempty\"` }\ntype Part struct{ Size int `json:\"size\"` }\n-- docs/protocol.md --\n## Entries\n`held`\n", `"size" of ledger.Part is in no table`},
		{"-- internal/ledger/log.go --\npackage ledger\ntype Join struct{ Rank int `json:\"rank\"` }\n", `"rank" of ledger.Join is in no table`},
	},
}

// manyMethods are those of a type big, one more than a type may have.
func manyMethods() (text string) {
	for i := range maxReceiver + 1 {
		text += fmt.Sprintf("func (*big[T]) m%d() {}\n", i)
	}
	return text
}

// longFiles are n files of package store with 700 lines each.
func longFiles(n int) (text string) {
	for i := range n {
		text += fmt.Sprintf("-- store/more%d.go --\npackage store\n", i) + strings.Repeat("//\n", 700)
	}
	return text
}

// page is the page of the protocol with one rule.
func page(code, proof string) string {
	return "-- docs/protocol.md --\n### L1 A rule\n- Without it: nothing.\n- In code: " + code + "\n- Proved by: " + proof + "\n"
}

func TestASoundHouseBreaksNoRule(t *testing.T) {
	t.Parallel()
	h := build(t, "-- store/more_test.go --\npackage store_test\nimport (\n\"testing/synctest\"\n\"time\"\n)\nvar _ = synctest.Wait\nfunc f() { time.Sleep(1) }\n", "linux")
	for _, rule := range rules {
		for _, sentence := range rule.check(h) {
			t.Errorf("%s: %s", rule.name, sentence)
		}
	}
}

func TestEveryRuleFindsWhatBreaksIt(t *testing.T) {
	t.Parallel()
	if len(broken) > len(rules) {
		t.Error("there are broken houses for a rule that is not on the list of rules")
	}
	for _, rule := range rules {
		if len(broken[rule.name]) == 0 {
			t.Errorf("rule %q has no broken house to prove that it fires", rule.name)
		}
		for _, c := range broken[rule.name] {
			t.Run(rule.name, func(t *testing.T) {
				t.Parallel()
				found := strings.Join(rule.check(build(t, c.files, "darwin")), "\n")
				if !strings.Contains(found, c.want) {
					t.Errorf("the house with\n%sis answered with\n  %q\nwant a sentence with\n  %q", c.files, found, c.want)
				}
			})
		}
	}
}

func TestEachSystemsImportsAreSeen(t *testing.T) {
	t.Parallel()
	h := build(t, "-- store/more_linux.go --\npackage store\nimport _ \"os\"\n"+
		"-- store/more_darwin.go --\npackage store\nimport _ \"io\"\n", "linux", "darwin")
	got := h.packages["example.org/d/store"].Imports
	if diff := cmp.Diff([]string{"example.org/d/fault", "io", "net", "os"}, got); diff != "" {
		t.Errorf("what store imports differs (-want +got):\n%s", diff)
	}
}

// build writes the sound house with changes and loads it. A file left empty is not written.
func build(t *testing.T, changes string, goos ...string) *house {
	t.Helper()
	root := t.TempDir()
	contents := map[string][]byte{}
	for _, text := range []string{sound, changes} {
		for _, f := range txtar.Parse([]byte(text)).Files {
			contents[f.Name] = f.Data
		}
	}
	for name, data := range contents {
		if strings.TrimSpace(string(data)) == "" {
			continue
		}
		where := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(where), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(where, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := load(root, goos...)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
