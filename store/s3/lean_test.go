package s3

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/go-cmp/cmp"
)

// camera takes down what goes over the wire, and answers that it was done.
type camera struct{ sent []string }

func (c *camera) Do(r *http.Request) (*http.Response, error) {
	var wire bytes.Buffer
	if err := r.Write(&wire); err != nil {
		return nil, err
	}
	head, body, _ := strings.Cut(wire.String(), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	var kept []string
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		switch {
		case strings.HasPrefix(name, "Amz-Sdk-"), name == "User-Agent": // what the SDK says of itself
			continue
		case name == "X-Amz-Date":
			value = "now"
		case name == "Authorization":
			value = strings.NewReplacer("amz-sdk-invocation-id;", "", "amz-sdk-request;", "").Replace(value)
			value, _, _ = strings.Cut(value, "Signature=")
		}
		kept = append(kept, name+": "+value)
	}
	slices.Sort(kept)
	c.sent = append(c.sent, r.URL.Scheme+"://"+r.URL.Host+" "+lines[0]+"\n"+strings.Join(kept, "\n")+"\n\n"+body)
	return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}, Request: r}, nil
}

// filmed opens url with a camera where the net would be.
func filmed(t testing.TB, url string, o Options) (*Bucket, *client, *camera) {
	t.Helper()
	b, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	film := &camera{}
	so := b.conn.client.Load().Options()
	so.HTTPClient = film
	return b, b.conn.newClient(s3.New(so)), film
}

// bothWays sends the same by us and by the SDK.
func bothWays(ctx context.Context, b *Bucket, c *client, film *camera, key string, body []byte, unless, part, tag string) (ours, theirs []string, err error) {
	film.sent = nil
	sum := *wire(crc32.Checksum(body, castagnoli()))
	if err := c.putObject(ctx, key, body, sum, unless); err != nil {
		return nil, nil, fmt.Errorf("put: %w", err)
	}
	if _, err := c.getObject(ctx, key, part, tag); err != nil {
		return nil, nil, fmt.Errorf("get: %w", err)
	}
	ours, film.sent = film.sent, nil
	if _, err := c.PutObject(ctx, &s3.PutObjectInput{Bucket: &b.bucket, Key: &key, ExpectedBucketOwner: b.conn.expectedOwner(), IfNoneMatch: some(unless),
		Body: bytes.NewReader(body), ContentLength: aws.Int64(int64(len(body))), ChecksumCRC32C: &sum}); err != nil {
		return nil, nil, fmt.Errorf("put by the SDK: %w", err)
	}
	if _, err := c.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.bucket, Key: &key, ExpectedBucketOwner: b.conn.expectedOwner(), Range: some(part), IfMatch: some(tag)}); err != nil {
		return nil, nil, fmt.Errorf("get by the SDK: %w", err)
	}
	return ours, film.sent, nil
}

// Keys as bare and as odd as a bucket may hold them.
var oddKeys = []string{
	"0", "a", "team/log/00000000", "a b", "ü/日本", "a//b", "a/./b", "./a", "../../a", "a/..", "a+b", "100%", "%2F%20%zz", "~'()*!-_.",
	"?a=b&c#d;e:f@g,h$i", "[1]{2}|^`\\\"<>", "\x01\x7f\t\n", "/lead", "//lead", "trail/", "a\xff\xfe", strings.Repeat("long/", 200),
}

