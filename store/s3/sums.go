package s3

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"errors"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
	"net/http"
	"strings"
)

// kinds are the checksums that a server may have of an object, depending on the client that
// wrote it. The first kind that the server gives is compared.
var kinds = []struct {
	header string
	make   func() hash.Hash
}{
	{"X-Amz-Checksum-Crc32c", func() hash.Hash { return crc32.New(castagnoli()) }},
	{"X-Amz-Checksum-Crc64nvme", func() hash.Hash { return crc64.New(nvme()) }},
	{"X-Amz-Checksum-Crc32", func() hash.Hash { return crc32.NewIEEE() }},
	{"X-Amz-Checksum-Sha256", sha256.New},
	{"X-Amz-Checksum-Sha1", sha1.New},
	{"X-Amz-Checksum-Sha512", sha512.New},
}

// nvme is the table of Amazon's own choice for objects that came without a checksum.
func nvme() *crc64.Table { return crc64.MakeTable(0x9a6c_9329_ac4b_c9b5) }

// sumOf is the checksum in an answer of the bytes in it, and its kind; "" if the answer has
// none, or one of the checksums of the object's parts.
func sumOf(h http.Header) (sum string, kind int) {
	if strings.EqualFold(h.Get("X-Amz-Checksum-Type"), "COMPOSITE") {
		return "", 0
	}
	for i, k := range kinds {
		if v := h[k.header]; len(v) > 0 && v[0] != "" && !strings.Contains(v[0], "-") {
			return v[0], i
		}
	}
	return "", 0
}

// compared is a body that ends in an error where its checksum is not sum.
type compared struct {
	io.ReadCloser
	hash hash.Hash
	sum  string
}

var errOtherSum = errors.New("its checksum is not the one that the server reports")

func (c *compared) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	_, _ = c.hash.Write(p[:n]) // it never fails
	if err == io.EOF && base64.StdEncoding.EncodeToString(c.hash.Sum(nil)) != c.sum {
		err = errOtherSum
	}
	return n, err
}
