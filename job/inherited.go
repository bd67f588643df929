package job

import (
	"errors"
	"fmt"
	"slices"

	"github.com/drover-run/drover/job/secret"
)

// Inherited are the environment variables that a program has from the command that asked
// for its agents. Their values are not kept: of each there is a digest that can be made
// again with a key of the submitting user on the submitting machine alone, so that a
// second command there can tell which of them differ.
type Inherited struct {
	// Key names the key that the digests were made with; it is none of its bytes.
	Key     string            `json:"key"`
	Digests map[string]string `json:"digests,omitempty"` // by the variable's name
}

// The bounds of what is kept of variables. A command may have more: the rest is not
// compared.
const (
	MaxInherited     = 2048
	maxInheritedName = 256
	inheritedDigest  = 64
)

// Differ are the names of variables that two commands have with other values, or only one
// of them has, in order. known is false where that cannot be told: the digests were not
// made with one key, on one machine by one user.
func (i *Inherited) Differ(o *Inherited) (names []string, known bool) {
	if i == nil || o == nil || i.Key != o.Key {
		return nil, false
	}
	return ChangedNames(i.Digests, o.Digests), true
}

// Without leaves the variables of these names out.
func (i *Inherited) Without(names map[string]string) *Inherited {
	if i == nil {
		return nil
	}
	rest := &Inherited{Key: i.Key, Digests: map[string]string{}}
	for name, digest := range i.Digests {
		if _, ok := names[name]; !ok {
			rest.Digests[name] = digest
		}
	}
	return rest
}

// Check refuses what no submit writes.
func (i *Inherited) Check() error {
	if i == nil {
		return nil
	}
	if len(i.Digests) > MaxInherited {
		return fmt.Errorf("it has digests of %d variables, at most %d", len(i.Digests), MaxInherited)
	}
	if len(i.Key) > inheritedDigest {
		return errors.New("the name of its key is too long")
	}
	for name, digest := range i.Digests {
		if !InheritedName(name) || len(digest) > inheritedDigest {
			return fmt.Errorf("%.80q is no digest of a variable", name)
		}
	}
	return nil
}

// InheritedName says whether a variable's name is one that is compared: a name as shells
// have them, since no shell hands on any other.
func InheritedName(name string) bool {
	return len(name) <= maxInheritedName && secret.ValidVariable(name)
}

// ChangedNames are the keys that two maps do not have in common, or with other values,
// in order.
func ChangedNames(a, b map[string]string) (names []string) {
	for k, v := range a {
		if w, ok := b[k]; !ok || w != v {
			names = append(names, k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names
}
