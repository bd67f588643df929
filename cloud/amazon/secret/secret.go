// Package secret keeps values in Amazon's Secrets Manager that machines of a job are handed: one secret for all of
// them, under a name that follows from what it is for.
//
// It refuses to know jobs and machines. The tests of package batch prove it, over a fake (secrettest).
package secret

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/fault"
)

// most is how many bytes a secret may have.
const most = 64 << 10

// Manager is Secrets Manager in the region of an account.
type Manager struct {
	api  *secretsmanager.Client
	send amazon.Sender
}

// New makes the Manager of a sender's account. It sends nothing.
func New(send amazon.Sender) *Manager {
	return &Manager{secretsmanager.NewFromConfig(send.Account.Config), send}
}

// ReadHere reads a secret on a machine that has an identity of its own.
func ReadHere(ctx context.Context, name string) (values map[string]string, err error) {
	account, err := amazon.Open(ctx, amazon.Options{})
	if err != nil {
		return nil, err
	}
	return New(amazon.Sender{Account: account, Wait: amazon.Patience}).Read(ctx, name)
}

// Store stores values by their variables as one secret. It may be called again, with other values.
func (m *Manager) Store(ctx context.Context, name string, values map[string]string) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	if len(text) > most {
		return fault.New(fault.Invalid, "Let the program read the large ones by the job role.", "store secrets: they take %d bytes, and Secrets Manager takes 64 KiB", len(text))
	}
	return m.send.Read(ctx, "store the secrets", func(ctx context.Context) error {
		_, err := m.api.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: &name, SecretString: aws.String(string(text)),
			Tags: []types.Tag{{Key: aws.String("managed-by"), Value: aws.String("drover")}}})
		if amazon.ReadAnswer(err).Code == "ResourceExistsException" { // of a call that was cut off
			_, err = m.api.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: &name, SecretString: aws.String(string(text))})
		}
		return err
	})
}

// Remove deletes a secret, if there is one.
func (m *Manager) Remove(ctx context.Context, name string) error {
	return m.send.Read(ctx, "delete the secrets", func(ctx context.Context) error {
		_, err := m.api.DeleteSecret(ctx, &secretsmanager.DeleteSecretInput{SecretId: &name, ForceDeleteWithoutRecovery: aws.Bool(true)})
		if a := amazon.ReadAnswer(err); a.Code == "ResourceNotFoundException" || a.Status == http.StatusForbidden {
			return nil // a user without a right to secrets has stored none
		}
		return err
	})
}

// Read reads the values of a secret.
func (m *Manager) Read(ctx context.Context, name string) (values map[string]string, err error) {
	err = m.send.Read(ctx, "read the secrets", func(ctx context.Context) error {
		out, err := m.api.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name})
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(aws.ToString(out.SecretString)), &values)
	})
	return values, err
}
