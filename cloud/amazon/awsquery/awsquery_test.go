package awsquery

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
)

// answering is a service that gives an answer, and the caller of it. form is the newest request's.
func answering(t *testing.T, flat bool, status int, answer string) (c Caller, form *url.Values) {
	t.Helper()
	form = &url.Values{}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*form, _ = url.ParseQuery(string(body))
		if kind := r.Header.Get("Content-Type"); kind != "application/x-www-form-urlencoded; charset=utf-8" {
			t.Error(kind)
		}
		if !strings.Contains(r.Header.Get("Authorization"), "/eu-west-1/autoscaling/aws4_request, SignedHeaders=content-length;content-type;host;x-amz-date,") {
			t.Errorf("%v", r.Header)
		}
		w.WriteHeader(status)
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(s.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testtest")
	a, err := amazon.Open(t.Context(), amazon.Options{Region: "eu-west-1"})
	if err != nil {
		t.Fatal(err)
	}
	a.Config.BaseEndpoint = &s.URL
	return Caller{Service{"autoscaling", "AUTO_SCALING", "2011-01-01", flat}, a}, form
}

type tag struct {
	Key, Value        string
	PropagateAtLaunch *bool
}

// request has one field of each kind.
type request struct {
	Name    string
	Size    *int
	Most    int
	At      time.Time
	Tags    []tag
	Nothing []string
	Policy  *struct{ Strategy string }
}

func TestARequestIsFlattened(t *testing.T) {
	zero, no := 0, false
	in := request{Name: "a b", Size: &zero, At: time.Date(2026, 11, 29, 8, 0, 0, 0, time.UTC), Tags: []tag{{"k", "v", &no}, {Key: "l"}}}
	for flat, want := range map[bool]string{
		false: "Action=Make&At=2026-11-29T08:00:00Z&Name=a b&Size=0&Tags.member.1.Key=k&Tags.member.1.PropagateAtLaunch=false&Tags.member.1.Value=v&Tags.member.2.Key=l&Version=2011-01-01",
		true:  "Action=Make&At=2026-11-29T08:00:00Z&Name=a b&Size=0&Tags.1.Key=k&Tags.1.PropagateAtLaunch=false&Tags.1.Value=v&Tags.2.Key=l&Version=2011-01-01",
	} {
		c, form := answering(t, flat, 200, `<MakeResponse xmlns="http://x"><MakeResult><Names><member>a</member><member>b</member></Names></MakeResult></MakeResponse>`)
		var out struct {
			Names []string `xml:"MakeResult>Names>member"`
		}
		if err := c.Call(t.Context(), "Make", in, &out); err != nil || strings.Join(out.Names, ",") != "a,b" {
			t.Errorf("%v, %v", out, err)
		}
		if got, _ := url.QueryUnescape(form.Encode()); got != want {
			t.Errorf("sends %s\nwant  %s", got, want)
		}
	}
}

func TestErrorsAreReadAsThoseOfTheVendorsClients(t *testing.T) {
	for _, test := range []struct {
		status int
		body   string
		want   string
		cutOff bool
	}{
		{400, `<ErrorResponse xmlns="http://x"><Error><Type>Sender</Type><Code>AlreadyExists</Code><Message>It exists.</Message></Error></ErrorResponse>`, "the server says 400 AlreadyExists: It exists", false},
		{400, `<Response><Errors><Error><Code>InvalidInstanceID.NotFound</Code><Message>no</Message></Error></Errors></Response>`, "the server says 400 InvalidInstanceID.NotFound: no", false},
		{502, "<html>Bad gateway", "the server says 502", false},
		{200, "no XML", "EOF", true},
	} {
		c, _ := answering(t, false, test.status, test.body)
		a := amazon.ReadAnswer(c.Call(t.Context(), "Make", nil, &struct{}{}))
		if !strings.Contains(a.Error(), test.want) || test.cutOff != a.Unclear() && test.status < 500 {
			t.Errorf("%s: %v, unclear: %v", test.body, a, a.Unclear())
		}
	}
	c, _ := answering(t, false, 200, "")
	if err := c.Call(t.Context(), "Make", nil, nil); err != nil {
		t.Error(err)
	}
	gone := "http://127.0.0.1:1"
	c.Account.Config.BaseEndpoint = &gone
	if a := amazon.ReadAnswer(c.Call(t.Context(), "Make", nil, nil)); a.Status != 0 || !amazon.Sent(a.Err) {
		t.Errorf("%+v", a)
	}
}
