package resource

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheFewCoresAreOfThoseThatMayBeUsed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		l    Limits
		want []int
	}{
		{Limits{CPUs: 2, Cores: []int{3, 5, 9}}, []int{3, 5}},
		{Limits{CPUs: 1.5, Cores: []int{3, 5, 9}}, []int{3, 5}},
		{Limits{CPUs: 0.1, Cores: []int{4, 5}}, []int{4}},
		{Limits{CPUs: 3, Cores: []int{3, 5, 9}}, []int{3, 5, 9}},
		{Limits{CPUs: 1e9}, nil},
	} {
		if diff := cmp.Diff(c.want, c.l.chosenCores()); diff != "" {
			t.Errorf("%+v: %s", c.l, diff)
		}
	}
	few := Limits{CPUs: 1}.chosenCores()
	if own := OwnCores(); len(own) > 1 && (len(few) != 1 || !slices.Contains(own, few[0])) {
		t.Errorf("one core is %v of %v", few, own)
	}
}
