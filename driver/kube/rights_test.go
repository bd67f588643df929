package kube

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/fault"
)

// Each verb is taken away in turn: the offer names it, and does not fit where agents cannot be
// started without it.
func TestEachRightThatIsLackingIsNamed(t *testing.T) {
	n := 0
	for _, r := range rights {
		for _, verb := range r.verbs {
			n++
			x := newTrial(t)
			x.fake.Deny(verb, r.resource)
			o, err := x.Offer(t.Context(), driver.Needs{})
			x.check(err)
			if len(o.Missing) != 1 || !strings.HasPrefix(o.Missing[0], verb+" "+r.resource) || o.Fits != r.helps {
				t.Errorf("%s %s: %+v", verb, r.resource, o)
			}
			if !r.helps && (o.Reason != "you may not "+verb+" "+r.resource+" in namespace train of fake" || fault.Hint(fault.New(fault.Denied, o.Hint, "x")) != "Have an administrator of the namespace apply what this prints: drover doctor --on kube/train@fake --policy submitters.") {
				t.Errorf("%s %s: %q, %q", verb, r.resource, o.Reason, o.Hint)
			}
		}
	}
	if n < 15 {
		t.Errorf("%d rights were taken away", n)
	}
	x := newTrial(t)
	x.fake.Deny("create", "selfsubjectrulesreviews")
	if o, err := x.Offer(t.Context(), driver.Needs{}); err != nil || !o.Fits || len(o.Missing) > 0 {
		t.Errorf("of a server that tells no rights: %+v, %v", o, err)
	}
}

// The Role holds every request that the driver makes, and no other: what a request does is in the
// error that the API server's refusal becomes.
func TestTheRoleIsWhatTheDriverAsksFor(t *testing.T) {
	text, err := Target.Policy(driver.Config{}, driver.Submitters, driver.Scope{Detail: "train@prod"})
	if err != nil || !strings.Contains(text, "namespace: train}") || strings.Count(text, "- {apiGroups") != len(rights) {
		t.Errorf("%v:\n%s", err, text)
	}
	if !strings.Contains(text, `{apiGroups: [""], resources: [secrets], verbs: [create, patch]}`) {
		t.Errorf("secrets may be read:\n%s", text)
	}
	_, err = Target.Policy(driver.Config{}, driver.Agents, driver.Scope{})
	refusedWith(t, err, fault.Invalid, "print policy: agents on Kubernetes ask the cluster for nothing", "Print what people must be granted: drover doctor --on kube --policy submitters.")
	if (api.Rule{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}, ResourceNames: []string{"one"}}).Allows("", "pods", "list") {
		t.Error("a rule for one object counts for all")
	}
}

// A user that may not watch is not refused again and again.
func TestAUserThatMayNotWatchIsAskedOnce(t *testing.T) {
	x := newTrial(t)
	x.fake.Hold()
	x.fake.Deny("watch", "pods")
	h, err := x.Start(t.Context(), x.request())
	x.check(err)
	_, err = x.Status(t.Context(), h)
	x.check(err)
	x.mu.Lock()
	w := x.watches[h]
	x.mu.Unlock()
	for w.quiet() {
		<-time.After(time.Millisecond)
	}
	x.views[h] = aged(x.views[h])
	_, err = x.Status(t.Context(), h)
	if x.check(err); x.watches[h] != w || w.mayBeginAnew() {
		t.Error("another watch was begun")
	}
}
