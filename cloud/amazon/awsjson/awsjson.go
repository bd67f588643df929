// Package awsjson sends operations to services of AWS that speak AWS JSON 1.1, with requests and answers as the caller's
// own structs. It is for services of which the vendor's client costs more than it gives (package wire).
//
// It refuses to know any service, and does not retry: amazon.Sender does. A server in the test proves it.
package awsjson

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/wire"
)

// Service is one service.
type Service struct {
	Name   string // in signatures, such as "sagemaker"
	ID     string // in the names of variables, such as "SAGEMAKER"
	Host   string // what its endpoint begins with, such as "api.sagemaker"
	Target string // what begins the names of its operations, such as "SageMaker"
}

// Caller sends operations of a service by an account, in the region of the account's configuration.
type Caller struct {
	Service Service
	Account *amazon.Account
}

// Call sends an operation once, and reads the answer into out, a pointer to a struct; nil: the answer says nothing. Its errors are as the
// vendor's clients give them: amazon.ReadAnswer reads them.
func (c Caller) Call(ctx context.Context, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	s := c.Service
	a, err := wire.Post(ctx, c.Account, wire.Service{Name: s.Name, ID: s.ID, Host: s.Host}, map[string]string{"Content-Type": "application/x-amz-json-1.1", "X-Amz-Target": s.Target + "." + operation}, body)
	switch {
	case err != nil:
		return err
	case a.Failed():
		return a.Refusal(readError(a))
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(a.Text, out); err != nil {
		return a.Unread(err)
	}
	return nil
}

// readError is what an answer says of a request that failed. Header and body may both name it, with a namespace before it
// or an address behind.
func readError(a wire.Answer) (code, message string) {
	var said struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(a.Text, &said) // what is no JSON, such as a proxy's page, names nothing; it reads Message too
	code = said.Type
	if code == "" {
		code = a.Header.Get("X-Amzn-ErrorType")
	}
	code, _, _ = strings.Cut(code[strings.LastIndex(code, "#")+1:], ":")
	return code, said.Message
}
