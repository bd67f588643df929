package batch

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/remote"
	"github.com/drover-run/drover/fault"
)

// expiring stands before the fake, and takes each key for some requests alone.
type expiring struct {
	next http.Handler
	good int

	mu   sync.Mutex
	used map[string]int // requests by key
}

var keyForm = regexp.MustCompile(`Credential=(\w+)/`)

func (e *expiring) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := keyForm.FindStringSubmatch(r.Header.Get("Authorization"))[1]
	e.mu.Lock()
	e.used[key]++
	ended := e.used[key] > e.good
	e.mu.Unlock()
	if ended {
		w.Header().Set("X-Amzn-ErrorType", "ExpiredTokenException")
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintln(w, `{"message": "The security token included in the request is expired"}`)
		return
	}
	e.next.ServeHTTP(w, r)
}

// Keys end in the middle of everything: new ones are asked for, and nothing is done twice.
func TestCredentialsThatEndAreRenewed(t *testing.T) {
	a := newAccount(t)
	a.Hold()
	dir := t.TempDir()
	give := filepath.Join(dir, "give")
	text := fmt.Sprintf("#!/bin/sh\necho x >>%[1]s/count\nn=$(wc -l <%[1]s/count)\n"+
		`echo '{"Version": 1, "AccessKeyId": "KEY'$((n))'", "SecretAccessKey": "secret", "SessionToken": "token", "Expiration": "2099-01-01T00:00:00Z"}'`+"\n", dir)
	if err := os.WriteFile(give, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "config")
	if err := os.WriteFile(config, []byte("[default]\ncredential_process = "+give+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"AWS_CONFIG_FILE": config, "AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "none"), "AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""} {
		t.Setenv(name, value)
	}
	e := &expiring{next: a.Server, good: 2, used: map[string]int{}}
	s := httptest.NewServer(e)
	defer s.Close()
	d := a.driverOf(t, remote.Options{Settle: 100 * time.Millisecond, Look: 10 * time.Millisecond})
	d.engine.clients = amazon.NewClients(func(ctx context.Context, region string) (*client, string, error) {
		account, err := amazon.Open(ctx, amazon.Options{Region: region})
		if err != nil {
			return nil, "", err
		}
		account.Config.BaseEndpoint = aws.String(s.URL)
		c := newClient(account, "eu-west-1", 2*time.Second)
		return c, c.region, nil
	})
	r := a.request(t, 3)
	o, err := d.Offer(t.Context(), driver.Needs{Agents: 3, Detail: r.Needs.Detail})
	if err != nil || !o.Fits {
		t.Fatalf("%+v, %v", o, err)
	}
	h, err := d.Start(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := d.Status(t.Context(), h); err != nil || len(st) != 3 {
		t.Errorf("%+v, %v", st, err)
	}
	if err := d.Stop(t.Context(), h, 0, true); err != nil {
		t.Error(err)
	}
	if n := a.Submitted(); n != 1 {
		t.Errorf("%d jobs were submitted", n)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.used) < 4 {
		t.Errorf("of keys that are good for two requests there were used %v", e.used)
	}
}

func TestWithoutARegionNoneIsAsked(t *testing.T) {
	t.Setenv("AWS_REGION", "")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	_, _, err := openClient(t.Context(), "")
	if fault.KindOf(err) != fault.Invalid || err.Error() != "ask AWS Batch: there is no region" || fault.Hint(err) != "Say where: --on batch/QUEUE@REGION, or export AWS_REGION=REGION." {
		t.Errorf("%v\n%s", err, fault.Hint(err))
	}
}
