package image

import (
	_ "embed"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/drover-run/drover/fault"
)

// DefaultRegion is the region of the registry when nothing says another: the one
// that has every framework's image.
const DefaultRegion = "us-east-1"

// frameworks.json is made from the training tables of SageMaker's Python SDK
// (sagemaker-core 2.27.0, image_uri_config, Apache-2.0): which versions there
// are, in which account's registry, in which regions.
//
//go:embed frameworks.json
var frameworksJSON []byte

// shelf is one published version of a framework.
type shelf struct {
	Version    string   `json:"version"`
	Base       string   `json:"base"` // "pytorch2.8.0", of an image that is built on another framework
	Repository string   `json:"repository"`
	Python     []string `json:"python"`
	System     string   `json:"system"` // "cu129-ubuntu22.04", where the tag needs it
	Processors []string `json:"processors"`
	Accounts   string   `json:"accounts"` // which table of accounts
	Regions    string   `json:"regions"`  // which list of regions
}

type shelves struct {
	Suffixes   map[string]string            `json:"suffixes"` // of a region's name, by its beginning
	Accounts   map[string]map[string]string `json:"accounts"` // account -> regions
	Regions    map[string]string            `json:"regions"`
	Frameworks map[string][]shelf           `json:"frameworks"` // oldest version first
}

// published reads the table at its first use: a program that names no framework
// never pays for it.
var published = sync.OnceValues(func() (*shelves, error) {
	s := &shelves{}
	return s, json.Unmarshal(frameworksJSON, s)
})

// Framework is the URI of a prebuilt training image: NAME, NAME:VERSION or
// NAME:VERSION:PYTHON. What is left out is the newest; a version may be cut
// short ("2.8"). With a mirror the registry's host is the mirror's prefix, and
// the region is not asked.
func Framework(words string, site Site) (string, error) {
	all, err := published()
	if err != nil {
		return "", fault.Wrap(err, fault.Bug, "", "read the table of frameworks")
	}
	name, rest, _ := strings.Cut(strings.ToLower(words), ":")
	version, python, _ := strings.Cut(rest, ":")
	versions, ok := all.Frameworks[name]
	if !ok {
		names := sortedKeys(all.Frameworks)
		hint := "The frameworks are " + strings.Join(names, ", ") + "; any other image is named with `--image`."
		if near := fault.Nearest(name, names); near != "" {
			hint = "Did you mean " + near + "?"
		}
		return "", fault.New(fault.Invalid, hint, "resolve framework %q: %q has no prebuilt images", words, name)
	}
	s, python, err := pick(words, versions, version, python)
	if err != nil {
		return "", err
	}
	processor, err := s.processor(words, site)
	if err != nil {
		return "", err
	}
	image := s.Repository + ":" + s.imageTag(processor, python)
	if site.Mirror != "" {
		return strings.TrimSuffix(site.Mirror, "/") + "/" + image, nil
	}
	host, err := all.registryHost(words, s, site.Region)
	if err != nil {
		return "", err
	}
	return host + "/" + image, nil
}

// pick is the newest version that answers what was asked, and its Python.
func pick(words string, versions []shelf, version, python string) (shelf, string, error) {
	var known []string
	for _, s := range slices.Backward(versions) {
		if version != "" && s.Version != version && !strings.HasPrefix(s.Version, version+".") && !strings.HasPrefix(s.Version, version+"-") {
			known = append(known, s.Version)
			continue
		}
		switch {
		case python == "" && len(s.Python) == 0:
			return s, "", nil
		case python == "":
			return s, s.Python[len(s.Python)-1], nil
		case slices.Contains(s.Python, python):
			return s, python, nil
		}
		known = append(known, s.Version+" for "+strings.Join(s.Python, " and "))
	}
	known = slices.Compact(known)
	if len(known) > 6 {
		known = known[:6]
	}
	return shelf{}, "", fault.New(fault.Invalid, "The newest are "+strings.Join(known, ", ")+".", "resolve framework %q: no prebuilt image has that version and Python", words)
}

// processor follows the machine's family, then the GPUs.
func (s shelf) processor(words string, site Site) (string, error) {
	if len(s.Processors) == 0 {
		return "", nil
	}
	want := "cpu"
	switch family := Family(site.Machine); {
	case strings.HasPrefix(family, "inf"), strings.HasPrefix(family, "trn"):
		return "", fault.New(fault.Invalid, "Name the image itself with `--image`.", "resolve framework %q: the images for %s have rules of their own", words, site.Machine)
	case strings.HasPrefix(family, "g"), strings.HasPrefix(family, "p"), site.GPUs > 0:
		want = "gpu"
	}
	if len(s.Processors) == 1 {
		return s.Processors[0], nil // one for all machines, as the SDK answers
	}
	if slices.Contains(s.Processors, want) {
		return want, nil
	}
	return "", fault.New(fault.Invalid, "", "resolve framework %q: no image for %s", words, want)
}

// Family is "p3" of "ml.p3.2xlarge", and of "p3.2xlarge"; "" of neither.
func Family(machine string) string {
	family, size, ok := strings.Cut(strings.TrimPrefix(machine, "ml."), ".")
	if !ok || size == "" {
		return ""
	}
	return family
}

// imageTag is what stands behind the repository's name.
func (s shelf) imageTag(processor, python string) string {
	version := s.Version
	if s.Base != "" {
		version = strings.TrimLeft(s.Base, "abcdefghijklmnopqrstuvwxyz") + "-transformers" + s.Version
	}
	parts := []string{version}
	for _, p := range []string{processor, python, s.System} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "-")
}

// registryHost is the registry that has s in a region.
func (all *shelves) registryHost(words string, s shelf, region string) (string, error) {
	if region == "" {
		region = DefaultRegion
	}
	regions := strings.Fields(all.Regions[s.Regions])
	if !slices.Contains(regions, region) {
		hint := "Set AWS_REGION to one that has it, such as " + DefaultRegion + ", or image_mirror to a registry of yours."
		if near := fault.Nearest(region, regions); near != "" {
			hint = "Did you mean " + near + "?"
		}
		return "", fault.New(fault.Invalid, hint, "resolve framework %q: region %q has no image of it", words, region)
	}
	suffix := "amazonaws.com"
	for beginning, other := range all.Suffixes {
		if strings.HasPrefix(region, beginning) {
			suffix = other
		}
	}
	for account, in := range all.Accounts[s.Accounts] {
		if slices.Contains(strings.Fields(in), region) {
			return account + ".dkr.ecr." + region + "." + suffix, nil
		}
	}
	return "", fault.New(fault.Bug, "", "resolve framework %q: no account in %s", words, region)
}

// Frameworks are the names that Framework knows.
func Frameworks() []string {
	all, err := published()
	if err != nil {
		return nil
	}
	return sortedKeys(all.Frameworks)
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
