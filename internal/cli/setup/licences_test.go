package setup

//go:generate go test . -count=1 -run ^TestTheLicencesAreThoseOfWhatIsLinked$ -licences

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var writeLicences = flag.Bool("licences", false, "write the list of licences")

// builtFor are the Makefile's SYSTEMS: what any of them links is on the list.
var builtFor = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64"}

// linkedModule is a module of which some package is linked.
type linkedModule struct {
	name string // with its version
	dir  string
	dirs map[string]bool // of the linked packages, and above them up to dir
}

// linkedModules returns what the program links, by module, beside the standard library.
func linkedModules(t *testing.T) map[string]*linkedModule {
	t.Helper()
	all := map[string]*linkedModule{}
	for _, system := range builtFor {
		goos, arch, _ := strings.Cut(system, "/")
		cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-tags", "grpcnotrace", "-json=Dir,Module", "../../../cmd/drover")
		cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH="+arch, "CGO_ENABLED=0")
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
			var p struct {
				Dir    string
				Module *struct {
					Path, Version, Dir string
					Main               bool
				}
			}
			if err := dec.Decode(&p); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatal(err)
			}
			if p.Module == nil || p.Module.Main {
				continue
			}
			m := all[p.Module.Path]
			if m == nil {
				m = &linkedModule{p.Module.Path + " " + p.Module.Version, p.Module.Dir, map[string]bool{}}
				all[p.Module.Path] = m
			}
			for dir := p.Dir; len(dir) >= len(m.dir); dir = filepath.Dir(dir) {
				m.dirs[dir] = true
			}
		}
	}
	// Of the same authors, under the same texts. Not read from GOROOT: not every package of
	// Go has them there, and the list is the same with every release of Go.
	sys := all["golang.org/x/sys"]
	if sys == nil {
		t.Fatal("golang.org/x/sys is not linked: take the licence of the standard library from elsewhere")
	}
	all[""] = &linkedModule{"The Go standard library and runtime", sys.dir, map[string]bool{sys.dir: true}}
	return all
}

// isLicence matches the names of files that have to go along with a program.
var isLicence = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([-._](apache|mit|bsd|isc|2\.0|go))*(\.(txt|md))?$`)

// texts returns the module's licences and notices by their names in it.
func (m *linkedModule) texts(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for dir := range m.dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			if !isLicence.MatchString(e.Name()) || !e.Type().IsRegular() {
				continue
			}
			b, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(m.dir, filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			found[filepath.ToSlash(name)] = plainLines(string(b))
		}
	}
	return found
}

// plainLines is a text without what differs between two copies of one licence.
func plainLines(text string) string {
	lines := strings.Split(strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r", ""), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " \t\f")
	}
	return strings.Trim(strings.Join(lines, "\n"), "\n") + "\n"
}

// licenceList is the whole list: each text once, behind the modules that have it.
func licenceList(t *testing.T) string {
	t.Helper()
	modules := linkedModules(t)
	users := map[string][]string{}
	for _, path := range slices.Sorted(maps.Keys(modules)) {
		m := modules[path]
		texts := m.texts(t)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(texts)), func(name string) bool {
			return !strings.Contains(name, "/") && !strings.HasPrefix(strings.ToLower(name), "notice")
		}) {
			t.Errorf("%s has no licence in its folder: find out what it is under before it is linked", m.name)
		}
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			users[texts[name]] = append(users[texts[name]], m.name+": "+name)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "drover is under the Apache License 2.0. It links %d modules of others and the Go standard library, which are under the\nlicences below. Made by go generate; do not edit.\n", len(modules)-1)
	for _, text := range slices.SortedFunc(maps.Keys(users), func(a, b string) int { return strings.Compare(users[a][0], users[b][0]) }) {
		fmt.Fprintf(&b, "\n%s\n", strings.Repeat("=", 100))
		for _, user := range users[text] {
			fmt.Fprintln(&b, user)
		}
		fmt.Fprintf(&b, "%s\n\n%s", strings.Repeat("-", 100), text)
	}
	return b.String()
}

// TestTheLicencesAreThoseOfWhatIsLinked: the list that drover version --licences prints is
// made from the modules that go.mod names now, on every system that drover is built for.
func TestTheLicencesAreThoseOfWhatIsLinked(t *testing.T) {
	t.Parallel()
	list := licenceList(t)
	if *writeLicences {
		if err := os.WriteFile("licences.txt", []byte(list), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(thirdParty, list); diff != "" {
		t.Errorf("licences.txt is not up to date; run: go generate ./internal/cli\n%.2000s", diff)
	}
	for _, want := range []string{"github.com/klauspost/compress ", ": zstd/internal/xxhash/LICENSE.txt", "github.com/aws/aws-sdk-go-v2 ", ": NOTICE.txt", "The Go standard library and runtime: LICENSE", "golang.org/x/sys "} {
		if !strings.Contains(list, want) {
			t.Errorf("%q is not on the list", want)
		}
	}
	if makefile, err := os.ReadFile("../../../Makefile"); err != nil || !strings.Contains(string(makefile), "SYSTEMS := linux/amd64 linux/arm64 darwin/arm64 darwin/amd64\n") {
		t.Errorf("the Makefile builds for other systems than the list is made for: %v", err)
	}
}
