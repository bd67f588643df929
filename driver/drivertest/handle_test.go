package drivertest

import (
	"testing"

	"github.com/drover-run/drover/driver"
)

func FuzzAHandleIsReadOnlyAsItWasPrinted(f *testing.F) {
	for _, text := range []string{"local:v1:abcd2345:1", "local:v1:abcd2345:01", "local:v1:abcd2345:1 ", "local:v2:a:1", ":v1::0", "a:v1:b:-1", "::::", "a:v1:b:9999999999999999999999",
		"kube/train@arn:aws:eks:eu-west-1:12:cluster/prod:v1:abcd2345:1", "a/:v1:b:1", "a/b\x00:v1:c:1", "a:b:v1:c:1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if h, err := driver.ParseHandle(text); err == nil && h.String() != text {
			t.Errorf("%q is read as %s", text, h)
		}
	})
}
