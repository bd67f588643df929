package ledger

import (
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/drover-run/drover/internal/ledger/commitseed"
)

var rareToo = flag.Bool("rare", false, "play the mutants, too, that need many worlds: an hour")

// share picks a third of the mutants, so that each commit plants others.
var share = flag.Int("share", commitseed.Third(), "of all mutants plant only those of one third: 1, 2 or 3; 0: all")

// isShared says whether a mutant, by its number, is of the share.
func isShared(n int) bool { return *share == 0 || n%3 == *share%3 }

// noteWorlds writes testdata/mutantworlds.txt anew: for each mutant the first world that notices
// it. A mutant is played in that world first, which takes a moment, and only where that does not
// notice it any more in all worlds of a normal run.
var noteWorlds = flag.Bool("mutantworlds", false, "write the first world that notices each mutant in testdata/mutantworlds.txt anew")

// campaign is a table of mutants and the simulation that must find them.
type campaign struct {
	mutants []mutant
	test    string         // its name
	from    string         // its flag for how many worlds are left out first
	seeds   string         // its flag for how many worlds
	normal  int            // worlds of a normal run
	rare    map[string]int // mutants by name that a normal run may not catch, and worlds that do
}

// TestMutants plants the mutants into a copy of the source and demands that the
// simulator finds each of them within the worlds of a normal run.
func TestMutants(t *testing.T) {
	t.Parallel() // each waits for programs that it starts
	campaign{mutants, "TestSimulation", "-from", "-seeds", normalSeeds, nil}.run(t)
}

// TestMapMutants is the same for maps.
func TestMapMutants(t *testing.T) {
	t.Parallel() // each waits for programs that it starts
	campaign{mapMutants, "TestMapSimulation", "-mapfrom", "-mapseeds", normalMapSeeds, rareMapMutants}.run(t)
}

func (c campaign) run(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the simulator once more")
	}
	bin := build(t, c.plant(t))
	if out, err := c.play(bin, 0, 0, 100); err != nil {
		t.Fatalf("without a mutant: %v\n%.2000s", err, out)
	}
	found := regexp.MustCompile(`seed (\d+): (\w+)`)
	known, noted := c.knownWorlds(t), map[string]int{}
	for i, m := range c.mutants {
		t.Run(fmt.Sprintf("%s %s", m.rule, m.what), func(t *testing.T) {
			if !isShared(i) {
				t.Skip("another commit plays it, and test-long")
			}
			worlds := c.normal
			if n, rare := c.rare[m.what]; rare {
				if worlds = n; !*rareToo {
					t.Skip("-rare plays it")
				}
			}
			if world := known[m.what]; world > 0 && !*noteWorlds {
				if out, err := c.play(bin, i+1, world-1, 1); err != nil && found.Match(out) {
					return
				}
			}
			out, err := c.play(bin, i+1, 0, worlds)
			hits := found.FindAllSubmatch(out, -1)
			if err == nil || len(hits) == 0 {
				t.Fatalf("not noticed in %d worlds (%v):\n%.2000s", worlds, err, out)
			}
			first, as := math.MaxInt, ""
			for _, hit := range hits { // several worlds are played at once
				if n, err := strconv.Atoi(string(hit[1])); err == nil && n < first {
					first, as = n, string(hit[2])
				}
			}
			t.Logf("| %s | %s | %s | %d |", m.rule, m.what, as, first)
			noted[m.what] = first
		})
	}
	if *noteWorlds {
		c.writeKnownWorlds(t, noted)
	}
}

// worldsFile has a line for each mutant: the test, the world, and what the mutant is.
const worldsFile = "testdata/mutantworlds.txt"

// knownWorlds are the worlds that noticed the mutants of this campaign.
func (c campaign) knownWorlds(t *testing.T) map[string]int {
	t.Helper()
	known := map[string]int{}
	text, err := os.ReadFile(worldsFile)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(line), " ", 3); len(f) == 3 && f[0] == c.test {
			known[f[2]], _ = strconv.Atoi(f[1]) // 0: all worlds are played
		}
	}
	return known
}

var worldsMu sync.Mutex // two campaigns write one file