func TestLeanRequestsAreTheSDKs(t *testing.T) {
	for _, row := range []struct {
		name, url string
		o         Options
		env       []string
	}{
		{name: "Amazon's", url: "s3://facts?region=eu-central-1"},
		{name: "no region", url: "s3://facts"},
		{name: "a dot in its name", url: "s3://facts.of.life?region=us-west-2"},
		{name: "no name of a host", url: "s3://Old_Facts"},
		{name: "path style", url: "s3://facts?region=us-west-2", o: Options{PathStyle: true}},
		{name: "China", url: "s3://facts?region=cn-north-1"},
		{name: "an access point's alias", url: "s3://agents-abcdefghijklmnopqrstuvwxyz1234-s3alias?region=us-west-2"},
		{name: "both protocols", url: "s3://facts?region=us-west-2", env: []string{"AWS_USE_DUALSTACK_ENDPOINT=true"}},
		{name: "certified", url: "s3://facts?region=us-gov-west-1", env: []string{"AWS_USE_FIPS_ENDPOINT=true"}},
		{name: "another's server", url: "s3://facts", o: Options{Endpoint: "http://minio:9000"}},
		{name: "one with a path", url: "s3://facts", o: Options{Endpoint: "https://host/base/s3/"}},
		{name: "one with a number", url: "s3://facts", o: Options{Endpoint: "http://[::1]:9000"}},
		{name: "a usual port", url: "s3://facts", o: Options{Endpoint: "https://host:443"}},
		{name: "from the environment", url: "s3://facts", env: []string{"AWS_ENDPOINT_URL_S3=http://here:80"}},
		{name: "somebody's", url: "s3://facts?owner=123456789012"},
		{name: "a public one", url: "s3://facts?anonymous=true&region=eu-west-1"},
		{name: "a public one of a server", url: "s3://facts?anonymous=true", o: Options{Endpoint: "http://host"}},
		{name: "a session", url: "s3://facts", env: []string{"AWS_SESSION_TOKEN=token/+="}},
		{name: "named by a program", url: "s3://facts", env: []string{"AWS_SDK_UA_APP_ID=app"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, e := range row.env {
				name, value, _ := strings.Cut(e, "=")
				t.Setenv(name, value)
			}
			b, c, film := filmed(t, row.url, row.o)
			for i, key := range oddKeys {
				body := make([]byte, []int{0, 1, 4096}[i%3])
				ours, theirs, err := bothWays(t.Context(), b, c, film, key, body, []string{"", "*"}[i%2], []string{"", "bytes=1-3", "bytes=7-"}[i%3], []string{"", `"tag"`}[i%2])
				if err != nil {
					t.Fatalf("%q: %v", key, err)
				}
				if diff := cmp.Diff(theirs, ours); diff != "" || len(ours) != 2 {
					t.Errorf("%q: %s", key, diff)
				}
			}
			for _, size := range []int{big - 1, big} {
				ours, theirs, err := bothWays(t.Context(), b, c, film, "k", make([]byte, size), "*", "", "")
				if err != nil || !slices.Equal(ours, theirs) {
					t.Errorf("%d bytes: %v", size, err)
				}
			}
		})
	}
}

func FuzzLeanKeys(f *testing.F) {
	for _, key := range oddKeys {
		f.Add(key, "*", "bytes=0-1", `"t"`)
	}
	type place struct {
		b    *Bucket
		c    *client
		film *camera
	}
	var places []place
	for _, url := range []string{"s3://facts?region=eu-central-1", "s3://facts?endpoint=http://host:9000/base", "s3://facts?anonymous=true"} {
		b, c, film := filmed(f, url, Options{})
		places = append(places, place{b, c, film})
	}
	f.Fuzz(func(t *testing.T, key, unless, part, tag string) {
		if key == "" || strings.ContainsFunc(unless+part+tag, func(r rune) bool { return r < ' ' || r > '~' }) || unless+part+tag != strings.TrimSpace(unless+part+tag) {
			t.Skip() // no key, no header
		}
		for _, p := range places {
			ours, theirs, err := bothWays(t.Context(), p.b, p.c, p.film, key, []byte(part), unless, part, tag)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(theirs, ours); diff != "" {
				t.Error(diff)
			}
		}
	})
}

