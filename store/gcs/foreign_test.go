package gcs

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// A bucket of another writer is listed, read and written whatever its names are; a store
// sees its own keys alone.
func TestAForeignBucketHasAnyName(t *testing.T) {
	f := newFake()
	endpoint := serve(t, f)
	b, err := Open(t.Context(), "gs://b-1", Options{Endpoint: endpoint, Foreign: true})
	if err != nil {
		t.Fatal(err)
	}
	names := []string{" a b", ".hidden", "a//b", "key", "ü/日本"}
	for _, name := range names {
		if err := b.Put(t.Context(), name, strings.NewReader(name)); err != nil {
			t.Errorf("put %q: %v", name, err)
		}
	}
	var got []string
	for after, more := "", true; more; {
		var page []store.Object
		if page, more, err = b.List(t.Context(), "", after, 2); err != nil {
			t.Fatal(err)
		}
		for _, o := range page {
			got, after = append(got, o.Key), o.Key
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(names) {
		t.Errorf("listed %q, want %q", got, names)
	}
	if err := b.Put(t.Context(), "no\xffUTF-8", strings.NewReader("")); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a name that is none: %v", err)
	}
	own, _, err := at(t, endpoint, "gs://b-1").List(t.Context(), "", "", 10)
	if err != nil || len(own) != 1 || own[0].Key != "key" {
		t.Errorf("as a store it lists %v, %v", own, err)
	}
}

func TestWithoutCredentialsItIsAskedAsAPublicOneAndThatIsSaid(t *testing.T) {
	f := newFake()
	if err := at(t, serve(t, f), "gs://b-1").Create(t.Context(), "k", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	said := 0
	for _, c := range []struct {
		why  error
		say  func()
		want bool
	}{
		{google.ErrNone, func() { said++ }, true},
		{google.ErrNone, nil, false},
		{fmt.Errorf("they have ended"), func() { said++ }, false},
	} {
		b := signed(t, f, func(context.Context) (google.Token, error) {
			return google.Token{}, fault.Wrap(c.why, fault.Denied, google.SignInHint, "find credentials")
		})
		b.conn.given.Unsigned = c.say
		for range 2 {
			_, _, err := b.List(t.Context(), "", "", 10)
			if (err == nil) != c.want {
				t.Errorf("%v: %v", c.why, err)
			}
		}
	}
	if said != 1 {
		t.Errorf("it was said %d times, want once", said)
	}
}
