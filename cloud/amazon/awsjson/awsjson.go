// Package awsjson sends operations to services of AWS that speak AWS JSON 1.1, with requests and answers as the caller's
// own structs. It is for services of which the vendor's client costs more than it gives: credentials, signatures and
// connections are the vendor's (package amazon), and so is the shape of errors.
//
// It refuses to know any service, and does not retry: amazon.Sender does. A server in the test proves it.
package awsjson

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/drover-run/drover/cloud/amazon"
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

// mostAnswer is how many bytes an answer may have.
const mostAnswer = 16 << 20

// Call sends an operation once, and reads the answer into out, a pointer to a struct; nil: the answer says nothing. Its errors are as the
// vendor's clients give them: amazon.ReadAnswer reads them.
func (c Caller) Call(ctx context.Context, operation string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.endpoint(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/x-amz-json-1.1")
	r.Header.Set("X-Amz-Target", c.Service.Target+"."+operation)
	config := c.Account.Config
	keys, err := config.Credentials.Retrieve(ctx)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, r, hex.EncodeToString(sum[:]), c.Service.Name, config.Region, time.Now()); err != nil {
		return err
	}
	answer, err := config.HTTPClient.Do(r)
	if err != nil {
		return &smithyhttp.RequestSendError{Err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	switch {
	case err != nil:
		return responseError(answer, &smithy.DeserializationError{Err: err})
	case answer.StatusCode >= 300:
		return responseError(answer, readError(answer, text))
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return responseError(answer, &smithy.DeserializationError{Err: err, Snapshot: text})
	}
	return nil
}

// endpoint is where the service answers: where the environment or the configuration says, else at AWS's own address of the region.
func (c Caller) endpoint() string {
	if own := os.Getenv("AWS_ENDPOINT_URL_" + c.Service.ID); own != "" {
		return own
	}
	if at := aws.ToString(c.Account.Config.BaseEndpoint); at != "" {
		return at
	}
	end := ".amazonaws.com"
	if strings.HasPrefix(c.Account.Config.Region, "cn-") {
		end += ".cn"
	}
	return "https://" + c.Service.Host + "." + c.Account.Config.Region + end
}

// responseError is an error of an answer, as the vendor's clients give it.
func responseError(answer *http.Response, err error) error {
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: answer}, Err: err}
}

// readError is what an answer says of a request that failed. Header and body may both name it, with a namespace before it
// or an address behind.
func readError(answer *http.Response, text []byte) error {
	var said struct {
		Type    string `json:"__type"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(text, &said) // what is no JSON, such as a proxy's page, names nothing; it reads Message too
	code := said.Type
	if code == "" {
		code = answer.Header.Get("X-Amzn-ErrorType")
	}
	code, _, _ = strings.Cut(code[strings.LastIndex(code, "#")+1:], ":")
	return &smithy.GenericAPIError{Code: code, Message: said.Message}
}