// The way of an answer back must be the SDK's too: one server, both clients.
func TestLeanAnswersAreTheSDKs(t *testing.T) {
	answers := []struct {
		name   string
		status int
		header string
		body   string
	}{
		{"done", 200, "", ""},
		{"done, with a word", 200, "", "<Done/>"},
		{"late", 200, "", "<Error><Code>InternalError</Code><Message>Late.</Message></Error>"},
		{"late, without a word", 200, "", "<Error/>"},
		{"late, cut off", 200, "", "<Error><Code>Inter"},
		{"no xml", 200, "", "welcome to the hotel"},
		{"exists", 412, "", "<Error><Code>PreconditionFailed</Code><Message>At least one.</Message></Error>"},
		{"conflict", 409, "", "<Error><Code>ConditionalRequestConflict</Code></Error>"},
		{"no such key", 404, "X-Amz-Request-Id: 4711", `<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message>It is not there.</Message><Key>a</Key></Error>`},
		{"nothing said", 404, "", ""},
		{"nothing said of 403", 403, "", ""},
		{"a proxy", 502, "", "<html><body>Bad gateway</body></html>"},
		{"no xml of a proxy", 503, "", "try later"},
		{"cut off", 503, "", "<Error><Code>SlowDo"},
		{"moved", 301, "X-Amz-Bucket-Region: eu-west-3", "<Error><Code>PermanentRedirect</Code></Error>"},
		{"not modified", 304, "", ""},
		{"a message alone", 400, "", "<Error><Message>no</Message></Error>"},
		{"odd status", 599, "", ""},
		{"no element", 200, "", "<!-- -->"},
		{"no xml at all", 200, "", "<<<"},
	}
	_, c, _ := filmed(t, "s3://facts", Options{})
	for _, a := range answers {
		t.Run(a.name, func(t *testing.T) {
			o := c.Options()
			o.HTTPClient = answering(func(r *http.Request) *http.Response {
				h := http.Header{"Date": {time.Now().UTC().Format(http.TimeFormat)}}
				if name, value, ok := strings.Cut(a.header, ": "); ok {
					h.Set(name, value)
				}
				return &http.Response{StatusCode: a.status, Header: h, Body: io.NopCloser(strings.NewReader(a.body)), ContentLength: int64(len(a.body)), Request: r}
			})
			conn := &connection{place: place{bucket: "facts"}}
			ours := conn.newClient(s3.New(o))
			_, put := ours.PutObject(t.Context(), &s3.PutObjectInput{Bucket: aws.String("facts"), Key: aws.String("a"), Body: strings.NewReader("x"),
				ContentLength: aws.Int64(1), ChecksumCRC32C: aws.String("AAAAAA==")})
			_, get := ours.GetObject(t.Context(), &s3.GetObjectInput{Bucket: aws.String("facts"), Key: aws.String("a")})
			_, gotGet := ours.getObject(t.Context(), "a", "", "")
			for _, both := range []struct{ ours, theirs error }{{ours.putObject(t.Context(), "a", []byte("x"), "AAAAAA==", ""), put}, {gotGet, get}} {
				want, got := hear(both.theirs), hear(both.ours)
				want.Err, got.Err = nil, nil
				if want != got || (both.ours == nil) != (both.theirs == nil) {
					t.Errorf("heard %+v, the SDK hears %+v: %v", got, want, both.theirs)
				}
			}
		})
	}
}

type answering func(*http.Request) *http.Response

func (a answering) Do(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
	}
	return a(r), nil
}

