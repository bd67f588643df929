package house_test

import (
	"fmt"
	"go/version"
	"maps"
	"path"
	"slices"
	"strings"
)

// upward holds the arrows we allow against the picture, and why. One that no
// package uses any more is itself a finding, so the list only shrinks.
var upward = map[[2]string]string{
	{"job", "fault"}: "a noun refuses with a fault: kind and remedy are known where the rule is, and fault stands on nothing",
}

// public is every room that other programs may import: a promise each. All else is internal.
var public = []string{"cmd/drover", "program", "drover", "cloud", "driver", "fault", "job", "report", "store"}

// suites prove drivers and buckets; they are not drivers and buckets themselves.
var suites = []string{"driver/drivertest", "store/storetest"}

// clouds begin the import paths of the SDKs that stay behind drivers and buckets.
var clouds = []string{
	"cloud.google.com/go", "github.com/Azure/", "github.com/aws/", "github.com/docker/docker", "github.com/moby/moby",
	"google.golang.org/api", "google.golang.org/genproto", "k8s.io/", "sigs.k8s.io/",
}

// templateUsers may import templates, though not link them: the linker drops what
// nothing reaches, and `make check` counts what is left.
var templateUsers = map[string]string{
	"github.com/spf13/cobra": "only in the branch for custom usage templates, which nothing of ours sets",
	"html/template":          "it is built on text/template; who imports it is what counts",
}

func everyPackageLoads(h *house) (found []string) {
	for _, name := range slices.Sorted(maps.Keys(h.packages)) {
		if p := h.packages[name]; p.Error != nil {
			found = append(found, fmt.Sprintf("package %s does not load: %s", name, p.Error.Err))
		}
	}
	if len(h.ours()) == 0 {
		found = append(found, "no package of ours was found; the list of packages is empty")
	}
	return found
}

func arrowsPointDown(h *house) (found []string) {
	used := map[[2]string]bool{}
	for _, p := range h.ours() {
		from := h.room(p.ImportPath)
		floor, drawn := h.floors[from]
		for _, imported := range p.Imports {
			to := h.room(imported)
			if !drawn || !h.own(imported) || to == from {
				continue // what is undrawn is everyRoomIsDrawn's to say
			}
			below, known := h.floors[to]
			if !known || below < floor {
				continue
			}
			if upward[[2]string{from, to}] != "" {
				used[[2]string{from, to}] = true
				continue
			}
			where := "sideways"
			if below > floor {
				where = "upwards"
			}
			found = append(found, fmt.Sprintf("%s imports %s, %s: %s is on floor %d and %s on floor %d, and a package imports only lower floors and its own folder",
				h.folder(p.ImportPath), h.folder(imported), where, from, floor, to, below))
		}
	}
	for arrow := range upward {
		if !used[arrow] && h.drawnAndBuilt(arrow[0]) {
			found = append(found, fmt.Sprintf("the exception %s -> %s is used by no package any more: take it off the list upward", arrow[0], arrow[1]))
		}
	}
	return found
}

func (h *house) drawnAndBuilt(room string) bool {
	return slices.ContainsFunc(h.ours(), func(p *pkg) bool { return h.room(p.ImportPath) == room })
}

func everyRoomIsDrawn(h *house) (found []string) {
	for _, p := range h.ours() {
		room := h.room(p.ImportPath)
		if _, drawn := h.floors[room]; drawn || h.isTool(p) {
			continue
		}
		found = append(found, fmt.Sprintf("%s is in the code and not in the picture: draw room %q in ARCHITECTURE.md, or move the package into a room",
			h.folder(p.ImportPath), room))
	}
	return found
}

func onlyPromisesArePublic(h *house) (found []string) {
	for _, p := range h.ours() {
		folder := h.folder(p.ImportPath)
		if strings.HasPrefix(folder, "internal/") || slices.Contains(public, h.room(p.ImportPath)) || h.isTool(p) {
			continue
		}
		found = append(found, fmt.Sprintf("%s can be imported by anybody: move it below internal/, or make it a promise in the list public", folder))
	}
	return found
}

func groundStandsOnTheStandardLibrary(h *house) (found []string) {
	for _, p := range h.ours() {
		if floor, drawn := h.floors[h.room(p.ImportPath)]; !drawn || floor != 0 {
			continue
		}
		for _, imported := range p.Imports {
			if q := h.packages[imported]; h.own(imported) || (q != nil && q.Standard) {
				continue
			}
			found = append(found, fmt.Sprintf("%s imports %s: floor 0 uses the standard library alone", h.folder(p.ImportPath), imported))
		}
	}
	return found
}

// concrete says whether a folder is one driver, bucket or host among several.
func concrete(folder string) bool {
	if slices.Contains(suites, folder) || folder == "driver/remote" { // it is part of many drivers
		return false
	}
	parent := path.Dir(strings.TrimPrefix(folder, "internal/"))
	return parent == "driver" || parent == "store" || parent == "host"
}

func onlyTheMainPicks(h *house) (found []string) {
	for _, p := range h.ours() {
		from := h.room(p.ImportPath)
		for _, imported := range p.Imports {
			if !h.own(imported) || !concrete(h.folder(imported)) || from == h.room(imported) || from == "cmd/drover" || from == "program" && h.room(imported) != "driver" {
				continue
			}
			found = append(found, fmt.Sprintf("%s imports %s: only cmd/drover names a concrete driver, and only program a bucket or host; take the interface, and let cmd hand it in",
				h.folder(p.ImportPath), h.folder(imported)))
		}
	}
	return found
}

