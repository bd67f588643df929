package kube

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/drover-run/drover/driver/kube/api"
	"github.com/drover-run/drover/driver/kube/words"
	"github.com/drover-run/drover/fault"
)

// refused makes a fault of what the API server answered, or did not. It leaves nil, faults and the
// error of a context as they are.
func refused(doing string, s site, err error) error {
	var known *fault.Fault
	var silent *api.Unreachable
	var no *api.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &silent):
		return refusedConnection(doing, s, silent)
	case !errors.As(err, &no):
		return fmt.Errorf("%s: %w", doing, err)
	}
	says := words.OneLine(no.Message)
	switch {
	case no.Code == http.StatusUnauthorized:
		return fault.New(fault.Denied, "Log in again, as your cluster's provider says; `kubectl --context "+s.context+" get pods` tells whether it helped.",
			"%s: the cluster of context %s does not accept the credentials", doing, s.context)
	case no.Code == http.StatusForbidden && strings.Contains(says, "exceeded quota"):
		return fault.New(fault.Full, "Ask for less, or wait until other pods of the namespace have ended.", "%s: Kubernetes says: %s", doing, says)
	case no.Code == http.StatusForbidden:
		return fault.New(fault.Denied, "Ask for the right to "+no.Verb+" "+no.Kind+" in namespace "+s.namespace+": docs/how-to/kube.md has all that drover needs.",
			"%s: Kubernetes says: %s", doing, says)
	case no.Code == http.StatusNotFound && strings.Contains(says, "namespaces"):
		return fault.New(fault.Invalid, "See them: `kubectl --context "+s.context+" get namespaces`; then `--on kube/NAMESPACE`.", "%s: there is no namespace %s in %s", doing, s.namespace, s.context)
	case no.Code == http.StatusTooManyRequests, no.Code >= 500:
		return fault.New(fault.Lost, "Try again in a while.", "%s: Kubernetes says: %s", doing, says)
	}
	_, hint := words.Explain(says)
	return fault.New(fault.Invalid, hint, "%s: Kubernetes says: %s", doing, says)
}

// refusedConnection explains a request without an answer.
func refusedConnection(doing string, s site, silent *api.Unreachable) error {
	text := silent.Err.Error()
	kind, hint := fault.Lost, "Is the network up, and the cluster? `kubectl --context "+s.context+" get pods` tells."
	switch {
	case strings.Contains(text, "x509") || strings.Contains(text, "certificate"):
		kind, hint = fault.Denied, "The certificate is not that of the cluster in the kubeconfig: get the kubeconfig anew."
	case strings.Contains(text, "exec: ") || strings.Contains(text, "executable"):
		kind, hint = fault.Denied, "Log in as your cluster's provider says; the kubeconfig names a program that does it."
	}
	return fault.New(kind, hint, "%s: %s does not answer: %s", doing, silent.Server, words.OneLine(text))
}
