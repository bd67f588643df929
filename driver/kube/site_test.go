package kube

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/fault"
)

// refusedWith expects a fault with these words and this next step.
func refusedWith(t *testing.T, err error, kind fault.Kind, text, hint string) {
	t.Helper()
	if err == nil || fault.KindOf(err) != kind || err.Error() != text || fault.Hint(err) != hint {
		t.Errorf("%v (%s)\n  %s\nwant %s (%s)\n  %s", err, fault.KindOf(err), fault.Hint(err), text, kind, hint)
	}
}

const twoClusters = `{"apiVersion":"v1","kind":"Config","current-context":"prod",
"clusters":[{"name":"a","cluster":{"server":"https://10.0.0.1:6443/"}},{"name":"b","cluster":{"server":"https://10.0.0.2"}}],
"users":[{"name":"ann","user":{"token":"x"}}],
"contexts":[{"name":"prod","context":{"cluster":"a","user":"ann","namespace":"train"}},{"name":"arn:aws:eks:eu:1:cluster/test","context":{"cluster":"b","user":"ann"}},
{"name":"ann@kind","context":{"cluster":"b","user":"ann"}},{"name":"broken","context":{"cluster":"c","user":"ann"}}]}`

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestADetailMeansANamespaceOfACluster(t *testing.T) {
	d := New(t.TempDir())
	d.kubeconfig = writeConfig(t, twoClusters)
	for detail, want := range map[string]string{
		"":                               "train@prod@https://10.0.0.1:6443",
		"other":                          "other@prod@https://10.0.0.1:6443",
		"@arn:aws:eks:eu:1:cluster/test": "default@arn:aws:eks:eu:1:cluster/test@https://10.0.0.2",
		"x@ann@kind":                     "x@ann@kind@https://10.0.0.2",
		// The context means another server by now, and another context means this one.
		"x@prod@https://10.0.0.2": "x@ann@kind@https://10.0.0.2",
		"x@gone@https://10.0.0.2": "x@ann@kind@https://10.0.0.2",
	} {
		_, s, err := d.dial(detail, true)
		if err != nil || s.String() != want {
			t.Errorf("%q means %s, %v; want %s", detail, s, err, want)
		}
		if again, err := parseSite(s.String()); err != nil || again != s {
			t.Errorf("%s is read as %+v, %v", s, again, err)
		}
	}
}

func TestADetailThatMeansNothingIsRefused(t *testing.T) {
	d := New(t.TempDir())
	d.kubeconfig = writeConfig(t, twoClusters)
	for detail, c := range map[string]struct {
		kind       fault.Kind
		text, hint string
	}{
		"Train":                   {fault.Invalid, `choose target: "Train" is not a namespace`, "Write it as --on kube/NAMESPACE or --on kube/NAMESPACE@CONTEXT."},
		"x@prot":                  {fault.Invalid, `find a cluster: there is no context "prot"`, "Use --on kube/x@prod."},
		"x@elsewhere":             {fault.Invalid, `find a cluster: there is no context "elsewhere"`, "See them: kubectl config get-contexts."},
		"x@broken":                {fault.Invalid, `find a cluster: the context broken names the cluster "c", which is not there`, "Mend the kubeconfig."},
		"x@prod@https://10.0.0.9": {fault.Missing, "find the cluster of the job: it is at https://10.0.0.9, and the context prod leads to https://10.0.0.1:6443", "Add a context for the job's cluster to your kubeconfig, under any name."},
		"x@gone@https://10.0.0.9": {fault.Missing, "find the cluster of the job: no context leads to https://10.0.0.9", "Add the cluster to your kubeconfig, under any name."},
	} {
		_, _, err := d.dial(detail, true)
		t.Log(detail)
		refusedWith(t, err, c.kind, c.text, c.hint)
	}
	d.kubeconfig = writeConfig(t, `{"contexts":[{"name":"a","context":{"cluster":"a"}}]}`)
	_, _, err := d.dial("", true)
	refusedWith(t, err, fault.Invalid, "find a cluster: the kubeconfig has no current context", "Choose one: kubectl config use-context NAME, or --on kube/NAMESPACE@CONTEXT.")
	d.kubeconfig = writeConfig(t, `{"current-context":"a","clusters":[{"name":"a","cluster":{"server":"https://x","certificate-authority":"/no/such"}}],"contexts":[{"name":"a","context":{"cluster":"a"}}]}`)
	if _, _, err = d.dial("", true); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "connect to the cluster of context a: ") || fault.Hint(err) != "Mend the context in the kubeconfig." {
		t.Errorf("%v", err)
	}
	d.kubeconfig = writeConfig(t, "{")
	if _, _, err := d.dial("", true); fault.KindOf(err) != fault.Invalid || !strings.HasPrefix(err.Error(), "read the kubeconfig: ") || fault.Hint(err) != "Mend it, or name another one with KUBECONFIG." {
		t.Errorf("%v", err)
	}
}