// builds says whether a package is there and holds production code.
func (h *house) builds(importPath string) bool {
	p := h.packages[importPath]
	return p != nil && len(p.GoFiles) > 0
}

func theSDKLinksNoCloud(h *house) (found []string) {
	sdk := h.module + "/drover"
	if !h.builds(sdk) {
		return []string{"package drover is not there, so nothing says what it links"}
	}
	for name := range h.links(sdk) {
		for _, cloud := range clouds {
			if strings.HasPrefix(name, cloud) {
				found = append(found, fmt.Sprintf("package drover links %s: a cloud's SDK stays in its driver's or bucket's folder", name))
			}
		}
	}
	return found
}

func noTemplatesAreLinked(h *house) (found []string) {
	command := h.module + "/cmd/drover"
	if !h.builds(command) {
		return []string{"cmd/drover is not there, so nothing says what the program links"}
	}
	for name, p := range h.links(command) {
		for _, imported := range p.Imports {
			if (imported == "text/template" || imported == "html/template") && templateUsers[name] == "" {
				found = append(found, fmt.Sprintf("%s imports %s, and cmd/drover links it: templates keep every method of every SDK alive", name, imported))
			}
		}
	}
	return found
}

func everyPackageIntroducesItself(h *house) (found []string) {
	for _, p := range h.ours() {
		if p.Doc == "" {
			found = append(found, fmt.Sprintf("%s has no package comment: say what it does, what it refuses to know, and who proves it", h.folder(p.ImportPath)))
		}
	}
	return found
}

// emptyWords name packages that collect what has no place.
var emptyWords = []string{"util", "utils", "common", "types", "models", "helpers", "pkg"}

func packagesHavePlainNames(h *house) (found []string) {
	for _, p := range h.ours() {
		for _, word := range append(strings.Split(h.folder(p.ImportPath), "/"), p.Name) {
			if slices.Contains(emptyWords, word) {
				found = append(found, fmt.Sprintf("%s is named %q, which says nothing: name it for what it does", h.folder(p.ImportPath), word))
				break
			}
		}
	}
	return found
}

// direct gives the modules we name ourselves: required by go.mod for our own use,
// imported by our code or its tests, or providing a tool.
func (h *house) direct() map[string]bool {
	modules := map[string]bool{}
	for _, r := range h.requires {
		if !r.Indirect {
			modules[r.Path] = true
		}
		for _, tool := range h.tools {
			if tool == r.Path || strings.HasPrefix(tool, r.Path+"/") {
				modules[r.Path] = true
			}
		}
	}
	for _, p := range h.packages {
		if !h.own(p.ImportPath) {
			continue
		}
		for _, imported := range slices.Concat(p.Imports, p.TestImports, p.XTestImports) {
			if q := h.packages[imported]; q != nil && q.Module != nil && !q.Module.Main {
				modules[q.Module.Path] = true
			}
		}
	}
	return modules
}

// leastGo is the first release in which os.Root, through which archives and trees are
// written, has no escape that is known on Linux and macOS. 1.26.5 mends a link followed
// by a trailing slash (CVE-2026-39822), 1.26.2 Root.Chmod (GO-2026-4864), 1.26.1 ReadDir
// (CVE-2026-27139).
const leastGo = "go1.26.5"

// goHasTheFixesWeRelyOn: go.mod names that release, so that the go command refuses an older
// one, and the release at hand is not older.
func goHasTheFixesWeRelyOn(h *house) (found []string) {
	if version.Compare(h.goLine, leastGo) < 0 {
		found = append(found, fmt.Sprintf("go.mod names %s: os.Root has known escapes before %s, so say go %s", h.goLine, leastGo, leastGo[len("go"):]))
	}
	// A release may have a note behind it: "go1.26.5 X:nodwarf5".
	if at, _, _ := strings.Cut(h.running, " "); version.IsValid(at) && version.Compare(at, leastGo) < 0 {
		found = append(found, fmt.Sprintf("this is %s: os.Root has known escapes before %s, so install that or a newer one", at, leastGo))
	}
	return found
}

func everyDependencyIsExplained(h *house) (found []string) {
	explained := map[string]bool{}
	for line := range strings.Lines(h.deps) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		name := strings.TrimSpace(cells[0])
		if !strings.HasPrefix(name, "`") {
			continue // prose, and the head of the table
		}
		name = strings.Trim(name, "`")
		explained[name] = true
		if len(cells) != 4 || slices.ContainsFunc(cells, func(c string) bool { return strings.TrimSpace(c) == "" }) {
			found = append(found, fmt.Sprintf("docs/deps.md: the line of %s needs four cells: module, why, licence, way out", name))
		}
	}
	direct := h.direct()
	for _, name := range slices.Sorted(maps.Keys(direct)) {
		if !explained[name] {
			found = append(found, fmt.Sprintf("docs/deps.md has no line for %s, which we depend on: say why, its licence, and the way out", name))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(explained)) {
		if !direct[name] {
			found = append(found, fmt.Sprintf("docs/deps.md explains %s, which we do not depend on directly: take the line out", name))
		}
	}
	return found
}
