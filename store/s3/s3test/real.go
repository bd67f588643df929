package s3test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drover-run/drover/store/storetest/server"
)

// Real starts versitygw for one test: a server with the bucket facts on a disk of
// its own, and test and testtest as its keys. It may not be up yet when Real
// returns; server.Install says when the test is skipped.
func Real(t *testing.T) (endpoint string) {
	t.Helper()
	program, disk, address := server.Install(t, "versitygw"), buckets(t), server.Free()
	begin(t, []string{"ROOT_ACCESS_KEY=test", "ROOT_SECRET_KEY=testtest"}, program, "--port", address, "--iam-dir", t.TempDir(), "posix", disk)
	return "http://" + address
}

// AddUser makes a user of Real's server, without any rights yet.
func AddUser(t *testing.T, endpoint, key, secret string) {
	t.Helper()
	out, err := exec.Command(server.Install(t, "versitygw"), "admin", "--access", "test", "--secret", "testtest", "--endpoint-url", endpoint,
		"create-user", "--access", key, "--secret", secret, "--role", "user").CombinedOutput()
	if err != nil {
		t.Fatalf("make user %s: %v: %s", key, err, out)
	}
}

// MinIO is Real with another server, which gives out sessions, too.
func MinIO(t *testing.T) (endpoint string) {
	t.Helper()
	program, disk, address := server.Install(t, "minio"), buckets(t), server.Free()
	begin(t, []string{"MINIO_ROOT_USER=test", "MINIO_ROOT_PASSWORD=testtest", "MINIO_BROWSER=off", "MINIO_UPDATE=off", "HOME=" + t.TempDir()},
		program, "server", "--quiet", "--address", address, disk)
	endpoint = "http://" + address
	// Until it has read its users it answers, and knows none of them.
	patient := retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts, o.MaxBackoff = 200, 200*time.Millisecond
		o.RateLimiter = ratelimit.None
	})
	client := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, Credentials: Keys("test", "testtest", ""), Retryer: patient})
	if _, err := client.ListBuckets(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	return endpoint
}

// Rclone is Real with a server that looks at no If-None-Match.
func Rclone(t *testing.T) (endpoint string) {
	t.Helper()
	program, disk, address := server.Install(t, "rclone"), buckets(t), server.Free()
	begin(t, []string{"HOME=" + t.TempDir()}, program, "serve", "s3", "--addr", address, "--auth-key", "test,testtest", disk)
	return "http://" + address
}

// buckets is a folder with two: to all these servers, a bucket is a folder.
func buckets(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for _, bucket := range []string{"facts", "others"} {
		if err := os.Mkdir(filepath.Join(folder, bucket), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// begin starts program with vars over its environment.
func begin(t *testing.T, vars []string, program string, args ...string) {
	t.Helper()
	c := exec.Command(program, args...)
	c.Env = append(os.Environ(), vars...)
	server.Start(t, c)
}

// Keys are credentials for a client of these servers.
func Keys(key, secret, token string) aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: key, SecretAccessKey: secret, SessionToken: token}, nil
	})
}

// Grant gives a user of Real's server what a policy for users says, by a policy of
// the bucket facts.
func Grant(t *testing.T, endpoint, policy, user string) {
	t.Helper()
	var tree struct {
		Version   string
		Statement []map[string]any
	}
	err := json.Unmarshal([]byte(policy), &tree)
	for _, s := range tree.Statement {
		s["Principal"] = map[string]any{"AWS": []string{user}}
	}
	text, again := json.Marshal(tree)
	if err := errors.Join(err, again); err != nil {
		t.Fatal(err)
	}
	root := s3.New(s3.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true,
		Credentials: Keys("test", "testtest", "")})
	if _, err := root.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: aws.String("facts"), Policy: aws.String(string(text))}); err != nil {
		t.Fatal(err)
	}
}
