// Package awsquery sends operations to services of AWS that speak the query protocol, Auto Scaling's or EC2's dialect of it, with
// requests and answers as the caller's own structs: fields of requests have the names of the protocol, and answers are XML.
// It is for services of which the vendor's client costs more than it gives (package wire).
//
// It refuses to know any service, and does not retry: amazon.Sender does. A server in the test proves it.
package awsquery

import (
	"context"
	"encoding/xml"
	"fmt"
	"net/url"
	"reflect"
	"strconv"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/wire"
)

// Service is one service.
type Service struct {
	Name    string // in signatures and addresses, such as "autoscaling"
	ID      string // in the names of variables, such as "AUTO_SCALING"
	Version string // of its API, such as "2011-01-01"
	Flat    bool   // elements of lists are A.1, as EC2 has them, and not A.member.1
}

// Caller sends operations of a service by an account, in the region of the account's configuration.
type Caller struct {
	Service Service
	Account *amazon.Account
}

// Call sends an operation once, and reads the answer into out, a pointer to a struct; nil: the answer says nothing. Zero values in a
// request are left out, but for what a pointer points to. Its errors are as the vendor's clients give them: amazon.ReadAnswer
// reads them.
func (c Caller) Call(ctx context.Context, operation string, in, out any) error {
	s := c.Service
	form := url.Values{"Action": {operation}, "Version": {s.Version}}
	s.flatten(form, "", reflect.ValueOf(in))
	a, err := wire.Post(ctx, c.Account, wire.Service{Name: s.Name, ID: s.ID, Host: s.Name}, map[string]string{"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}, []byte(form.Encode()))
	switch {
	case err != nil:
		return err
	case a.Failed():
		return a.Refusal(readError(a.Text))
	case out == nil:
		return nil
	}
	if err := xml.Unmarshal(a.Text, out); err != nil {
		return a.Unread(err)
	}
	return nil
}

// readError is what an answer says of a request that failed. What is no XML, such as a proxy's page, names nothing.
func readError(text []byte) (code, message string) {
	type refusal struct{ Code, Message string }
	var said struct {
		Error  refusal                 // Auto Scaling's
		Errors struct{ Error refusal } // EC2's
	}
	_ = xml.Unmarshal(text, &said)
	if said.Error.Code == "" {
		said.Error = said.Errors.Error
	}
	return said.Error.Code, said.Error.Message
}

// flatten adds a value to a form, under the names of the protocol.
func (s Service) flatten(form url.Values, at string, v reflect.Value) {
	switch v.Kind() {
	case reflect.Invalid:
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			s.flatten(form, at, v.Elem())
		}
	case reflect.Struct:
		if t, is := v.Interface().(time.Time); is {
			form.Set(at, t.UTC().Format(time.RFC3339))
			return
		}
		for i := range v.NumField() {
			if v.Field(i).IsZero() {
				continue
			}
			name := v.Type().Field(i).Name
			if at != "" {
				name = at + "." + name
			}
			s.flatten(form, name, v.Field(i))
		}
	case reflect.Slice:
		for i := range v.Len() {
			name := at + ".member." + strconv.Itoa(i+1)
			if s.Flat {
				name = at + "." + strconv.Itoa(i+1)
			}
			s.flatten(form, name, v.Index(i))
		}
	default:
		form.Set(at, fmt.Sprint(v.Interface()))
	}
}
