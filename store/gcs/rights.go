package gcs

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/oauth2/google/downscope"

	"github.com/drover-run/drover/store"
)

// grant is a role on the objects with names that begin with one of names; "" is every name.
// With listing it may list them too.
type grant struct {
	title, role string
	names       []string // whole, the place's prefix included
	listing     bool
}

// grantsFor are the grants of rights on this place and nothing else. Google counts the
// replacing of an object as deleting it, so the right to write includes deleting: no role of
// Google's can replace and not delete.
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

// condition is the grant's condition in CEL, Google's language for it; "": none. Keys and
// buckets hold no character that would need quoting there. listings are alternatives that
// allow a listing.
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

// accessBoundary is the same for a token: the most that it may do, whatever its owner may. A
// listing can be limited to a prefix there, and nowhere else.
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

// Policy is the commands that grant an account rights on this place and nothing else, except
// that it may list the names of all objects: a condition of a bucket cannot tell one listing
// from another.
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
