package template

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"iter"
	"path"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/manifest"
)

// mostNames bounds what CheckNames holds, at 8 bytes an output.
const mostNames = 4_000_000

// CheckNames refuses items of which two would write an output of one name: only one could
// be brought home. Of very many outputs it says nothing.
func (t *Template) CheckNames(ctx context.Context, all func() iter.Seq2[manifest.Item, error], count int) error {
	checked := 0
	for i := range t.outs {
		if !t.isNumbered(i) {
			checked++
		}
	}
	if checked == 0 || count > mostNames/checked {
		return nil
	}
	sums := make([]uint64, 0, count*checked)
	err := t.eachSharedName(ctx, all, func(_, _ int, _ string, sum uint64) bool { sums = append(sums, sum); return true })
	if err != nil {
		return err
	}
	slices.Sort(sums)
	twice := map[uint64]bool{}
	for i := 1; i < len(sums) && len(twice) < 1000; i++ {
		if sums[i] == sums[i-1] {
			twice[sums[i]] = true
		}
	}
	if len(twice) == 0 {
		return nil
	}
	first := map[string]int{}
	var found error
	err = t.eachSharedName(ctx, all, func(item, out int, name string, sum uint64) bool {
		if !twice[sum] {
			return true
		}
		if other, had := first[name]; had {
			found = fault.New(fault.Invalid, "Put the item's number into the name: "+fault.Mark("--out "+QuoteWord(withNumber(pattern(t.outs[out]))))+".",
				"check --out: items %d and %d would both write %q", other, item, name)
			return false
		}
		first[name] = item
		return true
	})
	if err != nil {
		return err
	}
	return found
}

// eachSharedName gives the names that may be another item's too, until told to stop.
func (t *Template) eachSharedName(ctx context.Context, all func() iter.Seq2[manifest.Item, error], give func(item, out int, name string, sum uint64) bool) error {
	for it, err := range all() {
		if err != nil {
			return err
		}
		if it.N%1000 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		names, err := t.Outputs(it)
		if err != nil {
			continue // that item fails, and says why
		}
		for i, name := range names {
			if t.isNumbered(i) {
				continue
			}
			sum := sha256.Sum256([]byte(name))
			if !give(it.N, i, name, binary.LittleEndian.Uint64(sum[:])) {
				return nil
			}
		}
	}
	return nil
}

// isNumbered says that an output has its item's number in it where nothing can run into it,
// so that no other item's output is called alike.
func (t *Template) isNumbered(out int) bool {
	pieces := t.outs[out]
	isText := func(p piece) bool { return p.what == aText }
	all := func(p []piece) bool { return !slices.ContainsFunc(p, func(p piece) bool { return !isText(p) }) }
	digit := func(c byte) bool { return c >= '0' && c <= '9' }
	for i, p := range pieces {
		before, after := pieces[:i], pieces[i+1:]
		if p.what != aNumber || !all(before) && !all(after) {
			continue
		}
		if n := len(before); n > 0 && (!isText(before[n-1]) || digit(before[n-1].text[len(before[n-1].text)-1])) {
			continue
		}
		if len(after) > 0 && (!isText(after[0]) || digit(after[0].text[0])) {
			continue
		}
		return true
	}
	return false
}

// pattern is what was typed, as good as it can be told.
func pattern(pieces []piece) string {
	text := ""
	for _, p := range pieces {
		if p.what == aText {
			text += p.text
		} else {
			text += "{" + p.text + "}"
		}
	}
	return text
}

// withNumber is a name with the item's number before its ending.
func withNumber(name string) string {
	body := strings.TrimSuffix(name, "/")
	stem := body
	if end := path.Ext(body); !strings.ContainsAny(end, "{}") {
		stem = strings.TrimSuffix(body, end)
	}
	return stem + "-{n}" + name[len(stem):]
}
