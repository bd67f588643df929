package cli

//go:generate go test . -count=1 -run ^TestTheReferenceIsThatOfTheCommands$ -reference

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/cli/app"
	"github.com/drover-run/drover/internal/cli/manual"
	"github.com/drover-run/drover/internal/cli/ssm"
)

var reference = flag.Bool("reference", false, "write docs/reference.md anew")

const referenceFile = "../../docs/reference.md"

// helpOf is what "drover help NAME" prints; "" is the front page.
func helpOf(t *testing.T, name string) string {
	t.Helper()
	var out bytes.Buffer
	a := &app.App{Out: &out, Err: io.Discard}
	root := newCommandTree(a).newRoot()
	root.SetArgs(strings.Fields("help " + name))
	if err := root.Execute(); err != nil {
		t.Fatalf("drover help %s: %v", name, err)
	}
	return out.String()
}

// verbs are the names of the commands, in the order of the alphabet.
func verbs(t *testing.T) (names []string) {
	t.Helper()
	for _, c := range newCommandTree((&app.App{})).newRoot().Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	if len(names) == 0 {
		t.Fatal("there are no verbs")
	}
	return names
}

func renderReference(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	b.WriteString("# Command reference\n\nMade from the commands themselves by `go generate ./...`; a test fails when it is stale. " +
		"Every page here is what `drover help` prints.\n\n")
	page := func(title, text string) { fmt.Fprintf(&b, "## %s\n\n```text\n%s```\n\n", title, text) }
	page("drover", helpOf(t, ""))
	for _, verb := range verbs(t) {
		page("drover "+verb, helpOf(t, verb))
	}
	for _, verb := range ssm.Verbs {
		page("ssm "+string(verb), helpOf(t, "ssm "+string(verb)))
	}
	for _, topic := range slices.Sorted(maps.Keys(manual.Topics)) {
		page("drover help "+topic, helpOf(t, topic))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

func TestTheReferenceIsThatOfTheCommands(t *testing.T) {
	want := renderReference(t)
	if *reference {
		if err := os.WriteFile(referenceFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(referenceFile)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("docs/reference.md is stale; run: go generate ./internal/cli\n%s", diff)
	}
}

func TestTheFrontPageNamesEveryVerbAndTopic(t *testing.T) {
	words := strings.FieldsFunc(manual.Front, func(r rune) bool { return strings.ContainsRune(" ,;.\n", r) })
	for _, name := range append(verbs(t), slices.Collect(maps.Keys(manual.Topics))...) {
		if !slices.Contains(words, name) {
			t.Errorf("drover help does not name %s", name)
		}
	}
}
