package program

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/store"
)

// What a plan says of a pass names what agents may do with it, until when, and what
// to type for a narrower one.
func TestThePlanSaysWhatAPassIs(t *testing.T) {
	soon, late := time.Now().Add(time.Hour), time.Now().Add(12*time.Hour)
	for want, p := range map[string]store.Pass{
		"": {},
		"agents are given a session for this task alone, until " + late.Format(time.DateTime):                                                 {File: []byte("x"), Until: late},
		"agents are given a session for this task alone, until " + soon.Format(time.DateTime) + "; it is renewed while a command is attached": {File: []byte("x"), Until: soon},
		"agents are given your own key, as nothing narrower is to be had (no): see docs/how-to/rights.md":                                     {File: []byte("x"), Wide: true, Why: "no"},
		"agents are given a session that may do all that you may, until " + soon.Format(time.DateTime) +
			", as nothing narrower is to be had (a session gives no narrower one): drover config set agent_role ARN": {File: []byte("x"), Wide: true, Until: soon,
			Why: "a session gives no narrower one", Fix: "drover config set agent_role ARN"},
	} {
		if got := ofPass(p); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if strings.Contains(ofPass(store.Pass{File: []byte("sesame"), Until: late}), "sesame") {
		t.Error("it shows the pass")
	}
}
