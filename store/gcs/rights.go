package gcs

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/oauth2/google/downscope"

	"github.com/drover-run/drover/store"
)

// grant is a role on the objects with names that begin in one of some ways; "" is every
// name. To list them too, listing.
type grant struct {
	title, role string
	names       []string // whole, the place's prefix included
	listing     bool
}

// grantsFor are what gives rights on this place and nothing else. Google counts the
// replacing of an object as deleting it, so the right to write includes deleting: no role of
// Google's replaces and does not.
func (p place) grantsFor(r store.Rights) (all []grant) {
	add := func(title, role string, listing bool, keys []string) {
		g := grant{title: title, role: "roles/storage." + role, listing: listing}
		for _, k := range keys {
			g.names = append(g.names, p.prefix+k)
		}
		if g.names != nil {
			all = append(all, g)
		}
	}
	add("drover-read", "objectViewer", true, r.Read)
	add("drover-create", "objectCreator", false, r.Create)
	write := slices.Concat(r.Write, r.Delete)
	slices.Sort(write)
	add("drover-write", "objectUser", false, slices.Compact(write))
	return all
}

// condition is the grant's in Google's words, which are those of CEL; "": none. Keys
// and buckets hold no character that would have to be quoted in them. listings are
// alternatives that let a listing pass.
func (g grant) condition(bucket string, listings ...string) string {
	if slices.Contains(g.names, "") {
		return ""
	}
	var terms []string
	for _, n := range g.names {
		terms = append(terms, fmt.Sprintf("resource.name.startsWith(%q)", "projects/_/buckets/"+bucket+"/objects/"+n))
	}
	if g.listing {
		terms = append(terms, listings...)
	}
	return strings.Join(terms, " || ")
}

// accessBoundary is the same for a token: the most that it may do, whatever its owner may.
// There, and only there, a listing can be told by its prefix.
func (p place) accessBoundary(r store.Rights) (rules []downscope.AccessBoundaryRule) {
	for _, g := range p.grantsFor(r) {
		rule := downscope.AccessBoundaryRule{AvailableResource: "//storage.googleapis.com/projects/_/buckets/" + p.name,
			AvailablePermissions: []string{"inRole:" + g.role}}
		var listings []string
		for _, n := range g.names {
			listings = append(listings, fmt.Sprintf(`api.getAttribute("storage.googleapis.com/objectListPrefix", "").startsWith(%q)`, n))
		}
		if c := g.condition(p.name, listings...); c != "" {
			rule.Condition = &downscope.AvailabilityCondition{Title: g.title, Expression: c}
		}
		rules = append(rules, rule)
	}
	return rules
}

// Policy is the commands that grant rights on this place and nothing else to an
// account, but for the names of all objects: a condition of the bucket's cannot tell
// one listing from another.
func (b *Bucket) Policy(r store.Rights) string {
	var text strings.Builder
	for _, g := range b.grantsFor(r) {
		fmt.Fprintf(&text, "gcloud storage buckets add-iam-policy-binding %s%s --member=serviceAccount:NAME@PROJECT.iam.gserviceaccount.com --role=%s", scheme, b.name, g.role)
		condition := "None" // gcloud asks where none is said
		if c := g.condition(b.name, fmt.Sprintf("resource.name == %q", "projects/_/buckets/"+b.name)); c != "" {
			condition = "'title=" + g.title + ",expression=" + c + "'"
		}
		fmt.Fprintf(&text, " --condition=%s\n", condition)
	}
	return text.String()
}
