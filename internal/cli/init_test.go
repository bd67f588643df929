package cli

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/cli/config"
)

// init writes the account that owns the bucket into the store's URL, where there is one,
// and no drover.yaml for a bucket of another account.
func TestInitWritesTheOwnerOfTheBucket(t *testing.T) {
	for _, row := range []struct{ account, store, want string }{
		{"123456789012", "s3://b/x", "store: s3://b/x?owner=123456789012\n"},
		{"123456789012", "s3://b/x?region=eu-west-1", "store: s3://b/x?region=eu-west-1&owner=123456789012\n"},
		{"", "s3://b/x", "store: s3://b/x\n"},
	} {
		d := newDesk(t)
		d.app.Owner = func(context.Context, string, string, func(string)) (string, error) { return row.account, nil }
		if _, _, err := d.typed("init", "-p", "demo", "--store", row.store); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(config.ProjectFileName); err != nil || !strings.Contains(string(text), row.want) {
			t.Errorf("%s of account %q: %v\n%s", row.store, row.account, err, text)
		}
		if _, _, err := d.typed("status"); err != nil || d.opened != strings.TrimSpace(strings.TrimPrefix(row.want, "store: ")) {
			t.Errorf("what init has written opens %q (%v)", d.opened, err)
		}
	}
	d := newDesk(t)
	refusal := errors.New("another account's")
	d.app.Owner = func(context.Context, string, string, func(string)) (string, error) { return "999999999999", refusal }
	if _, _, err := d.typed("init", "-p", "demo", "--store", "s3://b/x"); !errors.Is(err, refusal) {
		t.Errorf("a bucket of another account: %v", err)
	}
	if _, err := os.Stat(config.ProjectFileName); err == nil {
		t.Error("it is written all the same")
	}
}
