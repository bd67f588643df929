package rest

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/drover-run/drover/cloud"
	"github.com/drover-run/drover/cloud/google"
	"github.com/drover-run/drover/fault"
)

// answers are a server's, one after the other; the last one stays.
func answers(t *testing.T, all ...func(w http.ResponseWriter)) (c *Caller, url string, asked func() int) {
	t.Helper()
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer word" {
			t.Errorf("it is signed %q", r.Header.Get("Authorization"))
		}
		n++
		all[min(n, len(all))-1](w)
	}))
	t.Cleanup(server.Close)
	c = &Caller{Over: google.Transport(), Wait: 3 * time.Second, Tokens: google.NewTokens(nil, func(context.Context) (google.Token, error) { return google.Token{Value: "word"}, nil })}
	return c, server.URL, func() int { return n }
}

func says(code int, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body)) // the test would see it missing
	}
}

func TestABusyServiceIsAskedUntilItAnswers(t *testing.T) {
	t.Parallel()
	c, url, asked := answers(t, says(503, ""), func(http.ResponseWriter) { panic(http.ErrAbortHandler) }, says(429, `{"error": {"message": "slow down"}}`), says(200, `{"name": "it"}`))
	var out struct{ Name string }
	if err := c.Do(t.Context(), Call{Doing: "ask", Method: http.MethodGet, URL: url, Out: &out}); err != nil || out.Name != "it" || asked() != 4 {
		t.Errorf("%q, %v, after %d requests", out.Name, err, asked())
	}
	c, url, _ = answers(t, says(500, ""))
	c.Wait = time.Millisecond
	var away *cloud.Away
	if err := c.Do(t.Context(), Call{Doing: "ask", Method: http.MethodGet, URL: url}); !errors.As(err, &away) {
		t.Error(err)
	}
}

func TestWhatAServiceRefusesIsSaid(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		code int
		body string
		kind fault.Kind
		is   error
		want string
	}{
		{400, `{"error": {"message": "it is wrong."}}`, fault.Invalid, nil, "ask: the server says 400: it is wrong"},
		{401, ``, fault.Denied, nil, "ask: the server says 401: unauthorized"},
		{403, `{"error": {"message": "no"}}`, fault.Denied, nil, "ask: the server says 403: no"},
		{404, `{"error": {"message": "what?"}}`, fault.Missing, ErrNotFound,
			"ask: the server says 404: what?"},
		{409, `{"error": {"message": "again"}}`, fault.Invalid, ErrExists, "ask: the server says 409: again"},
		{200, `<html>`, fault.Lost, nil, "ask: the answer is not JSON"},
	} {
		c, url, _ := answers(t, says(row.code, row.body))
		err := c.Do(t.Context(), Call{Doing: "ask", Method: http.MethodPost, URL: url, In: map[string]string{}, Out: &struct{}{}})
		if err == nil || err.Error() != row.want || fault.KindOf(err) != row.kind {
			t.Errorf("%d: %v (%s)", row.code, err, fault.KindOf(err))
		}
		for _, of := range []error{ErrNotFound, ErrExists} {
			if errors.Is(err, of) != (row.is == of) {
				t.Errorf("%d is %v", row.code, of)
			}
		}
	}
}

func TestTheErrorsAreWords(t *testing.T) {
	if ErrNotFound.Error() != "it is not there" || ErrExists.Error() != "it is there already" {
		t.Error(ErrNotFound, ErrExists)
	}
}

func TestGcloudsVariablesNameOtherAddresses(t *testing.T) {
	if got := (&Caller{}).Address("batch"); got != "https://batch.googleapis.com" {
		t.Error(got)
	}
	t.Setenv("CLOUDSDK_API_ENDPOINT_OVERRIDES_BATCH", "http://127.0.0.1:1/batch/")
	got := []string{(&Caller{}).Address("batch"), (&Caller{At: func(service string) string { return "x:" + service }}).Address("batch")}
	if want := []string{"http://127.0.0.1:1/batch", "x:batch"}; !slices.Equal(got, want) {
		t.Errorf("%s, want %s", got, want)
	}
}
