package s3_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/storetest"
)

// amazon is a fake of the server that gives out Amazon's sessions: it answers in its
// form, with its errors and limits as the reference has them, and knows no signature.
type amazon struct {
	refuse func(form url.Values) (status int, code string) // nil: nothing
	asked  []string                                        // action and seconds
	policy string                                          // the last one
}

// sessionsOfAmazon is a bucket of Amazon's, opened by the user signed in as environ
// says; a is asked for sessions.
func sessionsOfAmazon(t *testing.T, a *amazon, place string) *s3.Bucket {
	t.Helper()
	server := httptest.NewServer(a)
	t.Cleanup(server.Close)
	t.Setenv("AWS_ENDPOINT_URL_STS", server.URL)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAUSER")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testtest")
	return open(t, place, s3.Options{Clock: &storetest.Clock{}})
}

func (a *amazon) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_ = r.ParseForm()
	action, life := r.Form.Get("Action"), r.Form.Get("DurationSeconds")
	a.asked = append(a.asked, action+" "+life)
	a.policy = r.Form.Get("Policy")
	if a.refuse != nil {
		if status, code := a.refuse(r.Form); status != 0 {
			w.WriteHeader(status)
			fmt.Fprintf(w, `<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error></ErrorResponse>`, code)
			return
		}
	}
	seconds, err := time.ParseDuration(life + "s")
	if err != nil || len(a.policy) > 2048 || (action == "GetSessionToken") != (a.policy == "") {
		http.Error(w, "", http.StatusTeapot)
		return
	}
	fmt.Fprintf(w, `<%[1]sResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><%[1]sResult><Credentials><AccessKeyId>ASIA%[1]s</AccessKeyId>`+
		`<SecretAccessKey>of-the-session</SecretAccessKey><SessionToken>token</SessionToken><Expiration>%[2]s</Expiration></Credentials></%[1]sResult></%[1]sResponse>`,
		action, time.Now().Add(seconds).UTC().Format(time.RFC3339))
}

func TestAUserOfAmazonsGivesAFederatedSession(t *testing.T) {
	a := &amazon{}
	p, err := sessionsOfAmazon(t, a, "s3://facts/team").Pass(t.Context(), agents, "")
	if err != nil || p.Wide || time.Until(p.Until) < 11*time.Hour || !strings.Contains(string(p.File), "ASIAGetFederationToken") || strings.Contains(string(p.File), "testtest") {
		t.Errorf("%s %+v, %v", p.File, p, err)
	}
	if !slices.Equal(a.asked, []string{"GetFederationToken 43200"}) || !strings.Contains(a.policy, `"arn:aws:s3:::facts/team/demo/train/*"`) || strings.Contains(a.policy, "Delete") {
		t.Errorf("asked for %v with %s", a.asked, a.policy)
	}
	// An account's root is given an hour.
	root := &amazon{refuse: func(form url.Values) (int, string) {
		if form.Get("DurationSeconds") != "3600" {
			return 400, "ValidationError"
		}
		return 0, ""
	}}
	p, err = sessionsOfAmazon(t, root, "s3://facts/team").Pass(t.Context(), agents, "")
	if left := time.Until(p.Until); err != nil || p.Wide || left > time.Hour || left < 50*time.Minute {
		t.Errorf("of a root: %+v, %v", p, err)
	}
}

// A user without the right to make narrow sessions gives one that ends, rather than a
// key; and is told what to type.
func TestAUserWhoMayNotFederateIsToldSo(t *testing.T) {
	refused := &amazon{refuse: func(form url.Values) (int, string) {
		if form.Get("Action") == "GetFederationToken" {
			return 403, "AccessDenied"
		}
		return 0, ""
	}}
	p, err := sessionsOfAmazon(t, refused, "s3://facts/team").Pass(t.Context(), agents, "")
	if err != nil || !p.Wide || time.Until(p.Until) < 11*time.Hour || strings.Contains(string(p.File), "testtest") || !strings.Contains(string(p.File), "ASIAGetSessionToken") {
		t.Errorf("%s %+v, %v", p.File, p, err)
	}
	if !strings.Contains(p.Why, "AccessDenied") || !strings.Contains(p.Fix, "sts:GetFederationToken") || !strings.Contains(p.Fix, "drover config set agent_role arn:aws:iam::ACCOUNT:role/NAME") {
		t.Errorf("it says %s: %s", p.Why, p.Fix)
	}
	never := &amazon{refuse: func(url.Values) (int, string) { return 403, "AccessDenied" }}
	p, err = sessionsOfAmazon(t, never, "s3://facts/team").Pass(t.Context(), agents, "")
	if err != nil || !p.Wide || !p.Until.IsZero() || !strings.Contains(p.Why, "AccessDenied") || p.Fix == "" {
		t.Errorf("without any session: %+v, %v", p, err)
	}
	away := &amazon{refuse: func(form url.Values) (int, string) {
		if form.Get("Action") == "GetFederationToken" {
			return 403, "AccessDenied"
		}
		return 503, "ServiceUnavailable"
	}}
	p, err = sessionsOfAmazon(t, away, "s3://facts/team").Pass(t.Context(), agents, "")
	if fault.KindOf(err) != fault.Lost || p.File != nil {
		t.Errorf("with a server that is busy: %s %+v, %v; want no pass", p.File, p, err)
	}
}

