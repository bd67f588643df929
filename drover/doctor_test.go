package drover

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

// strict is a bucket that denies some requests.
type strict struct {
	store.Bucket
	denies []string
}

func (s strict) may(what string) error {
	if slices.Contains(s.denies, what) {
		return fault.New(fault.Denied, "", "%s: no", what)
	}
	return nil
}

func (s strict) Create(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := s.may("write"); err != nil {
		return err
	}
	return s.Bucket.Create(ctx, key, body)
}

func (s strict) Put(ctx context.Context, key string, body io.ReadSeeker) error {
	if err := s.may("write"); err != nil {
		return err
	}
	return s.Bucket.Put(ctx, key, body)
}

func (s strict) List(ctx context.Context, prefix, after string, limit int) ([]store.Object, bool, error) {
	if err := s.may("list"); err != nil {
		return nil, false, err
	}
	return s.Bucket.List(ctx, prefix, after, limit)
}

func (s strict) Delete(ctx context.Context, key string) error {
	if err := s.may("delete"); err != nil {
		return err
	}
	return s.Bucket.Delete(ctx, key)
}

// What a credential may not do is said in one line, with what to ask for; that it
// may not delete is no problem.
func TestDoctorSaysWhatACredentialMayNotDo(t *testing.T) {
	for _, row := range []struct {
		denies []string
		ok     bool
		want   string
	}{
		{nil, true, "is readable, writable, and creates each object only once"},
		{[]string{"delete"}, true, "you may not delete here: everything but drover gc works"},
		{[]string{"list"}, false, "you may not list in mem"},
		{[]string{"write", "list", "delete"}, false, "you may not write, nor list, nor delete in mem"},
	} {
		place := mem.New(func(context.Context, driver.Request, int) error { return nil })
		defer place.Close()
		c, err := Open(t.Context(), Options{Bucket: strict{storemem.New(), row.denies}, Drivers: map[string]driver.Opened{mem.Name: mem.Open(place)}, Binary: "drover", Cache: t.TempDir()})
		if err != nil {
			t.Fatal(err)
		}
		checks := c.storeChecks(t.Context())
		i := slices.IndexFunc(checks, func(ch Check) bool { return strings.Contains(ch.Text, row.want) })
		if i < 0 || checks[i].OK != row.ok {
			t.Errorf("without %v it says %+v, want %q", row.denies, checks, row.want)
		} else if !row.ok && !strings.Contains(checks[i].Fix, "drover doctor --policy submitters") {
			t.Errorf("without %v its hint is %q", row.denies, checks[i].Fix)
		}
	}
}
