package store_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
	"github.com/drover-run/drover/store/storetest"
)

func TestNamesThatAreNoneAreRefusedWithTheReason(t *testing.T) {
	digest := func(s string) error {
		_, err := store.ParseDigest(s)
		return err
	}
	for _, row := range []struct {
		check            func(string) error
		typed, text, end string
		hint             string
	}{
		{store.CheckKey, "a/.b", `check key: "a/.b": an element begins with a dot`, "", ""},
		{store.CheckKey, strings.Repeat("a/", 451), `check key: "`, ": longer than 900 bytes", ""},
		{store.CheckPrefix, "a//", `check prefix: "a//": empty, or has an empty element`, "", ""},
		{store.CheckPrefix, strings.Repeat("a/", 451), `check prefix: "`, ": longer than 900 bytes", ""},
		{store.CheckName, "", `check name: "": empty`, "", "Rename it."},
		{store.CheckName, strings.Repeat("x", 1025), `check name: "`, ": longer than 1024 bytes", "Rename it."},
		{store.CheckName, "a\xff", `check name: "a\xff": not UTF-8`, "", "Rename it."},
		{store.CheckName, "a\x00", `check name: "a\x00": holds a zero byte`, "", "Rename it."},
		{digest, "ABC", `parse digest: "ABC": not 64 lower-case hex digits`, "", ""},
	} {
		err := row.check(row.typed)
		if err == nil || !strings.HasPrefix(err.Error(), row.text) || !strings.HasSuffix(err.Error(), row.end) ||
			fault.Hint(err) != row.hint || fault.KindOf(err) != fault.Invalid {
			t.Errorf("%.80q: kind %v, %v\n%s\nwant %s...%s\n%s", row.typed, fault.KindOf(err), err, fault.Hint(err), row.text, row.end, row.hint)
		}
	}
}

func TestABlobThatChangedWhileItWasStoredSaysToRunItAgain(t *testing.T) {
	s := store.New(mem.New(), store.Options{Clock: &storetest.Clock{}})
	_, _, err := s.PutBlob(t.Context(), newChanging("first", "other"))
	if err == nil || !strings.HasPrefix(err.Error(), "store blob ") || !strings.Contains(err.Error(), ": its content changed while it was being stored") ||
		fault.Hint(err) != "Run it again when nothing writes to the file." || fault.KindOf(err) != fault.Invalid {
		t.Errorf("kind %v, %v\n%s", fault.KindOf(err), err, fault.Hint(err))
	}
}

func TestAnObjectBeyondAllThatDroverWritesSaysHowMuchIsRead(t *testing.T) {
	b := mem.New()
	if err := b.Create(t.Context(), "a", strings.NewReader(strings.Repeat("x", 2<<20))); err != nil {
		t.Fatal(err)
	}
	s := store.New(b, store.Options{Clock: &storetest.Clock{}})
	_, err := s.GetAtMost(t.Context(), "a", 1<<20)
	if err == nil || !strings.Contains(err.Error(), ": it is larger than 1 MiB") || !errors.Is(err, store.ErrMalformed) || fault.KindOf(err) != fault.Bug {
		t.Errorf("kind %v, %v", fault.KindOf(err), err)
	}
}
