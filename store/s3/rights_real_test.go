package s3_test

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	sdk "github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithy "github.com/aws/smithy-go"

	"github.com/drover-run/drover/store/s3"
	"github.com/drover-run/drover/store/s3/s3test"
)

// as is a client with these keys.
func as(endpoint, key, secret, token string) *sdk.Client {
	return sdk.New(sdk.Options{Region: "us-east-1", BaseEndpoint: &endpoint, UsePathStyle: true, Retryer: aws.NopRetryer{},
		Credentials: s3test.Keys(key, secret, token)})
}

// What a policy for agents must not allow. Objects are in facts below team/:
// blobs/b, demo/train/mine, demo/other/k, elsewhere/t/k; and in others: k. upload
// is an unfinished one of another user, of elsewhere/t/k.
func forbidden(upload *string) map[string]func(context.Context, *sdk.Client) error {
	facts, others := aws.String("facts"), aws.String("others")
	key := func(k string) *string { return aws.String("team/" + k) }
	put := func(bucket, key *string) func(context.Context, *sdk.Client) error {
		return func(ctx context.Context, c *sdk.Client) error {
			_, err := c.PutObject(ctx, &sdk.PutObjectInput{Bucket: bucket, Key: key, Body: strings.NewReader("x")})
			return err
		}
	}
	get := func(bucket, key *string) func(context.Context, *sdk.Client) error {
		return func(ctx context.Context, c *sdk.Client) error {
			_, err := c.GetObject(ctx, &sdk.GetObjectInput{Bucket: bucket, Key: key})
			return err
		}
	}
	remove := func(bucket, key *string) func(context.Context, *sdk.Client) error {
		return func(ctx context.Context, c *sdk.Client) error {
			_, err := c.DeleteObject(ctx, &sdk.DeleteObjectInput{Bucket: bucket, Key: key})
			return err
		}
	}
	list := func(bucket, prefix *string) func(context.Context, *sdk.Client) error {
		return func(ctx context.Context, c *sdk.Client) error {
			_, err := c.ListObjectsV2(ctx, &sdk.ListObjectsV2Input{Bucket: bucket, Prefix: prefix})
			return err
		}
	}
	calls := map[string]func(context.Context, *sdk.Client) error{
		"delete a blob": remove(facts, key("blobs/b")), "delete one's own": remove(facts, key("demo/train/mine")),
		"delete of another task": remove(facts, key("demo/other/k")), "delete of another project": remove(facts, key("elsewhere/t/k")),
		"delete in another bucket": remove(others, aws.String("k")),
		"write of another task":    put(facts, key("demo/other/k")), "write of another project": put(facts, key("elsewhere/t/k")),
		"write the name of a job": put(facts, key("ids/abcd")), "write what gc reads": put(facts, key("_gc/log/00000000")),
		"write beside the store": put(facts, aws.String("k")), "write in another bucket": put(others, aws.String("k")),
		"read of another project": get(facts, key("elsewhere/t/k")), "read beside the store": get(facts, aws.String("k")), "read in another bucket": get(others, aws.String("k")),
		"list another project": list(facts, key("elsewhere/")), "list the bucket": list(facts, nil), "list another bucket": list(others, nil),
	}
	more := map[string]func(context.Context, *sdk.Client) error{
		"delete many": func(ctx context.Context, c *sdk.Client) error {
			out, err := c.DeleteObjects(ctx, &sdk.DeleteObjectsInput{Bucket: facts, Delete: &types.Delete{Objects: []types.ObjectIdentifier{{Key: key("blobs/b")}}}})
			if err == nil && len(out.Errors) == 1 {
				return &smithy.GenericAPIError{Code: aws.ToString(out.Errors[0].Code)}
			}
			return err
		},
		"copy from another project": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.CopyObject(ctx, &sdk.CopyObjectInput{Bucket: facts, Key: key("demo/train/copy"), CopySource: aws.String("facts/team/elsewhere/t/k")})
			return err
		},
		"begin an upload elsewhere": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.CreateMultipartUpload(ctx, &sdk.CreateMultipartUploadInput{Bucket: facts, Key: key("elsewhere/t/k")})
			return err
		},
		"end an upload of others": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.AbortMultipartUpload(ctx, &sdk.AbortMultipartUploadInput{Bucket: facts, Key: key("elsewhere/t/k"), UploadId: upload})
			return err
		},
		"list uploads": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.ListMultipartUploads(ctx, &sdk.ListMultipartUploadsInput{Bucket: facts})
			return err
		},
		"list versions": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.ListObjectVersions(ctx, &sdk.ListObjectVersionsInput{Bucket: facts})
			return err
		},
		"tag an object": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.PutObjectTagging(ctx, &sdk.PutObjectTaggingInput{Bucket: facts, Key: key("demo/train/mine"), Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}})
			return err
		},
		"read the bucket's policy": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.GetBucketPolicy(ctx, &sdk.GetBucketPolicyInput{Bucket: facts})
			return err
		},
		"write the bucket's policy": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.PutBucketPolicy(ctx, &sdk.PutBucketPolicyInput{Bucket: facts, Policy: aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":"arn:aws:s3:::facts/*"}]}`)})
			return err
		},
		"remove the bucket's policy": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.DeleteBucketPolicy(ctx, &sdk.DeleteBucketPolicyInput{Bucket: facts})
			return err
		},
		"have versions": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.PutBucketVersioning(ctx, &sdk.PutBucketVersioningInput{Bucket: facts, VersioningConfiguration: &types.VersioningConfiguration{Status: types.BucketVersioningStatusEnabled}})
			return err
		},
		"open the bucket to all": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.PutBucketAcl(ctx, &sdk.PutBucketAclInput{Bucket: facts, ACL: types.BucketCannedACLPublicRead})
			return err
		},
		"read who may use the bucket": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.GetBucketAcl(ctx, &sdk.GetBucketAclInput{Bucket: facts})
			return err
		},
		"lock objects": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.PutObjectLockConfiguration(ctx, &sdk.PutObjectLockConfigurationInput{Bucket: facts, ObjectLockConfiguration: &types.ObjectLockConfiguration{ObjectLockEnabled: types.ObjectLockEnabledEnabled}})
			return err
		},
		"tag the bucket": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.PutBucketTagging(ctx, &sdk.PutBucketTaggingInput{Bucket: facts, Tagging: &types.Tagging{TagSet: []types.Tag{{Key: aws.String("a"), Value: aws.String("b")}}}})
			return err
		},
		"remove a bucket": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.DeleteBucket(ctx, &sdk.DeleteBucketInput{Bucket: others})
			return err
		},
		"make a bucket": func(ctx context.Context, c *sdk.Client) error {
			_, err := c.CreateBucket(ctx, &sdk.CreateBucketInput{Bucket: aws.String("another")})
			return err
		},
	}
	for name, call := range more {
		calls[name] = call
	}
	return calls
}

// scene fills a server, and leaves an upload of another user.
func scene(t *testing.T, endpoint string) (upload *string) {
	t.Helper()
	root := as(endpoint, "test", "testtest", "")
	for _, k := range []string{"team/blobs/b", "team/demo/train/mine", "team/demo/other/k", "team/elsewhere/t/k", "k"} {
		if _, err := root.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: aws.String("facts"), Key: aws.String(k), Body: strings.NewReader("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := root.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: aws.String("others"), Key: aws.String("k"), Body: strings.NewReader("x")}); err != nil {
		t.Fatal(err)
	}
	out, err := root.CreateMultipartUpload(t.Context(), &sdk.CreateMultipartUploadInput{Bucket: aws.String("facts"), Key: aws.String("team/elsewhere/t/k")})
	if err != nil {
		t.Fatal(err)
	}
	return out.UploadId
}

// denied says of each forbidden call that it was, and of what must be allowed that
// it was: a server that refuses everything would prove nothing.
func denied(t *testing.T, c *sdk.Client, upload *string) {
	t.Helper()
	for _, k := range []string{"team/blobs/b", "team/demo/train/mine", "team/demo/other/k"} {
		if _, err := c.GetObject(t.Context(), &sdk.GetObjectInput{Bucket: aws.String("facts"), Key: aws.String(k)}); err != nil {
			t.Errorf("read %s: %v", k, err)
		}
	}
	for _, k := range []string{"team/blobs/new", "team/demo/train/mine"} {
		if _, err := c.PutObject(t.Context(), &sdk.PutObjectInput{Bucket: aws.String("facts"), Key: aws.String(k), Body: strings.NewReader("y")}); err != nil {
			t.Errorf("write %s: %v", k, err)
		}
	}
	if _, err := c.ListObjectsV2(t.Context(), &sdk.ListObjectsV2Input{Bucket: aws.String("facts"), Prefix: aws.String("team/demo/train/")}); err != nil {
		t.Errorf("list one's own: %v", err)
	}
	calls := forbidden(upload)
	refused := 0
	for name, call := range calls {
		err := call(t.Context(), c)
		var api smithy.APIError
		if !errors.As(err, &api) || !slices.Contains([]string{"AccessDenied", "MethodNotAllowed", "NotImplemented", "InternalError"}, api.ErrorCode()) {
			t.Errorf("%s: %v, want AccessDenied", name, err)
			continue
		}
		if api.ErrorCode() == "AccessDenied" {
			refused++
		}
	}
	// versitygw fails with an error of its own where it should deny this.
	if _, err := c.GetObject(t.Context(), &sdk.GetObjectInput{Bucket: aws.String("facts"), Key: aws.String("team/demo/train/copy")}); err == nil {
		t.Error("an object of another project was copied")
	}
	t.Logf("%d of %d calls are denied; what is not, the server has not", refused, len(calls))
	if refused < 30 {
		t.Errorf("%d calls are denied, want 30", refused)
	}
}

func TestRealMinIOSessionMayNoMore(t *testing.T) {
	endpoint := minio(t)
	upload := scene(t, endpoint)
	p, err := open(t, "s3://facts/team", s3.Options{Endpoint: endpoint}).Pass(t.Context(), agents, "")
	if err != nil || p.Wide {
		t.Fatalf("%v %s", err, p.Why)
	}
	var f struct{ Key, Secret, Token string }
	if err := json.Unmarshal(p.File, &f); err != nil {
		t.Fatal(err)
	}
	denied(t, as(endpoint, f.Key, f.Secret, f.Token), upload)
}

// Where a server has users and policies of buckets, the printed document is one of
// these once it names the user.
func TestRealS3UserMayNoMoreThanThePolicy(t *testing.T) {
	endpoint := versitygw(t)
	upload := scene(t, endpoint)
	s3test.AddUser(t, endpoint, "agent", "agentagent")
	s3test.Grant(t, endpoint, open(t, "s3://facts/team", s3.Options{Endpoint: endpoint}).Policy(agents), "agent")
	denied(t, as(endpoint, "agent", "agentagent", ""), upload)
}
