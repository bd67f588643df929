// Package wire sends requests to services of AWS of which the client of the vendor costs more than it gives: it signs a body, sends it
// once, and gives the answer or an error in the vendor's own shape, which amazon.ReadAnswer reads.
//
// It refuses to know protocols: packages awsjson and awsquery do. Their tests prove it, and its own.
package wire

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
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
	Name string // in signatures, such as "sagemaker"
	ID   string // in the names of variables, such as "SAGEMAKER"
	Host string // what its endpoint begins with, such as "api.sagemaker"
}

// mostAnswer is how many bytes an answer may have.
const mostAnswer = 64 << 20

// Answer is what a service answered, of any status.
type Answer struct {
	Header http.Header
	Status int
	Text   []byte
	http   *http.Response
}

// Post sends a body once, by an account in the region of its configuration.
func Post(ctx context.Context, account *amazon.Account, s Service, header map[string]string, body []byte) (Answer, error) {
	config := account.Config
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint(config, s), bytes.NewReader(body))
	if err != nil {
		return Answer{}, err
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	keys, err := config.Credentials.Retrieve(ctx)
	if err != nil {
		return Answer{}, err
	}
	sum := sha256.Sum256(body)
	if err := v4.NewSigner().SignHTTP(ctx, keys, r, hex.EncodeToString(sum[:]), s.Name, config.Region, time.Now()); err != nil {
		return Answer{}, err
	}
	answer, err := config.HTTPClient.Do(r)
	if err != nil {
		return Answer{}, &smithyhttp.RequestSendError{Err: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, mostAnswer))
	a := Answer{answer.Header, answer.StatusCode, text, answer}
	if err != nil {
		return a, a.Unread(err)
	}
	return a, nil
}

// endpoint is where a service answers: where the environment or the configuration says, else at AWS's own address of the region.
func endpoint(config aws.Config, s Service) string {
	if own := os.Getenv("AWS_ENDPOINT_URL_" + s.ID); own != "" {
		return own
	}
	if at := aws.ToString(config.BaseEndpoint); at != "" {
		return at
	}
	end := ".amazonaws.com"
	if strings.HasPrefix(config.Region, "cn-") {
		end += ".cn"
	}
	return "https://" + s.Host + "." + config.Region + end
}

// Failed says whether the service has refused the request.
func (a Answer) Failed() bool { return a.Status >= 300 }

// Refusal is the error of an answer that Failed, with what it says.
func (a Answer) Refusal(code, message string) error {
	return a.wrap(&smithy.GenericAPIError{Code: code, Message: message})
}

// Unread is the error of an answer that cannot be read.
func (a Answer) Unread(err error) error {
	return a.wrap(&smithy.DeserializationError{Err: err, Snapshot: a.Text})
}

func (a Answer) wrap(err error) error {
	return &smithyhttp.ResponseError{Response: &smithyhttp.Response{Response: a.http}, Err: err}
}
