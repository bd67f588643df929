package s3

import (
	"cmp"
	"context"
	_ "embed"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// signedFor is how long the address of a download may be used: the longest that S3 allows. It ends
// with the credential that has signed it, which for a session is hours.
const signedFor = 7 * 24 * time.Hour

// What a container or a machine with a role runs: it signs the request itself, with what the role's address gives.
// curl does so from 7.75 on.
var (
	//go:embed role.txt
	roleAddress string
	//go:embed role_machine.txt
	machineAddress string
	//go:embed role_curl.txt
	signedByCurl string
	//go:embed role.py
	signedByPython string
)

// Downloads implements store.Downloader. The first ways are by the role of a container, by
// Amazon's own tool with whatever role the machine has, and by that of the whole machine; the last ones by an address that is signed
// with the caller's credential.
func (b *Bucket) Downloads(ctx context.Context, key string) ([]store.Download, error) {
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
	plain, _, _ := strings.Cut(signed.URL, "?") // without the signature
	region := store.Quote(cmp.Or(o.Region, anyRegion))
	words := "u=" + store.Quote(plain) + " r=" + region + "\n"
	tool := "aws s3 cp --only-show-errors " + store.Quote("s3://"+b.bucket+"/"+*in.Key) + " - --region " + region
	if o.BaseEndpoint != nil {
		tool += " --endpoint-url " + store.Quote(*o.BaseEndpoint)
	}
	python := "python3 -c " + store.Quote(signedByPython) + ` "$c" "$o" "$u" "$r"`
	ways := []store.Download{{Tool: "curl", Command: words + roleAddress + signedByCurl, Of: store.OfContainer}, {Tool: "python3", Command: words + roleAddress + python, Of: store.OfContainer}, {Tool: "aws", Command: tool},
		{Tool: "curl", Command: words + machineAddress + signedByCurl, Of: store.OfMachine}, {Tool: "python3", Command: words + machineAddress + python, Of: store.OfMachine}}
	for _, w := range store.Fetches(signed.URL) {
		w.Secret = true
		ways = append(ways, w)
	}
	return ways, nil
}
