package api

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
)

// serve makes a client of a server that answers so.
func serve(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	c, err := NewClient(&rest.Config{Host: s.URL + "/", BearerToken: "of-ann"})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestARequestIsSentAsKubernetesWantsIt(t *testing.T) {
	var got []string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = append(got, strings.Join([]string{r.Method, r.URL.RequestURI(), r.Header.Get("Content-Type"), r.Header.Get("Authorization")}, " "))
		w.Header().Add("Warning", `299 - "would violate \"x\""`)
		w.Header().Add("Warning", "nonsense")
		_, _ = w.Write([]byte(`{"metadata":{"name":"a"}}`))
	})
	ctx := t.Context()
	var j Job
	warnings, err := c.TryOut(ctx, Jobs, "train", map[string]string{"kind": "Job"}, &j)
	if err != nil || j.Metadata.Name != "a" || !cmp.Equal(warnings, []string{`would violate "x"`}) {
		t.Errorf("%+v, %q, %v", j, warnings, err)
	}
	for _, err := range []error{
		c.Get(ctx, Pods, "train", "a/b", nil), c.Create(ctx, Secrets, "train", 1, nil), c.Merge(ctx, ConfigMaps, "train", "a", 1, nil),
		c.AddOwner(ctx, ConfigMaps, "train", "a", Owner{}), c.Delete(ctx, Jobs, "train", "a", "uid"),
	} {
		if err != nil {
			t.Error(err)
		}
	}
	want := []string{
		"POST /apis/batch/v1/namespaces/train/jobs?dryRun=All application/json Bearer of-ann",
		"GET /api/v1/namespaces/train/pods/a%2Fb  Bearer of-ann",
		"POST /api/v1/namespaces/train/secrets application/json Bearer of-ann",
		"PATCH /api/v1/namespaces/train/configmaps/a application/merge-patch+json Bearer of-ann",
		"PATCH /api/v1/namespaces/train/configmaps/a application/strategic-merge-patch+json Bearer of-ann",
		"DELETE /apis/batch/v1/namespaces/train/jobs/a application/json Bearer of-ann",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("difference:\n%s", diff)
	}
}

func TestARefusalSaysWhatWasRefused(t *testing.T) {
	for path, want := range map[string]Error{
		"/apis/batch/v1/namespaces/train/jobs":     {Code: 403, Reason: "Forbidden", Message: "no", Verb: "list", Kind: "jobs"},
		"/api/v1/namespaces/train/pods/a/log":      {Code: 403, Reason: "Forbidden", Message: "no", Verb: "get", Kind: "pods/log"},
		"/api/v1/nodes":                            {Code: 403, Reason: "Forbidden", Message: "no", Verb: "list", Kind: "nodes"},
		"/apis/batch/v1/namespaces/train/jobs/abc": {Code: 403, Reason: "Forbidden", Message: "no", Verb: "get", Kind: "jobs"},
	} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"reason":"Forbidden","message":"no"}`))
		})
		_, err := c.Do(t.Context(), Request{Method: http.MethodGet, Path: path}, nil)
		var e *Error
		if !errors.As(err, &e) || *e != want {
			t.Errorf("%s: %+v, want %+v", path, err, want)
		}
	}
	for method, verb := range map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete"} {
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
		_, err := c.Do(t.Context(), Request{Method: method, Path: "/api/v1/namespaces/train/pods/a"}, nil)
		if err == nil || err.Error() != verb+" pods: HTTP status 404" || !IsCode(err, 404) {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestAServerThatAsksToComeLaterIsAskedLater(t *testing.T) {
	for name, header := range map[string]bool{"in a header": true, "in the answer": false} {
		times := 0
		var first time.Time
		c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			if times++; times > 1 {
				return
			}
			first = time.Now()
			if header {
				w.Header().Set("Retry-After", "1")
			}
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = w.Write([]byte(`{"details":{"retryAfterSeconds":1}}`))
		})
		if _, err := c.Do(t.Context(), Request{Method: http.MethodGet, Path: "/version"}, nil); err != nil || times != 2 || time.Since(first) < time.Second {
			t.Errorf("%s: %d requests, %v", name, times, err)
		}
	}
}

func TestAnAnswerThatIsNoneIsAnError(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) })
	if _, err := c.Nodes(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "read the answer of Kubernetes: ") {
		t.Errorf("%v", err)
	}
	c, err := NewClient(&rest.Config{Host: "127.0.0.1:1", TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Nodes(t.Context())
	var silent *Unreachable
	if !errors.As(err, &silent) || !strings.HasPrefix(err.Error(), "https://127.0.0.1:1 does not answer: ") || silent.Unwrap() == nil {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Nodes(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestAListIsReadPageByPage(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("continue") == "" {
			_, _ = w.Write([]byte(`{"metadata":{"continue":"more"},"items":[{"metadata":{"name":"a"}}]}`))
			return
		}
		_, _ = w.Write([]byte(`{"metadata":{"resourceVersion":"7"},"items":[{"metadata":{"name":"b"}}]}`))
	})
	all, err := ListAll[Pod](t.Context(), c, Pods, "train", nil)
	if err != nil || len(all) != 2 || all[1].Metadata.Name != "b" {
		t.Errorf("%+v, %v", all, err)
	}
}

func TestAWatchSaysWhatHasChangedUntilItsEnd(t *testing.T) {
	answer := `{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"8"}}}{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}`
	var asked string
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked = r.URL.RequestURI()
		_, _ = w.Write([]byte(answer))
	})
	changes := 0
	watch := func() (string, error) {
		return c.Watch(t.Context(), Pods, "train", map[string][]string{"labelSelector": {"a=b"}}, "7", func() { changes++ })
	}
	if last, err := watch(); last != "9" || err != nil || changes != 1 {
		t.Errorf("%s, %v, %d changes", last, err, changes)
	}
	if asked != "/api/v1/namespaces/train/pods?allowWatchBookmarks=true&labelSelector=a%3Db&resourceVersion=7&timeoutSeconds=570&watch=1" {
		t.Errorf("it asks %s", asked)
	}
	answer = `{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version"}}`
	if last, err := watch(); last != "7" || !IsCode(err, http.StatusGone) || err.Error() != "too old resource version" {
		t.Errorf("%s, %v", last, err)
	}
}

func TestIndexesAreReadAsTheStatusOfAJobHasThem(t *testing.T) {
	set := ParseIndexes("1,3-5,7,x,9-y")
	for i, want := range []bool{false, true, false, true, true, true, false, true, false, false} {
		if set.Has(i) != want {
			t.Errorf("%d: %t", i, !want)
		}
	}
}
