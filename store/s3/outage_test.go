package s3_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
	"github.com/drover-run/drover/store/storetest"
)

// until has something happen once so much virtual time was slept.
type until struct {
	storetest.Clock
	when time.Duration
	then func()
}

func (u *until) Sleep(ctx context.Context, d time.Duration) error {
	if u.Boot() >= u.when {
		u.then()
	}
	return u.Clock.Sleep(ctx, d)
}

// A reader in the middle of a checkpoint, a gigabyte into it, need not begin anew.
func TestAReadOutlivesTwoMinutesWithoutNet(t *testing.T) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 400_000)
	for _, length := range []time.Duration{2 * time.Minute, time.Hour} {
		server := &s3test.Server{}
		server.Set("k", string(body))
		// The first answer is cut in the middle, and then there is no net.
		net := &s3test.Hostile{Evils: s3test.Evils{Truncate: 1}, Rand: func(int) int { return 0 }}
		b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, net), Clock: &until{when: length, then: net.Mend}})
		r, err := b.Get(t.Context(), "k", 0, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		net.Calm()
		net.Cut(false)
		got, err := io.ReadAll(r)
		if length < time.Hour && (err != nil || !bytes.Equal(got, body)) {
			t.Errorf("after %v it has read %d bytes, %v", length, len(got), err)
		}
		if length == time.Hour && !errors.Is(err, store.ErrBusy) {
			t.Errorf("after %v: %v", length, err)
		}
	}
}

// late is the machine's clock, and what a test adds to it.
type late struct {
	storetest.Clock
	by atomic.Int64
}

func (l *late) Now() time.Time { return time.Now().Add(time.Duration(l.by.Load())) }

// Credentials are renewed early. If their issuer is away just then, the old
// ones serve until they end; then requests wait for it, as for the store itself.
// Where there never were any, it is said.
func TestCredentialsOutliveWhoGivesThemOut(t *testing.T) {
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
		t.Setenv(name, "")
	}
	var away atomic.Bool
	desk := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if away.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"AccessKeyId":"test","SecretAccessKey":"s","Token":"t","Expiration":%q}`, time.Now().Add(2*time.Minute).UTC().Format(time.RFC3339))
	}))
	t.Cleanup(desk.Close)
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", desk.URL)
	clock := &late{}
	endpoint := serve(t, &s3test.Server{}, nil)
	b := open(t, "s3://facts", s3.Options{Endpoint: endpoint, Clock: clock})
	write := func(key string) error { return b.Create(t.Context(), key, strings.NewReader("x")) }
	clock.by.Store(-int64(time.Minute))
	if err := write("a"); err != nil {
		t.Fatal(err)
	}
	away.Store(true)
	if err := write("b"); err != nil {
		t.Errorf("they are good for a while: %v", err)
	}
	clock.by.Store(int64(4 * time.Minute))
	if err := write("c"); !errors.Is(err, store.ErrBusy) || !strings.Contains(err.Error(), "find credentials") {
		t.Errorf("they have ended, and nobody gives out others: %v", err)
	}
	away.Store(false)
	if err := write("c"); err != nil {
		t.Error(err)
	}
	desk.Close() // no answer at all
	clock.by.Store(int64(8 * time.Minute))
	if err := write("d"); !errors.Is(err, store.ErrBusy) {
		t.Errorf("they have ended, and who gives them out is gone: %v", err)
	}
	never := open(t, "s3://facts", s3.Options{Endpoint: endpoint, Clock: clock})
	if err := never.Create(t.Context(), "e", strings.NewReader("x")); fault.KindOf(err) != fault.Denied {
		t.Errorf("there never were any: %v", err)
	}
}

// A machine with a clock that is an hour late is told the time by the server, once.
func TestAMachineWithAWrongClockSignsByTheServers(t *testing.T) {
	refused := 0
	server := &s3test.Server{Before: func(w http.ResponseWriter, r *http.Request) bool {
		now := time.Now().Add(time.Hour).UTC()
		w.Header().Set("Date", now.Format(http.TimeFormat))
		signed, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
		if err == nil && now.Sub(signed).Abs() < 15*time.Minute {
			return false
		}
		refused++
		s3test.Refuse(w, http.StatusForbidden, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
		return true
	}}
	b := open(t, "s3://facts", s3.Options{Endpoint: serve(t, server, nil)})
	for _, key := range []string{"a", "b", "c"} {
		if err := b.Create(t.Context(), key, strings.NewReader("x")); err != nil {
			t.Error(err)
		}
	}
	if refused != 1 {
		t.Errorf("%d requests were refused", refused)
	}
}
