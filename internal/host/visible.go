package host

import (
	"slices"
	"strconv"
	"strings"
)

// visibleNames splits a CUDA_VISIBLE_DEVICES as CUDA does: up to the first that
// can name nothing, as "-1" and "NoDevFiles", or is of another kind than those
// before. One that stands there twice makes CUDA see nothing at all.
func visibleNames(value string) []string {
	var names []string
	for name := range strings.SplitSeq(value, ",") {
		name = strings.TrimSpace(name)
		if i, err := strconv.Atoi(name); err == nil {
			name = strconv.Itoa(i) // "02" is "2"
		}
		if kind(name) == "" || len(names) > 0 && kind(name) != kind(names[0]) {
			break
		}
		if slices.Contains(names, name) {
			return nil
		}
		names = append(names, name)
	}
	return names
}

// kind is how a name says which GPU it means; "" when it does not.
func kind(name string) string {
	switch i, err := strconv.Atoi(name); {
	case err == nil && i >= 0:
		return "index"
	case strings.HasPrefix(name, "GPU-"), strings.HasPrefix(name, "MIG-"):
		return name[:len("GPU-")]
	}
	return ""
}

// visible keeps the cards and MIG devices that a CUDA_VISIBLE_DEVICES names, in
// their own order. What names none, or begins the UUIDs of several, ends the
// list. The name of a GPU that is cut into MIG devices stands for all of them.
func visible(cards []card, value string) (kept []card) {
	named := map[GPU]bool{}
	for _, name := range visibleNames(value) {
		var found []GPU
		for _, c := range cards {
			found = append(found, c.gpusNamed(name)...)
		}
		if len(found) != 1 {
			break
		}
		named[found[0]] = true
	}
	for _, c := range cards {
		if !named[c.GPU] {
			c.devices = slices.DeleteFunc(slices.Clone(c.devices), func(d GPU) bool { return !named[d] })
			if len(c.devices) == 0 {
				continue
			}
		}
		kept = append(kept, c)
	}
	return kept
}

// gpusNamed gives what a name means of this card: the GPU itself or MIG devices of it.
func (c card) gpusNamed(name string) (found []GPU) {
	switch kind(name) {
	case "index":
		if strconv.Itoa(c.Index) == name {
			found = append(found, c.GPU)
		}
	case "GPU-":
		if strings.HasPrefix(c.UUID, name) {
			found = append(found, c.GPU)
		}
	case "MIG-":
		for _, d := range c.devices {
			if strings.HasPrefix(d.UUID, name) {
				found = append(found, d)
			}
		}
	}
	return found
}
