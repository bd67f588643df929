package s3_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
)

const identity = `<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>` +
	`<Arn>arn:aws:iam::123456789012:user/me</Arn><UserId>AIDA</UserId><Account>123456789012</Account></GetCallerIdentityResult></GetCallerIdentityResponse>`

// The caller's account is asked for where buckets have owners, and nowhere else.
func TestTheAccountOfTheCallerIsAskedOfAmazonAlone(t *testing.T) {
	asked, status := 0, http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if _ = r.ParseForm(); r.Form.Get("Action") != "GetCallerIdentity" {
			status = http.StatusTeapot
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(identity))
	}))
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAUSER")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testtest")
	for _, row := range []struct {
		place, want string
		asked       int
	}{
		{"s3://facts/team", "123456789012", 1},
		{"s3://facts?endpoint=" + server.URL, "", 0},
		{"s3://facts?owner=999999999999", "", 0},
		{"s3://facts?anonymous=true", "", 0},
	} {
		asked = 0
		got, err := open(t, row.place, s3.Options{}).Account(t.Context())
		if err != nil || got != row.want || asked != row.asked {
			t.Errorf("%s: account %q after %d requests, want %q after %d (%v)", row.place, got, asked, row.want, row.asked, err)
		}
	}
	status = http.StatusForbidden
	if got, err := open(t, "s3://facts", s3.Options{}).Account(t.Context()); got != "" || fault.KindOf(err) != fault.Denied {
		t.Errorf("where it is not said: %q, %v", got, err)
	}
}

// A bucket of another account is refused in one sentence, though it may be read; that of
// the account is not.
func TestABucketOfAnotherAccountIsRefused(t *testing.T) {
	b := open(t, "s3://facts/team", s3.Options{Endpoint: serve(t, &s3test.Server{Owner: "123456789012"}, nil)})
	if _, _, err := b.List(t.Context(), "", "", 1); err != nil {
		t.Fatal(err)
	}
	if err := b.OwnedBy(t.Context(), "123456789012"); err != nil {
		t.Error(err)
	}
	err := b.OwnedBy(t.Context(), "999999999999")
	if fault.KindOf(err) != fault.Denied || !strings.Contains(err.Error(), "the bucket belongs to another account than 999999999999, which you are signed in to") ||
		!strings.Contains(fault.Hint(err), "owner=ACCOUNT'") {
		t.Errorf("%v (%s)", err, fault.Hint(err))
	}
}