// A session, of SSO or of a role, gives no narrower one by itself: that is known
// without asking, and what to type is said. What ends is renewed like any pass.
func TestASessionNeedsARoleForANarrowerOne(t *testing.T) {
	a := &amazon{}
	t.Setenv("AWS_SESSION_TOKEN", "of-sso")
	t.Setenv("AWS_ACCOUNT_ID", "123456789012")
	b := sessionsOfAmazon(t, a, "s3://facts/team")
	p, err := b.Pass(t.Context(), agents, "")
	if err != nil || !p.Wide || p.Why != "a session gives no narrower one" || p.Fix != "drover config set agent_role arn:aws:iam::123456789012:role/NAME" || len(a.asked) > 0 {
		t.Errorf("%+v, %v, after %v", p, err, a.asked)
	}
	if !strings.Contains(string(p.File), "of-sso") {
		t.Errorf("the pass is %s", p.File)
	}
}

// A session that takes a role, which Amazon calls a chain, has it for an hour; each
// renewal takes it again.
func TestAChainOfRolesLastsAnHour(t *testing.T) {
	const role = "arn:aws:iam::123456789012:role/agents"
	a := &amazon{refuse: func(form url.Values) (int, string) {
		if form.Get("RoleArn") != role || form.Get("DurationSeconds") != "3600" {
			return 400, "ValidationError"
		}
		return 0, ""
	}}
	t.Setenv("AWS_SESSION_TOKEN", "of-sso")
	b := sessionsOfAmazon(t, a, "s3://facts/team")
	for range 2 {
		p, err := b.Pass(t.Context(), agents, role)
		if left := time.Until(p.Until); err != nil || p.Wide || left > time.Hour || left < 50*time.Minute || !strings.Contains(string(p.File), "ASIAAssumeRole") {
			t.Errorf("%s %+v, %v", p.File, p, err)
		}
	}
	if want := []string{"AssumeRole 43200", "AssumeRole 3600", "AssumeRole 43200", "AssumeRole 3600"}; !slices.Equal(a.asked, want) {
		t.Errorf("asked for %v", a.asked)
	}
}

// Amazon takes 2,048 characters of a session's policy, and less once it has packed
// it. One's own key, or a wider policy, is not what was meant by a long name.
func TestAPolicyThatIsTooLongIsAnError(t *testing.T) {
	long := "s3://" + strings.Repeat("b", 63) + "/" + strings.Repeat("p", 122)
	rights := store.Rights{Read: []string{"blobs/", "_gc/", strings.Repeat("j", 63) + "/"}, Create: []string{"blobs/"},
		Write: []string{strings.Repeat("j", 63) + "/" + strings.Repeat("t", 63) + "/"}}
	a := &amazon{}
	p, err := sessionsOfAmazon(t, a, long).Pass(t.Context(), rights, "")
	if fault.KindOf(err) != fault.Invalid || p.File != nil || !strings.Contains(fault.Hint(err), "shorter prefix") || len(a.asked) > 0 {
		t.Errorf("%v: %s, after %v", err, fault.Hint(err), a.asked)
	}
	packed := &amazon{refuse: func(url.Values) (int, string) { return 400, "PackedPolicyTooLarge" }}
	p, err = sessionsOfAmazon(t, packed, "s3://facts/team").Pass(t.Context(), agents, "")
	if fault.KindOf(err) != fault.Invalid || p.File != nil || !strings.Contains(fault.Hint(err), "--agent-profile") {
		t.Errorf("packed: %v: %s", err, fault.Hint(err))
	}
	// A store of an ordinary length, with the longest names of project and task, has one.
	fits := &amazon{}
	if p, err := sessionsOfAmazon(t, fits, "s3://"+strings.Repeat("b", 63)+"/team/drover").Pass(t.Context(), rights, ""); err != nil || p.Wide {
		t.Errorf("a policy of %d characters: %v", len(fits.policy), err)
	}
	t.Logf("an ordinary store's policy has %d characters", len(fits.policy))
}
