package host

import (
	"fmt"
	"slices"
	"strings"
)

// maxHolders is how many are named in one sentence.
const maxHolders = 3

// displayName is the job the party is for.
func (p *party) displayName() string {
	if p.Label == "" {
		return "somebody"
	}
	return p.Label
}

// waitInWords say what is waited for, "" when nothing is: "waits for 2 cores: job 7fk2
// holds 1 of 2; 2nd in the queue, after job ab3d". They change only when that does, so
// no times are in them.
func (b balance) waitInWords() string {
	if b.paused {
		return "waits: queue " + b.Queue + " is paused"
	}
	wants := "waits for " + b.Wish.wishInWords() + ": "
	if short := b.kindsShort(b.share, b.used, b.peers); len(short) > 0 {
		var limits units
		for _, k := range short {
			limits[k] = b.share[k]
		}
		mine := slices.DeleteFunc(slices.Clone(b.holding), func(p *party) bool { return p.Queue != b.Queue })
		parts := []string{"queue " + b.Queue + " may use " + limits.unitsInWords()}
		for _, k := range short {
			parts = append(parts, holders(mine, func(p *party) string { return b.amountInWords(p.need[k], k, len(short)) }, "")...)
		}
		return wants + strings.Join(append(parts, standing(b.inQueue, short)...), "; ")
	}
	short := b.kindsShort(b.total, b.taken.units, b.ahead)
	if len(short) == 0 {
		return ""
	}
	var parts []string
	for _, k := range short {
		held := func(p *party) string {
			return b.amountInWords(b.View.countTaken([]*party{p}).units[k], k, 1)
		}
		parts = append(parts, holders(b.holding, held, " of "+b.amountInWords(b.total[k], k, len(short)))...)
	}
	return wants + strings.Join(append(parts, standing(b.before, short)...), "; ")
}

// amountInWords is a number with its noun when several kinds stand in one sentence; ""
// for none.
func (b balance) amountInWords(n int64, kind, several int) string {
	switch {
	case n == 0:
		return ""
	case several > 1:
		return some(kind, n)
	}
	return number(kind, n)
}

// holders are "job a holds 2 of 4", "job b holds 1", for those that hold any.
func holders(all []*party, amount func(*party) string, of string) (parts []string) {
	others := 0
	for _, p := range all {
		n := amount(p)
		switch {
		case n == "":
		case len(parts) == maxHolders:
			others++
		default:
			parts = append(parts, p.displayName()+" holds "+n+of)
			of = ""
		}
	}
	if others > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", others))
	}
	return parts
}

// standing is "2nd in the queue, after job b", where those before want what is short.
func standing(before []*party, short []int) []string {
	before = slices.DeleteFunc(slices.Clone(before), func(p *party) bool {
		return !slices.ContainsFunc(short, func(k int) bool { return p.need[k] > 0 })
	})
	if len(before) == 0 {
		return nil
	}
	return []string{ordinal(len(before)+1) + " in the queue, after " + before[len(before)-1].displayName()}
}

func ordinal(n int) string {
	end := "th"
	if tens := n / 10 % 10; tens != 1 {
		switch n % 10 {
		case 1:
			end = "st"
		case 2:
			end = "nd"
		case 3:
			end = "rd"
		}
	}
	return fmt.Sprint(n) + end
}
