// Package source is what the items of a map say, as their programs are told it: which
// manifest has an item, its command, its variables or its line of JSON, and the files that it
// names. A Fetcher brings these to this machine.
//
// It refuses to know tries, slots and results. Proved by its tests, and by those of package
// maprunner, over real manifests.
package source

import (
	"context"
	"slices"

	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Manifests finds what an item's number stands for: the job's manifest, or one that
// extended it.
type Manifests struct {
	store   *store.Store
	job     job.Job
	args    []string // of the program, with placeholders
	sources []*Source
}

// Source is one manifest, and the command for its items.
type Source struct {
	*manifest.Reader
	Command *template.Template
	Format  string // lines, csv or jsonl
	fields  []string
	vars    []string // by field, the beginning of its variable; "": it has none
	fetches []int    // the fields that may name a file to fetch, or wholeItem; nil: nothing is fetched
	places  []string // of the manifest, then of the job's: the first that names a bucket opens it
}

// NewManifests makes the manifests of a job; args are its program's.
func NewManifests(s *store.Store, j job.Job, args []string) *Manifests {
	return &Manifests{store: s, job: j, args: args}
}

// SourceOfItem is the source of item n.
func (h *Manifests) SourceOfItem(ctx context.Context, m *chunks.Map, n int) (*Source, error) {
	for _, s := range h.sources {
		if s.First() <= n && n <= s.Last() {
			return s, nil
		}
	}
	list, first := m.Base, 1
	for _, x := range m.Extensions {
		if x.Fact.First <= n {
			list, first = x.Fact.Manifest, x.Fact.First
		}
	}
	r, err := manifest.OpenStored(ctx, h.store, list, first)
	if err != nil {
		return nil, err
	}
	spec := h.job.Spec
	t, err := template.Parse(h.args, template.TemplateOptions{Fields: list.Fields, Shell: spec.ByShell, Out: spec.Out})
	if err != nil {
		return nil, err
	}
	s := &Source{Reader: r, Command: t, Format: list.Format, fields: list.Fields, vars: variables(list.Fields, spec.Fetch)}
	if spec.Fetch {
		s.fetches = fetches(list.Fields, t.Fields())
		s.places = slices.Concat(list.Places, m.Base.Places)
	}
	h.sources = append(h.sources, s)
	return s, nil
}
