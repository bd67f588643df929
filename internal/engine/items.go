package engine

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/results"
	"github.com/drover-run/drover/internal/input"
	"github.com/drover-run/drover/internal/items"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/items/template"
	"github.com/drover-run/drover/internal/ledger/chunks"
	"github.com/drover-run/drover/internal/ledger/control"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/ledger/removal"
	"github.com/drover-run/drover/internal/ledger/views"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/job/option"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// ItemsPlan is what a plan knows of a map's items.
type ItemsPlan struct {
	report.PlannedItems

	list    *manifest.List
	fresh   *manifest.List
	counted *manifest.List // of which Uploads are
	places  []string       // as a Manifest has them
	dir     itemsFolder
	files   func(path string) bool // which files of the folder are items, or their list
}

// Close removes what a plan has kept of a map's items. It may be called twice.
func (p *Plan) Close() error {
	for _, l := range []*manifest.List{p.Items.fresh, p.Items.list} {
		if l != nil {
			_ = l.Close()
		}
	}
	p.Items.list, p.Items.fresh = nil, nil
	return p.Items.dir.Close()
}

// collectItems reads a map's items, once.
func (e planner) collectItems(ctx context.Context, p *Plan) error {
	s := p.Spec
	dir, err := newItemsFolder()
	if err != nil {
		return err
	}
	p.Items.dir = dir
	source := items.Source{From: s.From, Format: s.Format, Dir: e.Caller.Folder, Stdin: e.Caller.Stdin}
	source.Open = func(ctx context.Context, url string) (b *store.Store, err error) {
		b, url, err = e.OpenBucketURL(ctx, url)
		p.Items.places = addPlace(nil, url)
		return b, err
	}
	l, err := items.Collect(ctx, source, dir.dir)
	if err != nil {
		return err
	}
	p.Items.list = l
	if p.Items.files, err = e.itemFiles(ctx, s.From, l.Format(), l.Reader().Range(ctx, 1, min(l.Count(), maxItemFiles))); err != nil {
		return err
	}
	p.Items.Count, p.Items.Format, p.Items.Fields, p.Items.Notes = l.Count(), l.Format(), l.Fields(), l.Notes()
	if err := checkTemplate(s, l.Fields()); err != nil {
		return err
	}
	if err := checkNames(ctx, s, l); err != nil {
		return err
	}
	if err := e.checkFetch(ctx, p); err != nil {
		return err
	}
	if err := e.checkPasswords(ctx, p); err != nil {
		return err
	}
	size := chunks.ChunkSize(l.Count(), s.Workers)
	p.Items.Chunks = (l.Count() + size - 1) / size
	return nil
}

// maxItemFiles is more than a folder of code may hold.
const maxItemFiles = 100_000

// itemFiles says which files are no code, though they lie beside it: the list of
// the items, or the items themselves. A line more in it does not make another job.
func (e planner) itemFiles(ctx context.Context, from, format string, all iter.Seq2[manifest.Item, error]) (func(string) bool, error) {
	real := func(path string) string {
		if !filepath.IsAbs(path) {
			path = filepath.Join(e.Caller.Folder, path)
		}
		if to, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
			return filepath.Join(to, filepath.Base(path))
		}
		return path
	}
	file := real(from)
	info, err := os.Stat(file)
	switch {
	case input.IsBucket(from):
		return nil, nil
	case from == "-" || format != manifest.Lines || err == nil && info.Mode().IsRegular():
		return func(path string) bool { return path == file }, nil
	case err == nil && info.IsDir():
		return func(path string) bool { return strings.HasPrefix(path, file+string(filepath.Separator)) }, nil
	case !strings.ContainsAny(from, "*?["):
		return nil, nil
	}
	found := map[string]bool{}
	for it, err := range all {
		if err != nil {
			return nil, err
		}
		found[real(it.Text)] = true
	}
	return func(path string) bool { return found[path] }, nil
}

// checkTemplate refuses a command that items of these fields cannot fill.
func checkTemplate(s job.Spec, fields []string) error {
	t, err := template.Parse(append([]string{s.Program}, s.Args...), template.TemplateOptions{Fields: fields, Shell: s.ByShell, Out: s.Out})
	if err != nil {
		return err
	}
	if s.Stream && t.Uses() {
		return fault.New(fault.Invalid, "Leave the placeholder out, and use item.value; or leave out `--stream`.", "check command: a stream program starts before there is an item to put into its arguments")
	}
	return nil
}

