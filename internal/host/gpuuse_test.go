package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUseOfGPUsIsRead(t *testing.T) {
	const text = "0, GPU-a, 93, 1024, 81920, 301.52\n1, GPU-b, [N/A], 2048, 81920, [N/A]\n2, GPU-c, 5, 1, 81920, 70.1\n\n"
	got, err := parseUse(text, []string{"0", "GPU-b"})
	want := []Use{{0, 93, 1 << 30, 80 << 30, 301.52}, {1, 0, 2 << 30, 80 << 30, 0}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := parseUse(text, nil); err != nil || len(got) != 3 {
		t.Errorf("all of them: %v, %v", got, err)
	}
	if _, err := parseUse("x, GPU-a, 1, 2, 3, 4\n", nil); err == nil {
		t.Error("a table without an index is read")
	}
	if got, err := parseUse("No devices were found\n", nil); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
}
