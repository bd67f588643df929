package s3

import (
	"reflect"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
)

func TestURLsArePlacesOrRefused(t *testing.T) {
	var said faulttest.Sayings
	for text, want := range map[string]string{
		"s3://bucket":                            "s3://bucket",
		"s3://bucket/":                           "s3://bucket",
		"s3://my.old_Bucket/a/b-c/":              "s3://my.old_Bucket/a/b-c",
		"s3://bucket/p?endpoint=http://h:9000":   "s3://bucket/p?endpoint=http://h:9000",
		"s3://bucket?region=eu-west-1&profile=x": "s3://bucket?profile=x&region=eu-west-1",
		"s3://bucket?anonymous=true":             "s3://bucket?anonymous=true",
		"s3://bucket?owner=123456789012":         "s3://bucket?owner=123456789012",
	} {
		p, err := parse(text, Options{})
		if err != nil || p.displayURL(p.given.Endpoint) != want {
			t.Errorf("%s: %s, %v", text, p.displayURL(p.given.Endpoint), err)
		}
	}
	for text, why := range map[string]string{
		"gs://bucket":                        "not an s3:// URL",
		"s3:bucket":                          "bucket",
		"s3://":                              "not a bucket's name",
		"s3://ab":                            "not a bucket's name",
		"s3://key:secret@bucket":             "holds no keys",
		"s3://bucket:9000/x":                 "server is named by endpoint",
		"s3://bucket--use1-az1--x-s3":        "directory bucket",
		"s3://bucket/a//b":                   "prefix",
		"s3://bucket/../x":                   "prefix",
		"s3://bucket/a%20b":                  "prefix",
		"s3://bucket/" + long(200):           "prefix",
		"s3://bucket?endpont=x":              `"endpont"`,
		"s3://bucket?endpoint=h:9000":        "http://",
		"s3://bucket?endpoint=http://k:s@h":  "no keys",
		"s3://bucket?owner=me":               "12 digits",
		"s3://bucket?anonymous=1&profile=me": "either",
		"s3://bucket?endpoint=ftp://h":       "http://",
		"s3://bucket?endpoint=http://h/?a=b": "no keys",
		"s3://bucket?endpoint=http://h/%s":   "query",
	} {
		_, err := parse(text, Options{})
		said.Error(text, err)
		if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", text, err)
		}
	}
	said.Compare(t, "places")
}

func long(n int) string { return strings.Repeat("x", n) }

func FuzzURLsThatAreReadAreNames(f *testing.F) {
	for _, text := range []string{"s3://bucket/a/b?endpoint=http://h:1&region=r", "s3://b.c-d_e", "s3://bucket?anonymous=true", "s3://k:s@bucket", "s3://bucket/%2e%2e/x"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parse(text, Options{})
		if err != nil {
			return
		}
		name := p.displayURL(p.given.Endpoint)
		again, err := parse(name, Options{})
		if err != nil || !reflect.DeepEqual(again, p) {
			t.Errorf("%q is called %q, which is %v, %v", text, name, again, err)
		}
	})
}

func TestAPlaceInTheOrderOfKeysCanBeSent(t *testing.T) {
	keys := []string{"a", "a-b", "a/b", "ab", "az", "b"}
	for _, after := range []string{"a", "a\xff", "a b", "a\x00", "é", "~", "", "a/", "a:"} {
		sent := printable(after)
		for _, key := range keys {
			if (key > after) != (key > sent) && key > after {
				t.Errorf("after %q, sent as %q, %s would be missed", after, sent, key)
			}
		}
	}
}

// A key typed where none belongs is a real one.
func TestNoRefusalRepeatsAKey(t *testing.T) {
	for _, text := range []string{"s3://AKIA:hush@bucket/x", "s3://AKIA:hu/sh+hush@bucket", "s3://b?endpoint=http://me:hush@h", "s3://bucket?region=r&endpoint=https://me:hush@h/x"} {
		if _, err := parse(text, Options{}); err == nil || strings.Contains(err.Error()+fault.Hint(err), "hush") || !strings.Contains(err.Error(), "keys") && strings.Contains(text, "bucket") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// A slip may put a second URL anywhere.
func TestNoRefusalRepeatsAPasswordOfAMisplacedURL(t *testing.T) {
	for _, text := range []string{"s3://bucket/p&endpoint=http://u:hush@h", "s3://bucket?http://u:hush@h", "s3://bucket/p?endpoint=u:hush@h:1", "s3://bucket/x/https://u:hush@h", "s3:/u:hush@bucket", "s3://bucket?region=http://u:hush@h&x=y"} {
		if _, err := parse(text, Options{}); err == nil || strings.Contains(err.Error()+fault.Hint(err), "hush") {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The name of a store is an argument of agents and stands in records.
func TestAnAddressWithAPasswordIsRefusedWhereverItIsFrom(t *testing.T) {
	for _, at := range []string{"http://me:hush@127.0.0.1:9", "https://127.0.0.1:9/?token=hush", "me:hush@127.0.0.1:9"} {
		t.Setenv("AWS_ENDPOINT_URL", at)
		_, err := Open(t.Context(), "s3://facts", Options{})
		if fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error()+fault.Hint(err), "hush") || !strings.Contains(fault.Hint(err), "AWS_ENDPOINT_URL") {
			t.Errorf("%s: %v: %s", at, err, fault.Hint(err))
		}
	}
}

func TestAnAddressWithoutASchemeIsRefused(t *testing.T) {
	t.Setenv("AWS_ENDPOINT_URL", "127.0.0.1:9000")
	_, err := Open(t.Context(), "s3://facts", Options{})
	if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), "http://") || !strings.Contains(err.Error(), "127.0.0.1:9000") {
		t.Errorf("%v: %s", err, fault.Hint(err))
	}
}
