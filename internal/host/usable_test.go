package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
)

func TestAProgramUsesWholeGPUsOrOnePart(t *testing.T) {
	t.Parallel()
	a, b := GPU{Index: 0, UUID: "GPU-a"}, GPU{Index: 1, UUID: "GPU-b"}
	x, y := GPU{Index: 2, UUID: "MIG-x"}, GPU{Index: 2, UUID: "MIG-y"}
	for _, row := range []struct {
		name string
		all  []GPU
		n    int
		want []GPU
	}{
		{"none", nil, 0, nil},
		{"all there are", []GPU{a, b}, 0, []GPU{a, b}},
		{"some", []GPU{a, b}, 1, []GPU{a, b}},
		{"too many, for the claim to say", []GPU{a, b}, 3, []GPU{a, b}},
		{"whole ones beside parts", []GPU{a, b, x}, 2, []GPU{a, b}},
		{"what is seen beside parts", []GPU{a, x}, 0, []GPU{a}},
		{"one of the parts", []GPU{x, y}, 1, []GPU{x, y}},
		{"what is seen of parts", []GPU{x, y}, 0, []GPU{x}},
	} {
		got, err := Usable(row.all, row.n)
		if diff := cmp.Diff(row.want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", row.name, err, diff)
		}
	}
	if _, err := Usable([]GPU{a, x, y}, 2); fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
		t.Errorf("two parts: %v", err)
	}
}
