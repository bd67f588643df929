package kube

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/fault"
)

// site is where agents are: a namespace of a cluster.
type site struct {
	namespace string // "": the context's own
	context   string // "": the kubeconfig's current one
	// server is the address of the cluster's API server, which is what the context means when
	// a job is submitted; "": whatever it means
	server string
}

// parseSite reads what stands after kube/ in a target: NAMESPACE, NAMESPACE@CONTEXT, @CONTEXT, and
// in the records of jobs NAMESPACE@CONTEXT@SERVER.
func parseSite(detail string) (s site, err error) {
	namespace, rest, _ := strings.Cut(detail, "@")
	s.namespace, s.context = namespace, rest
	for _, scheme := range []string{"@https://", "@http://"} {
		if i := strings.LastIndex(rest, scheme); i >= 0 {
			s.context, s.server = rest[:i], rest[i+1:]
		}
	}
	if s.namespace != "" && !validName(s.namespace) {
		return s, fault.New(fault.Invalid, "Write it as `--on kube/NAMESPACE` or `--on kube/NAMESPACE@CONTEXT`.", "choose target: %q is not a namespace", s.namespace)
	}
	return s, nil
}

// String is the form that parseSite reads.
func (s site) String() string {
	switch {
	case s.server != "":
		return s.namespace + "@" + s.context + "@" + s.server
	case s.context != "":
		return s.namespace + "@" + s.context
	}
	return s.namespace
}

// words name the site for people.
func (s site) words() string {
	if s.context == "" {
		return "namespace " + s.namespace
	}
	return fmt.Sprintf("namespace %s of %s", s.namespace, s.context)
}

// validName says whether a text can be the name of a namespace.
func validName(text string) bool {
	return text != "" && len(text) <= 63 && strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && text[0] != '-' && text[len(text)-1] != '-'
}

// errNoCluster says that this machine knows no cluster at all.
var errNoCluster = fault.New(fault.Missing, "Get a kubeconfig from your cluster's provider, and name its file with KUBECONFIG.", "find a cluster: there is no kubeconfig")

// inCluster is the name of the context of a pod that has a service account's token.
const inCluster = "in-cluster"

// readConfig reads the kubeconfig of this process, or a file. That of a pod without one has the
// context inCluster.
func readConfig(file string) (*clientcmdapi.Config, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = file
	c, err := rules.Load()
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Mend it, or name another one with KUBECONFIG.", "read the kubeconfig")
	}
	if len(c.Contexts) > 0 {
		return c, nil
	}
	own, err := rest.InClusterConfig()
	if err != nil {
		return nil, errNoCluster
	}
	namespace, _ := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace") // "": default
	c.CurrentContext = inCluster
	c.Contexts = map[string]*clientcmdapi.Context{inCluster: {Cluster: inCluster, AuthInfo: inCluster, Namespace: strings.TrimSpace(string(namespace))}}
	c.Clusters = map[string]*clientcmdapi.Cluster{inCluster: {Server: own.Host, CertificateAuthority: own.CAFile}}
	c.AuthInfos = map[string]*clientcmdapi.AuthInfo{inCluster: {TokenFile: own.BearerTokenFile}}
	return c, nil
}

// resolve fills in what a site leaves to the kubeconfig. A site with a server is where its context
// still means that server, else where any context does.
func (s site) resolve(c *clientcmdapi.Config) (site, error) {
	name := cmp.Or(s.context, c.CurrentContext)
	found := c.Contexts[name]
	if s.server != "" && (found == nil || serverOf(c, name) != s.server) {
		for other := range c.Contexts {
			if serverOf(c, other) == s.server && (name == s.context || other < name) {
				name, found = other, c.Contexts[other]
			}
		}
		if at := serverOf(c, name); at != s.server {
			if found == nil {
				return s, fault.New(fault.Missing, "Add the cluster to your kubeconfig, under any name.", "find the cluster of the job: no context leads to %s", s.server)
			}
			return s, fault.New(fault.Missing, "Add a context for the job's cluster to your kubeconfig, under any name.",
				"find the cluster of the job: it is at %s, and the context %s leads to %s", s.server, s.context, at)
		}
	}
	switch {
	case name == "":
		return s, fault.New(fault.Invalid, "Choose one: `kubectl config use-context NAME`, or `--on kube/NAMESPACE@CONTEXT`.", "find a cluster: the kubeconfig has no current context")
	case found == nil:
		hint := "See them: kubectl config get-contexts."
		if near := fault.Nearest(name, slices.Sorted(maps.Keys(c.Contexts))); near != "" {
			hint = "Use `--on kube/" + s.namespace + "@" + near + "`."
		}
		return s, fault.New(fault.Invalid, hint, "find a cluster: there is no context %q", name)
	case c.Clusters[found.Cluster] == nil:
		return s, fault.New(fault.Invalid, "Mend the kubeconfig.", "find a cluster: the context %s names the cluster %q, which is not there", name, found.Cluster)
	}
	s.namespace = cmp.Or(s.namespace, found.Namespace, "default")
	s.context, s.server = name, serverOf(c, name)
	return s, nil
}

func serverOf(c *clientcmdapi.Config, context string) string {
	if x := c.Contexts[context]; x != nil && c.Clusters[x.Cluster] != nil {
		return strings.TrimRight(c.Clusters[x.Cluster].Server, "/")
	}
	return ""
}

// connect makes a client for a resolved site. ask allows a credential plugin to ask the user.
func (s site) connect(c *clientcmdapi.Config, ask bool) (*api.Client, error) {
	config, err := clientcmd.NewNonInteractiveClientConfig(*c, s.context, &clientcmd.ConfigOverrides{}, nil).ClientConfig()
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Mend the context in the kubeconfig.", "connect to the cluster of context %s", s.context)
	}
	config.QPS = -1 // the server says itself when it is asked too much
	if p := config.ExecProvider; p != nil && !ask {
		p = p.DeepCopy()
		p.InteractiveMode, p.StdinUnavailable = clientcmdapi.NeverExecInteractiveMode, true
		config.ExecProvider = p
	}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, fault.Wrap(err, fault.Invalid, "Mend the context in the kubeconfig.", "connect to the cluster of context %s", s.context)
	}
	return client, nil
}
