package tree

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/bundle/bundletest"
)

func TestSizesAreReadable(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 9949: "9.9 kB", 12_345: "12 kB", 999_600: "1.0 MB", 312_000_000: "312 MB", 1 << 62: "4.6 EB"} {
		if got := SizeText(n); got != want {
			t.Errorf("sizeText(%d) = %q, want %q", n, got, want)
		}
	}
}

func TestNamesThatLeadOutsideAreRefused(t *testing.T) {
	for _, bad := range []string{"", ".", "..", "../a", "/a", "a/../b", "a/../../b", "a//b", "a/", "./a", "a/.", "a\x00b", strings.Repeat("x", MaxPath+1)} {
		if CheckName(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	for good := range bundletest.HostileNames {
		if err := CheckName(good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
}

func TestEachStopsAtTheFirstError(t *testing.T) {
	boom := errors.New("boom")
	err := ForEach(t.Context(), 1000, func(ctx context.Context, i int) error {
		if i == 7 {
			return boom
		}
		if i > 7+width {
			<-ctx.Done() // would hang if the others were not told
		}
		return nil
	})
	if !errors.Is(err, boom) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(boom)
	if err := ForEach(ctx, 3, func(context.Context, int) error { return nil }); !errors.Is(err, boom) {
		t.Fatal(err)
	}
}
