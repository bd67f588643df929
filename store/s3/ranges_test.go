package s3

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drover-run/drover/store"
)

// served is a bucket of a server that answers so.
func served(t *testing.T, answer func(*http.Request) *http.Response) *Bucket {
	b, c, _ := filmed(t, "s3://facts", Options{})
	o := c.Options()
	o.HTTPClient = answering(func(r *http.Request) *http.Response {
		a := answer(r)
		a.Request = r
		return a
	})
	b.conn.client.Store(b.conn.newClient(s3.New(o)))
	return b
}

func partly(says, body string) *http.Response {
	return &http.Response{StatusCode: http.StatusPartialContent, Header: http.Header{"Content-Range": {says}, "Etag": {`"x"`}},
		Body: io.NopCloser(strings.NewReader(body)), ContentLength: int64(len(body))}
}

// What a server or a proxy calls another range is not taken for the one that was
// asked for.
func TestAnotherRangeThanWasAskedForIsRefused(t *testing.T) {
	const body = "23456"
	for says, sound := range map[string]bool{
		"bytes 2-6/10":  true,
		"bytes 2-6/*":   true,
		"bytes 2-6/7":   true,
		"bytes 0-4/10":  false,
		"bytes 2-5/10":  false, // and five bytes
		"bytes 3-7/10":  false,
		"bytes 2-6":     false,
		"2-6/10":        false,
		"bytes */10":    false,
		"bytes -2-2/10": false,
	} {
		b := served(t, func(*http.Request) *http.Response { return partly(says, body) })
		got, err := fetched(t, b, 2, 5)
		if (err == nil) != sound || sound && got != body {
			t.Errorf("%s: %q, %v", says, got, err)
		}
	}
	for says, sound := range map[string]bool{
		"bytes 2-6/7":  true, // it ends there
		"bytes 2-6/10": false,
		"bytes 2-6/*":  true,
	} {
		b := served(t, func(*http.Request) *http.Response { return partly(says, body) })
		for _, n := range []int64{8, -1} {
			if got, err := fetched(t, b, 2, n); (err == nil) != sound || sound && got != body {
				t.Errorf("%d bytes, %s: %q, %v", n, says, got, err)
			}
		}
	}
}

func fetched(t *testing.T, b *Bucket, off, n int64) (string, error) {
	r, err := b.Get(t.Context(), "k", off, n)
	if err != nil {
		return "", err
	}
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, r.Close())
}

// A read that broke does not go on in what may be another object: where nothing names
// this one, it is to be read anew.
func TestABrokenReadGoesOnInTheSameObjectAlone(t *testing.T) {
	for tag, goesOn := range map[string]bool{`"x"`: true, `W/"x"`: false, "": false} {
		var asked []string
		b := served(t, func(r *http.Request) *http.Response {
			asked = append(asked, r.Header.Get("Range")+" "+r.Header.Get("If-Match"))
			h := http.Header{}
			if tag != "" {
				h.Set("Etag", tag)
			}
			if len(asked) == 1 {
				return &http.Response{StatusCode: 200, Header: h, Body: io.NopCloser(io.MultiReader(strings.NewReader("0123"), broken{})), ContentLength: 10}
			}
			h.Set("Content-Range", "bytes 4-9/10")
			return &http.Response{StatusCode: http.StatusPartialContent, Header: h, Body: io.NopCloser(strings.NewReader("456789")), ContentLength: 6}
		})
		got, err := fetched(t, b, 0, -1)
		switch {
		case goesOn && (err != nil || got != "0123456789" || len(asked) != 2 || asked[1] != `bytes=4-9 "x"`):
			t.Errorf("%s: %q, %v, asked %q", tag, got, err, asked)
		case !goesOn && (!errors.Is(err, store.ErrReplaced) || len(asked) != 1):
			t.Errorf("%s: %q, %v, asked %q", tag, got, err, asked)
		}
	}
}

// A reader of one object is given no other, though the answer named none.
func TestABrokenReadOfOneObjectGoesOnInThatOne(t *testing.T) {
	var asked []string
	b := served(t, func(r *http.Request) *http.Response {
		asked = append(asked, r.Header.Get("Range")+" "+r.Header.Get("If-Match"))
		says, body := "bytes 2-9/10", io.MultiReader(strings.NewReader("23"), broken{})
		if len(asked) > 1 {
			says, body = "bytes 4-9/10", strings.NewReader("456789")
		}
		a := partly(says, "")
		a.Header.Del("Etag")
		a.Body, a.ContentLength = io.NopCloser(body), int64(10-2*len(asked))
		return a
	})
	r, err := b.GetOf(t.Context(), store.Object{Key: "k", Size: 10, Tag: "x"}, 2, 8)
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(r)
	if err != nil || string(got) != "23456789" || !slices.Equal(asked, []string{`bytes=2-9 "x"`, `bytes=4-9 "x"`}) {
		t.Errorf("%q, %v, asked %q", got, err, asked)
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// A weak ETag names no bytes: such an object is read in one piece.
func TestAnObjectWithAWeakETagIsNotReadInPieces(t *testing.T) {
	b := served(t, func(*http.Request) *http.Response {
		return &http.Response{StatusCode: 200, Header: http.Header{"Etag": {`W/"x"`}}, Body: http.NoBody, ContentLength: 10}
	})
	if _, err := b.Look(t.Context(), "k"); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("%v", err)
	}
}
