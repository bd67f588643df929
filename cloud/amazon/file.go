package amazon

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// File is a credential in the form in which it is handed over to an agent on a machine
// without a credential of its own. It is secret.
type File struct {
	Key     string    `json:"key"`
	Secret  string    `json:"secret"`
	Token   string    `json:"token,omitempty"`
	Until   time.Time `json:"until,omitzero"`
	Region  string    `json:"region,omitempty"`
	Comment string    `json:"comment"`
}

// NewFile makes a File of c, with a region and a comment line for people.
func NewFile(c aws.Credentials, region, comment string) File {
	f := File{Key: c.AccessKeyID, Secret: c.SecretAccessKey, Token: c.SessionToken, Region: region, Comment: comment}
	if c.CanExpire {
		f.Until = c.Expires
	}
	return f
}

// Bytes is what Options.File reads.
func (f File) Bytes() ([]byte, error) {
	text, err := json.Marshal(f)
	return append(text, '\n'), err
}

// fileProvider reads credentials from a file that may be replaced by a newer one.
type fileProvider struct{ path string }

var _ aws.CredentialsProvider = fileProvider{}

func (p fileProvider) Retrieve(context.Context) (aws.Credentials, error) {
	f, err := p.read()
	if err != nil {
		return aws.Credentials{}, err
	}
	return aws.Credentials{AccessKeyID: f.Key, SecretAccessKey: f.Secret, SessionToken: f.Token, Source: "drover's credential",
		CanExpire: !f.Until.IsZero(), Expires: f.Until}, nil
}

func (p fileProvider) read() (f File, err error) {
	text, err := os.ReadFile(p.path)
	if err != nil {
		return f, err
	}
	if json.Unmarshal(text, &f) != nil || f.Key == "" || f.Secret == "" { // an error of JSON would quote it
		return f, fmt.Errorf("read %s: it holds no credential", p.path)
	}
	return f, nil
}