// What is brought is compared with whatever checksum is told of it, as the SDK does.
func TestLeanComparesWhatTheSDKDoes(t *testing.T) {
	const body = "123456789"
	_, c, _ := filmed(t, "s3://facts", Options{})
	for _, row := range []struct {
		kind, sum     string
		ranged, wrong bool
	}{
		{kind: "Crc32c", sum: "4waSgw=="},
		{kind: "Crc32c", sum: "4waSgw==", ranged: true},
		{kind: "Crc32c", sum: "4waSgx==", wrong: true},
		{kind: "Crc32c", sum: "4waSgx==", ranged: true, wrong: true},
		{kind: "Crc32c", sum: "4waSgx==-1"}, // of the parts
		{kind: "Crc32", sum: "y/Q5Jg=="},
		{kind: "Crc32", sum: "y/Q5JQ==", wrong: true},
		{kind: "Crc64nvme", sum: "rosUhgp5mIg="},
		{kind: "Crc64nvme", sum: "rosUhgp5mIg=", ranged: true},
		{kind: "Crc64nvme", sum: "rosUhgp5mIk=", wrong: true},
		{kind: "Sha1", sum: "98O8HYCOBHMq32eZZczDTKeuNEE="},
		{kind: "Sha1", sum: "98O8HYCOBHMq32eZZczDTKeuNEF=", wrong: true},
		{kind: "Sha256", sum: "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU="},
		{kind: "Sha256", sum: "feKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSOsiU=1", wrong: true},
		{kind: "Sha512", sum: "2eZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ=="},
		{kind: "Sha512", sum: "AeZ2LdHI6vbWGzxhkvxAjU1tXxF20MKRabwk5xw/J0rSf81YEbMT1oH35V7ALXPUmclUVba1u1A6z1dPuo/+hQ==", wrong: true},
		{kind: "Md5", sum: "that nobody compares"},
	} {
		o := c.Options()
		o.HTTPClient = answering(func(r *http.Request) *http.Response {
			h := http.Header{"X-Amz-Checksum-" + row.kind: {row.sum}}
			if row.ranged {
				h.Set("Content-Range", "bytes 0-8/9")
			}
			return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body)), Request: r}
		})
		conn := &connection{place: place{bucket: "facts"}}
		both := conn.newClient(s3.New(o))
		theirs, err := both.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &conn.bucket, Key: aws.String("a")})
		if err != nil {
			t.Fatal(err)
		}
		ours, err := both.getObject(t.Context(), "a", "", "")
		if err != nil {
			t.Fatal(err)
		}
		_, theirErr := io.ReadAll(theirs.Body)
		got, ourErr := io.ReadAll(&object{conn: conn, body: ours, end: ours.size, want: ours.sum})
		if (ourErr != nil) != row.wrong || (theirErr != nil) != row.wrong || string(got) != body {
			t.Errorf("%s %s: %v, of the SDK %v", row.kind, row.sum, ourErr, theirErr)
		}
	}
}

func TestAGetWhoseLengthIsNotSaidIsRefused(t *testing.T) {
	b, c, _ := filmed(t, "s3://facts", Options{})
	o := c.Options()
	o.HTTPClient = answering(func(r *http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader("some")), ContentLength: -1, Request: r}
	})
	b.conn.client.Store(b.conn.newClient(s3.New(o)))
	if _, err := b.Get(t.Context(), "k", 0, -1); !errors.Is(err, errNoLength) {
		t.Errorf("%v", err)
	}
	if _, err := b.Get(t.Context(), "k", 1, -1); !errors.Is(err, errNoRanges) {
		t.Errorf("%v", err)
	}
}

// A pattern is learnt, and a client replaced, while others use the one that is there:
// nothing that it points to is written to.
func TestAnotherClientLeavesTheFirstAlone(t *testing.T) {
	c := served(t, func(*http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Body: http.NoBody, Header: http.Header{}}
	}).conn.client.Load()
	before := c.Options().ExpressCredentials
	if before == nil {
		t.Fatal("the SDK keeps no provider any more: another is not needed")
	}
	for name, o := range map[string]s3.Options{"learn": c.o, "another": c.Options()} {
		if got := another(o).Options().ExpressCredentials; got == nil || got == before {
			t.Errorf("%s: the clients share %p", name, got)
		}
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() { _, _ = c.get() })
		all.Go(func() { _, _ = c.put() })
		all.Go(func() { _, _ = c.HeadBucket(t.Context(), &s3.HeadBucketInput{Bucket: aws.String("facts")}) })
	}
	all.Wait()
}