// checkNames refuses items of which two would write an output of one name. What is fetched
// is named when it is there.
func checkNames(ctx context.Context, s job.Spec, l *manifest.List) error {
	if len(s.Out) == 0 || s.Fetch {
		return nil
	}
	t, err := template.Parse(append([]string{s.Program}, s.Args...), template.TemplateOptions{Fields: l.Fields(), Shell: s.ByShell, Out: s.Out})
	if err != nil {
		return err
	}
	return t.CheckNames(ctx, func() iter.Seq2[manifest.Item, error] { return l.Reader().Range(ctx, 1, l.Count()) }, l.Count())
}

// decideMap decides what a map's command comes to, given the newest job of its task: it
// goes on with that job, and runs the failed items and the new lines, or makes another.
func (e decider) decideMap(ctx context.Context, p *Plan, force bool) error {
	rep := p.before
	old := rep.Job
	fresh, err := e.findNewItems(ctx, p, rep)
	if err != nil {
		return err
	}
	d := p.differ
	content := d.changedContent()
	settled, same := rep.Run.Settled != nil, len(d.command) == 0
	takes := p.Spec.NewCode && !force && hasCode(content) && same
	left := fresh > 0
	if t := rep.Run.Settled; t != nil {
		p.Items.Again = t.Tally.Failed + t.Tally.Quarantined + t.Tally.Cancelled
		left = left || p.Items.Again > 0
	}
	switch {
	case !settled && rep.Run.Stop == nil:
		return p.decideUnfinishedMap(fresh)
	case !settled && (force || (!same || len(content) > 0) && !takes):
		return p.decideUnsettled()
	case !settled:
		return p.decideStopping()
	case takes:
		return p.endedWithNewCode(fresh)
	case force || !same || len(content) > 0 || !left && len(d.allChanges()) > 0 || left && d.targetHasChanged():
		p.startAllAnew(force)
		return nil
	}
	if left {
		if err := p.takeSettings(); err != nil {
			return err
		}
	}
	switch {
	case p.Items.Again > 0 && fresh > 0:
		p.Action = report.ActionReopen
		p.Note = fmt.Sprintf("job %s: running %d %s without success and %d new ones%s", old.Short, p.Items.Again, itemWord(p.Items.Again), fresh, p.newSettings())
	case p.Items.Again > 0:
		p.Action = report.ActionReopen
		p.Note = fmt.Sprintf("job %s: running %d %s without success again%s", old.Short, p.Items.Again, itemWord(p.Items.Again), p.newSettings())
	case fresh > 0:
		p.Action = report.ActionReopen
		p.Note = fmt.Sprintf("job %s: added %d new %s%s", old.Short, fresh, itemWord(fresh), p.newSettings())
	case p.Spec.Named:
		p.Action = report.ActionSkip
		p.Note = "complete since " + stamp(rep.Ended()) + "; --force runs it again"
	default:
		p.Items.New = p.Items.Count
	}
	if left && d.programWouldDiffer() {
		p.Choices = p.otherCommands(nil)
	}
	return nil
}

// startAllAnew has a map that has settled run with all its items, in a new job.
func (p *Plan) startAllAnew(force bool) {
	old, changed := p.before.Job, p.differ.allChanges()
	p.Items.New, p.Items.Again = p.Items.Count, 0
	p.Changed = changed
	switch {
	case len(changed) == 0:
	case p.before.State != job.Succeeded:
		p.Note = fmt.Sprintf("%s changed since job %s%s; this is a new one, with all items", strings.Join(changed, ", "), old.Short, p.changedFiles())
		if content := p.differ.changedContent(); !force && len(p.differ.command) == 0 && !p.differ.targetHasChanged() && hasCode(content) && len(besideCode(content)) == 0 {
			p.Choices = []string{"only what had no success, with the new code: drover retry --new-code " + old.Short}
		}
	case p.Spec.Named:
		p.Note = p.runsAgain()
	}
}

// targetHasChanged says that a map is to run where it cannot go on.
func (d differ) targetHasChanged() bool {
	return slices.ContainsFunc(d.options, func(x option.Difference) bool { return slices.Contains(fixed, x.Name) })
}

func itemWord(n int) string {
	if n == 1 {
		return "item"
	}
	return "items"
}