// writeKnownWorlds puts worlds in the place of those that the file has of this campaign.
func (c campaign) writeKnownWorlds(t *testing.T, worlds map[string]int) {
	t.Helper()
	worldsMu.Lock()
	defer worldsMu.Unlock()
	text, err := os.ReadFile(worldsFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(slices.Collect(strings.Lines(string(text))), func(l string) bool { return strings.HasPrefix(l, c.test+" ") })
	for what, world := range worlds {
		lines = append(lines, fmt.Sprintf("%s %d %s\n", c.test, world, what))
	}
	slices.Sort(lines)
	if err := os.WriteFile(worldsFile, []byte(strings.Join(lines, "")), 0o644); err != nil {
		t.Fatal(err)
	}
}

// play runs the simulator with mutant n, 0 is the sound source, in so many worlds after the first
// from.
func (c campaign) play(bin string, n, from, worlds int) ([]byte, error) {
	cmd := exec.Command(bin, "-test.run", "^"+c.test+"$", c.from, fmt.Sprint(from), c.seeds, fmt.Sprint(worlds))
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", mutantVariable, n))
	return cmd.CombinedOutput()
}

// mutantVariable says which mutant a planted build is.
const mutantVariable = "DROVER_MUTANT"

// build compiles this package's tests with an overlay: real path -> what stands
// for it.
func build(t *testing.T, overlay map[string]string) string {
	t.Helper()
	return buildTests(t, ".", overlay)
}

// buildTests compiles those of a package.
func buildTests(t *testing.T, pkg string, overlay map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	plan, bin := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "mutants.test")
	if err := os.WriteFile(plan, text, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "test", "-c", "-vet=off", "-overlay", plan, "-o", bin, pkg)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("the mutants do not compile: %v\n%s", err, out)
	}
	return bin
}

// plant makes an overlay of the source with all mutants in it. Each function that
// is changed is there once sound and once for every mutant, behind a switch. So
// the simulator is compiled once, and the real source holds no switch.
func (c campaign) plant(t *testing.T) map[string]string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	byFile := map[string][]int{}
	for i, m := range c.mutants {
		byFile[m.file] = append(byFile[m.file], i)
	}
	dir, overlay := t.TempDir(), map[string]string{}
	lay := func(path, text string) {
		file := filepath.Join(dir, strings.ReplaceAll(strings.TrimPrefix(path, root), string(filepath.Separator), "_"))
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[path] = file
	}
	for _, name := range slices.Sorted(maps.Keys(byFile)) {
		path := filepath.Join(root, filepath.FromSlash(name))
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		text, pkg := c.plantIn(t, name, string(src), byFile[name])
		lay(path, text)
		lay(filepath.Join(filepath.Dir(path), "planted.go"), fmt.Sprintf(`package %s
import ("os"; "strconv")
var mutantNow, _ = strconv.Atoi(os.Getenv(%q))
`, pkg, mutantVariable))
	}
	return overlay
}

// plantIn plants the mutants of one file.
func (c campaign) plantIn(t *testing.T, name, src string, which []int) (text, pkg string) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	offset := func(p token.Pos) int { return set.Position(p).Offset }
	in := map[*ast.FuncDecl][]int{}
	for _, i := range which {
		if n := strings.Count(src, c.mutants[i].old); n != 1 {
			t.Fatalf("%s holds the text of mutant %q %d times, want once: %s", name, c.mutants[i].what, n, c.mutants[i].old)
		}
		at := strings.Index(src, c.mutants[i].old)
		d := slices.IndexFunc(file.Decls, func(d ast.Decl) bool {
			_, ok := d.(*ast.FuncDecl)
			return ok && offset(d.Pos()) <= at && at < offset(d.End())
		})
		if d < 0 {
			t.Fatalf("%s: mutant %q changes no function", name, c.mutants[i].what)
		}
		f := file.Decls[d].(*ast.FuncDecl)
		in[f] = append(in[f], i)
	}
	for _, d := range slices.Backward(file.Decls) { // from the end, so that offsets stay true
		f, ok := d.(*ast.FuncDecl)
		if !ok || in[f] == nil {
			continue
		}
		begin, end := offset(f.Pos()), offset(f.End())
		src = src[:begin] + c.switched(f, src[begin:end], offset(f.Name.Pos())-begin, offset(f.Body.Pos())-begin, in[f]) + src[end:]
	}
	return src, file.Name.Name
}

// switched is a function's text, once sound and once for each mutant, and one of
// its name that chooses.
func (c campaign) switched(f *ast.FuncDecl, text string, name, body int, which []int) string {
	called := func(suffix, text string) string {
		at := name + len(f.Name.Name)
		return text[:at] + suffix + text[at:]
	}
	call := f.Name.Name + "%s(" + strings.Join(arguments(f), ", ") + ")"
	if f.Recv != nil {
		call = f.Recv.List[0].Names[0].Name + "." + call
	}
	if f.Type.Results != nil {
		call = "return " + call
	} else {
		call += "; return"
	}
	all := called("Sound", text)
	chooser := text[:body] + "{\nswitch mutantNow {\n"
	for _, i := range which {
		suffix := fmt.Sprintf("Mutant%d", i+1)
		all += "\n" + called(suffix, strings.Replace(text, c.mutants[i].old, c.mutants[i].new, 1))
		chooser += fmt.Sprintf("case %d: "+call+"\n", i+1, suffix)
	}
	return all + "\n" + chooser + "}\n" + fmt.Sprintf(call, "Sound") + "\n}"
}

// arguments are the names by which a function hands its parameters on.
func arguments(f *ast.FuncDecl) (names []string) {
	for _, p := range f.Type.Params.List {
		_, many := p.Type.(*ast.Ellipsis)
		for _, n := range p.Names {
			if many {
				names = append(names, n.Name+"...")
				continue
			}
			names = append(names, n.Name)
		}
	}
	return names
}