// A machine without a kubeconfig is asked by every list of targets.
func TestWithoutAClusterAnOfferSaysSo(t *testing.T) {
	d := New(t.TempDir())
	d.kubeconfig = writeConfig(t, "{}")
	_, err := d.Offer(t.Context(), driver.Needs{Agents: 1})
	refusedWith(t, err, fault.Missing, "find a cluster: there is no kubeconfig", "Get a kubeconfig from your cluster's provider, and name its file with KUBECONFIG.")
	if held, err := d.List(t.Context()); err != nil || len(held) != 0 {
		t.Errorf("List gives %v, %v", held, err)
	}
}

func TestARefusalOfTheAPIServerNamesTheNextStep(t *testing.T) {
	s := site{"train", "prod", "https://10.0.0.1"}
	for name, c := range map[string]struct {
		err        error
		kind       fault.Kind
		text, hint string
	}{
		"credentials": {&api.Error{Code: 401}, fault.Denied, "start agents: the cluster of context prod does not accept the credentials",
			"Log in again, as your cluster's provider says; kubectl --context prod get pods tells whether it helped."},
		"rights": {&api.Error{Code: 403, Verb: "create", Kind: "jobs", Message: `jobs.batch is forbidden: User "ann" cannot create resource "jobs"`}, fault.Denied,
			`start agents: Kubernetes says: jobs.batch is forbidden: User "ann" cannot create resource "jobs"`,
			"Ask for the right to create jobs in namespace train: docs/how-to/kube.md has all that drover needs."},
		"quota": {&api.Error{Code: 403, Message: "jobs is forbidden: exceeded quota: compute"}, fault.Full, "start agents: Kubernetes says: jobs is forbidden: exceeded quota: compute",
			"Ask for less, or wait until other pods of the namespace have ended."},
		"namespace": {&api.Error{Code: 404, Message: `namespaces "train" not found`}, fault.Invalid, "start agents: there is no namespace train in prod",
			"See them: kubectl --context prod get namespaces; then --on kube/NAMESPACE."},
		"busy":    {&api.Error{Code: 429, Message: "too many"}, fault.Lost, "start agents: Kubernetes says: too many", "Try again in a while."},
		"invalid": {&api.Error{Code: 422, Message: "no PriorityClass with name nope was found"}, fault.Invalid, "start agents: Kubernetes says: no PriorityClass with name nope was found", "See them: kubectl get priorityclasses; then --target-arg priority=NAME."},
		"silent": {&api.Unreachable{Server: "https://10.0.0.1", Err: errors.New("connection refused")}, fault.Lost, "start agents: https://10.0.0.1 does not answer: connection refused",
			"Is the network up, and the cluster? kubectl --context prod get pods tells."},
		"another": {&api.Unreachable{Server: "https://10.0.0.1", Err: errors.New("x509: certificate signed by unknown authority")}, fault.Denied,
			"start agents: https://10.0.0.1 does not answer: x509: certificate signed by unknown authority", "The certificate is not that of the cluster in the kubeconfig: get the kubeconfig anew."},
		"plugin": {&api.Unreachable{Server: "https://10.0.0.1", Err: errors.New("getting credentials: exec: executable aws not found")}, fault.Denied,
			"start agents: https://10.0.0.1 does not answer: getting credentials: exec: executable aws not found", "Log in as your cluster's provider says; the kubeconfig names a program that does it."},
	} {
		t.Log(name)
		refusedWith(t, refused("start agents", s, c.err), c.kind, c.text, c.hint)
	}
}
