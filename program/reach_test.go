package program

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
	"github.com/drover-run/drover/store/mem"
)

// bubbleClock is the clock of a synctest bubble.
type bubbleClock struct{}

func (bubbleClock) Now() time.Time      { return time.Now() }
func (bubbleClock) Boot() time.Duration { return time.Since(time.Unix(0, 0)) }
func (bubbleClock) Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// unreached is a bucket of a server that never answers.
type unreached struct{ store.Bucket }

func (unreached) Get(ctx context.Context, _ string, _, _ int64) (io.ReadCloser, error) {
	<-ctx.Done()
	return nil, context.Cause(ctx)
}

func TestAnAgentOfNoUseEnds(t *testing.T) {
	for name, c := range map[string]struct {
		bucket     store.Bucket
		credential time.Duration // that it is good for; 0: it has none
		renewed    bool          // before it ends
		after      time.Duration // it ends; 0: it does not within three hours
		code       int
		why        string
	}{
		"it reaches its store":       {bucket: mem.New()},
		"it never reaches its store": {bucket: unreached{mem.New()}, after: 15 * time.Minute, code: fault.ExitDrover, why: "the store was not reached in 15 minutes"},
		"its credential ends": {bucket: mem.New(), credential: 30 * time.Minute, after: 90 * time.Minute, code: fault.ExitLater,
			why: "the credential for the store ended an hour ago, and no attached command has renewed it"},
		"its credential is renewed": {bucket: mem.New(), credential: 30 * time.Minute, renewed: true},
		"its credential ended long before": {bucket: unreached{mem.New()}, credential: -2 * time.Hour, after: reachLook, code: fault.ExitDrover,
			why: "the credential for the store ended an hour ago, and no attached command has renewed it"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				credential := filepath.Join(t.TempDir(), "pass")
				grant := func(good time.Duration) {
					text := fmt.Sprintf(`{"token":"secret","until":%q}`, time.Now().Add(good).Format(time.RFC3339))
					if err := os.WriteFile(credential, []byte(text), 0o600); err != nil {
						t.Fatal(err)
					}
				}
				if c.credential != 0 {
					grant(c.credential)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
				defer cancel()
				s := store.New(c.bucket, store.Options{Clock: bubbleClock{}})
				go func() { _, _ = s.Get(ctx, "key") }()
				if c.renewed {
					go func() {
						time.Sleep(c.credential)
						grant(24 * time.Hour)
					}()
				}
				begin, ended, status, reason := time.Now(), time.Duration(0), 0, ""
				watchReach(ctx, s, credential, func(code int, why string) { ended, status, reason = time.Since(begin), code, why })
				if late := ended - c.after; late < 0 || late > reachLook || status != c.code || reason != c.why {
					t.Errorf("it ends after %s with %d (%s), want %s and %d (%s)", ended, status, reason, c.after, c.code, c.why)
				}
			})
		})
	}
}
