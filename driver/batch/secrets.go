package batch

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	"github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/stack"
	"github.com/drover-run/drover/fault"
)

// secretName is the name in Secrets Manager of what a placement's agents are handed: one secret, with
// all values by their variables.
func secretName(h driver.Handle) string { return "drover/" + jobName(h) }

// storeSecrets stores the values that agents are handed. It may be called again.
func (c *client) storeSecrets(ctx context.Context, h driver.Handle, values map[string]string) error {
	text, err := json.Marshal(values)
	if err != nil {
		return err
	}
	const most = 64 << 10
	if len(text) > most {
		return fault.New(fault.Invalid, "Let the program read the large ones by the job role.", "store secrets: they take %d bytes, and Secrets Manager takes 64 KiB", len(text))
	}
	name := secretName(h)
	return c.send.Read(ctx, "store the secrets", func(ctx context.Context) error {
		_, err := c.secrets.CreateSecret(ctx, &secretsmanager.CreateSecretInput{Name: &name, SecretString: aws.String(string(text)),
			Tags: []types.Tag{{Key: aws.String(stack.TagManaged), Value: aws.String(stack.ManagedBy)}}})
		if amazon.ReadAnswer(err).Code == "ResourceExistsException" { // of a Start that was cut off
			_, err = c.secrets.PutSecretValue(ctx, &secretsmanager.PutSecretValueInput{SecretId: &name, SecretString: aws.String(string(text))})
		}
		return err
	})
}

// removeSecrets deletes them, if there are any.
func (c *client) removeSecrets(ctx context.Context, h driver.Handle) error {
	return c.send.Read(ctx, "delete the secrets", func(ctx context.Context) error {
		_, err := c.secrets.DeleteSecret(ctx, &secretsmanager.DeleteSecretInput{SecretId: aws.String(secretName(h)), ForceDeleteWithoutRecovery: aws.Bool(true)})
		if a := amazon.ReadAnswer(err); a.Code == "ResourceNotFoundException" || a.Status == http.StatusForbidden {
			return nil // a user without a right to secrets has stored none
		}
		return err
	})
}

// readSecrets reads, in a container, what its placement's agents are handed.
func readSecrets(ctx context.Context, name string) (values map[string]string, err error) {
	account, err := amazon.Open(ctx, amazon.Options{})
	if err != nil {
		return nil, err
	}
	api := secretsmanager.NewFromConfig(account.Config)
	err = amazon.Sender{Account: account, Wait: amazon.Patience}.Read(ctx, "read the secrets", func(ctx context.Context) error {
		out, err := api.GetSecretValue(ctx, &secretsmanager.GetSecretValueInput{SecretId: &name})
		if err != nil {
			return err
		}
		return json.Unmarshal([]byte(aws.ToString(out.SecretString)), &values)
	})
	return values, err
}
