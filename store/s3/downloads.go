package s3

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// signedFor is how long the address of a download may be used: the longest that S3 allows. It ends
// with the credential that has signed it, which for a session is hours.
const signedFor = 7 * 24 * time.Hour

// Downloads implements store.Downloader. The commands are Amazon's own tool, which goes on working
// after the signature of the others has ended where the machine has a role; and an address that is
// signed with the caller's credential.
func (b *Bucket) Downloads(ctx context.Context, key string) ([]string, error) {
	if err := b.checkKey(key); err != nil {
		return nil, err
	}
	in := &s3.GetObjectInput{Bucket: &b.bucket, Key: b.objectName(key)}
	client := b.conn.client.Load()
	o := client.Options()
	signed, err := s3.NewPresignClient(s3.New(o), s3.WithPresignExpires(signedFor)).PresignGetObject(ctx, in)
	if err != nil {
		return nil, fault.Wrap(err, fault.Denied, b.conn.signInHint(), "sign the address of %s in %s", key, b.text)
	}
	tool := "aws s3 cp --only-show-errors " + store.Quote("s3://"+b.bucket+"/"+*in.Key) + " -"
	if o.BaseEndpoint != nil {
		tool += " --endpoint-url " + store.Quote(*o.BaseEndpoint)
	}
	if o.Region != "" {
		tool += " --region " + store.Quote(o.Region)
	}
	return append(store.Fetches(signed.URL), tool), nil
}
