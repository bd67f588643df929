package results

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/cli/progress"
	"github.com/drover-run/drover/internal/cli/terminal"
	"github.com/drover-run/drover/job"
)

// mostFlags choose the items of a map that took or used most.
type mostFlags struct{ slowest, largest howMany }

// howMany is a flag that may stand alone, and then means ten.
type howMany struct{ typed string }

const tenMost = "10"

func (h *howMany) String() string     { return h.typed }
func (h *howMany) Set(s string) error { h.typed = s; return nil }
func (h *howMany) Type() string       { return "[=N]" }

func (m *mostFlags) addFlags(f *pflag.FlagSet) {
	f.Var(&m.slowest, "slowest", "the items that took longest, the longest first (default: 10 of them)")
	f.Var(&m.largest, "largest", "the items that used most memory, the largest first (default: 10 of them)")
	for _, name := range []string{"slowest", "largest"} {
		f.Lookup(name).NoOptDefVal = tenMost
	}
}

// mostAsked is what was asked for: 0 of none. A number of one that stands alone is
// among the arguments then, as in --slowest 20, and is taken out of them.
func (m *mostFlags) mostAsked(f *pflag.FlagSet, args []string) (n int, less func(a, b drover.ItemResult) int, rest []string, err error) {
	slow, large := f.Changed("slowest"), f.Changed("largest")
	name, typed := "slowest", m.slowest.typed
	less = func(a, b drover.ItemResult) int { return cmp.Compare(a.Seconds, b.Seconds) }
	switch {
	case !slow && !large:
		return 0, nil, args, nil
	case slow && large:
		return 0, nil, nil, fault.New(fault.Invalid, "Use one of them at a time: both tables show time and memory.", "read command line: both --slowest and --largest")
	case large:
		name, typed = "largest", m.largest.typed
		less = func(a, b drover.ItemResult) int { return cmp.Compare(a.MaxRSS, b.MaxRSS) }
	}
	for i := len(args) - 1; typed == tenMost && i >= 0; i-- {
		if terminal.Digits(args[i]) {
			typed, args = args[i], slices.Concat(args[:i], args[i+1:])
			break
		}
	}
	n, err = strconv.Atoi(typed)
	if err != nil || n < 1 || n > mostOfAll {
		return 0, nil, nil, fault.New(fault.Invalid, fmt.Sprintf("Use a number from 1 to %d: --%s=20.", mostOfAll, name), "read --%s: %q", name, typed)
	}
	if len(args) > 1 {
		return 0, nil, nil, fault.New(fault.Invalid, "Leave one of them out.", "read command line: --%s does not go with item %s", name, args[1])
	}
	return n, less, args, nil
}

// mostOfAll is how many items are held at most; for all of them results --csv can be
// sorted.
const mostOfAll = 10_000

// printMostItems prints the n items of those chosen that less puts last.
func (a Items) printMostItems(ctx context.Context, j *drover.Job, o drover.ResultOptions, n int, less func(a, b drover.ItemResult) int) error {
	// Longest first; of alike the first in the map.
	order := func(a, b drover.ItemResult) int { return cmp.Or(less(b, a), a.Item-b.Item) }
	var best []drover.ItemResult
	for r, err := range j.Results(ctx, o) {
		if err != nil {
			return err
		}
		if r.Code == nil { // nothing was measured
			continue
		}
		best = append(best, r)
		if len(best) >= 2*n+64 {
			slices.SortFunc(best, order)
			best = slices.Delete(best, n, len(best))
		}
	}
	slices.SortFunc(best, order)
	best = best[:min(n, len(best))]
	out := bufio.NewWriterSize(a.EscapedOutput(), 64<<10)
	if a.Settings.JSON {
		enc := terminal.NewJSON(out).PlainHTML()
		for _, r := range best {
			if err := enc.Encode(r); err != nil {
				return ended(err, out)
			}
		}
		return ended(nil, out)
	}
	s, err := j.Status(ctx)
	if err != nil {
		return err
	}
	if len(best) == 0 {
		a.Note("none of these items has run yet   %s", strings.Join(progress.Counts(s), ", "))
		return nil
	}
	return ended(a.printMostTable(out, s.Items.Items, best), out)
}

func (a Items) printMostTable(out *bufio.Writer, items int, best []drover.ItemResult) error {
	t := NewResults(a.App).newItemTable(out, items)
	rest := func(processor, memory, why string) string { return fmt.Sprintf("%9s  %9s  %s", processor, memory, why) }
	if err := t.printRow("ITEM", "STATE", "STATUS", "TIME", "VALUE", rest("PROCESSOR", "MEMORY", "WHY")); err != nil {
		return err
	}
	for _, r := range best {
		used := rest(terminal.Briefly(r.CPU), job.Bytes(r.MaxRSS).Words(), itemWhy(r))
		if err := t.printRow(strconv.Itoa(r.Item), itemState(r.State), codeWord(r.Code, "-"), terminal.Briefly(r.Seconds), r.Value, used); err != nil {
			return err
		}
	}
	return nil
}