// findNewItems finds the items that the job which is there does not have (M14).
func (e decider) findNewItems(ctx context.Context, p *Plan, rep views.Report) (fresh int, err error) {
	m := rep.Map.Map
	if len(m.Extensions) == 0 && m.Base.Digest == p.Items.list.Digest() {
		return 0, nil
	}
	old, err := results.OpenLists(ctx, e.World.Store, m)
	if err != nil {
		return 0, err
	}
	l, gone, err := manifest.New(ctx, p.Items.list, old, p.Items.dir.dir)
	if fault.KindOf(err) == fault.Invalid {
		return p.Items.Count, nil // other fields or another format: differences says so
	}
	if err != nil {
		return 0, err
	}
	p.Items.fresh, p.Items.New, p.Items.Gone = l, l.Count(), gone
	return l.Count(), e.newPlanner().notePlaces(ctx, p, l)
}

// reopenJob carries out ActionExtend and ActionReopen: new items are stored, their files are named so
// that no gc takes them, and the job is given both in one entry.
func (e submitter) reopenJob(ctx context.Context, p *Plan) (job.Path, bool, error) {
	j := p.before.Job
	if err := e.newPlanner().checkNewItemsAreSeen(ctx, p); err != nil {
		return p.Job, true, err
	}
	var again *protocol.Reopened
	if p.Items.Again > 0 {
		again = &protocol.Reopened{}
	}
	sweeps, err := removal.ReadSweeps(ctx, e.World)
	if err != nil {
		return p.Job, true, err
	}
	var more *protocol.Extended
	if p.Items.fresh != nil && p.Items.fresh.Count() > 0 {
		m, err := e.storeItems(ctx, p, p.Items.fresh, p.Job)
		if err != nil {
			return p.Job, true, err
		}
		if m.Files != nil && j.Manifest.Files == nil {
			return p.Job, true, fault.New(fault.Invalid, "Run all in a new job: add `--force`.", "add items to job %s: its agents bring no files, and these name some that they do not see", j.Short)
		}
		more = &protocol.Extended{Manifest: m, Size: chunks.ChunkSize(m.Count, p.Spec.Workers)}
	}
	r := control.Round{Again: again, More: more, Amend: p.amend}
	if p.TakesNewCode {
		if r.Amend, err = e.storeCode(ctx, p, j.Short, r.Amend); err != nil {
			return p.Job, true, err
		}
	}
	if err := e.nameRound(ctx, p, r, sweeps); err != nil {
		return p.Job, true, err
	}
	if p.before.Run.Stop != nil && p.before.Run.Settled == nil { // its agents may be gone, and then it does not settle by itself
		if _, err := e.Attend(ctx, p.Job); err != nil {
			return p.Job, true, err
		}
	}
	e.stopLeftAgents(ctx, p.Spec.On)
	live, ok, err := control.ReopenMap(ctx, e.World, j, e.Caller.By, r)
	if err != nil {
		return p.Job, true, err
	}
	path := p.Job
	path.Job = live
	if !ok {
		return e.attachToWinner(ctx, p, path)
	}
	return path, true, nil
}

// nameRound names the blobs that a round is going to name, and stores those again that
// gc took meanwhile.
func (e submitter) nameRound(ctx context.Context, p *Plan, r control.Round, sweeps *removal.Sweeps) error {
	files := r.More != nil && r.More.Manifest.Files != nil
	code := r.Amend != nil && r.Amend.Code != nil && r.Amend.Code.Blob != p.before.Job.Code.Blob
	if !files && !code {
		return nil
	}
	if err := control.NameRound(ctx, e.World, p.Job, e.Caller.By, r); err != nil {
		return fmt.Errorf("name items and code of job %s: %w", p.before.Job.Short, err)
	}
	need := func() (all []store.Digest, err error) {
		if files {
			all, err = e.blobsOfItems(ctx, r.More.Manifest)
		}
		if code {
			all = append(all, store.Digest(r.Amend.Code.Blob))
		}
		return all, err
	}
	return sweeps.Assure(ctx, need, func(ctx context.Context, _ []store.Digest) error {
		if code {
			if err := e.storeCodeAgain(ctx, p, r.Amend.Code.Blob); err != nil {
				return err
			}
		}
		if !files {
			return nil
		}
		return e.storeItemsAgain(ctx, p, p.Items.fresh, r.More.Manifest)
	})
}

// shipItems stores a new map's items below its job, which has a name by now.
func (e submitter) shipItems(ctx context.Context, p *Plan, j *job.Job) error {
	if p.Spec.Verb != job.Map {
		return nil
	}
	m, err := e.storeItems(ctx, p, p.Items.list, j.Path())
	if err != nil {
		return err
	}
	j.Manifest, j.ChunkSize = m, chunks.ChunkSize(m.Count, p.Spec.Workers)
	return nil
}
