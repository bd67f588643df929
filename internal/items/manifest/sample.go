package manifest

import (
	"context"
	"fmt"

	"github.com/drover-run/drover/fault"
)

// Spread gives the numbers of n items that are spread evenly over count of them,
// the first and the last among them, in order; all when there are no more than n.
func Spread(count, n int) []int {
	n = max(0, min(count, n))
	at := make([]int, n)
	for i := range at {
		at[i] = 1
		if n > 1 {
			at[i] += int(int64(i) * int64(count-1) / int64(n-1))
		}
	}
	return at
}

// Sample makes a list of the items of l that have these numbers, in order, below
// dir. They mean there what they meant in l, and are numbered from 1.
func Sample(ctx context.Context, l *List, numbers []int, dir string) (*List, error) {
	if len(numbers) == 0 {
		return nil, fault.New(fault.Invalid, "Choose at least 1.", "choose items: none of %d was chosen", l.Count())
	}
	from := l.Reader()
	return Build(dir, l.format, func(p *Packer) error {
		p.Fields = l.Fields()
		for _, n := range numbers {
			it, err := from.One(ctx, n)
			if err != nil {
				return fmt.Errorf("choose items: %w", err)
			}
			if err := AddItem(p, it.Text); err != nil {
				return err
			}
		}
		return nil
	})
}
