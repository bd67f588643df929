package s3

import (
	"encoding/json"
	"slices"

	"github.com/drover-run/drover/store"
)

// statement is one of a policy in the words of IAM.
type statement struct {
	Sid       string
	Effect    string
	Action    []string
	Resource  []string
	Condition map[string]map[string][]string `json:",omitempty"`
}

type policy struct {
	Version   string
	Statement []statement
}

// policyFor is the policy that grants rights on this place and nothing else. A writer may send
// in parts, and abort its own uploads: S3 counts those as writing. A session's policy cannot
// tell creating from replacing.
func (p place) policyFor(r store.Rights) policy {
	out := policy{Version: "2012-10-17"}
	bucket := "arn:aws:s3:::" + p.bucket
	names := func(keys []string) (all []string) {
		for _, k := range keys {
			all = append(all, p.prefix+k+"*")
		}
		return all
	}
	add := func(sid string, keys []string, actions ...string) {
		if len(keys) == 0 {
			return
		}
		s := statement{Sid: sid, Effect: "Allow", Action: actions}
		for _, n := range names(keys) {
			s.Resource = append(s.Resource, bucket+"/"+n)
		}
		out.Statement = append(out.Statement, s)
	}
	add("Read", r.Read, "s3:GetObject")
	if len(r.Read) > 0 {
		list := statement{Sid: "List", Effect: "Allow", Action: []string{"s3:ListBucket"}, Resource: []string{bucket}}
		if n := names(r.Read); n[0] != "*" {
			list.Condition = map[string]map[string][]string{"StringLike": {"s3:prefix": n}}
		}
		out.Statement = append(out.Statement, list)
	}
	add("Write", slices.Concat(r.Create, r.Write), "s3:PutObject", "s3:AbortMultipartUpload")
	add("Delete", r.Delete, "s3:DeleteObject")
	return out
}

// Policy grants rights on this place and nothing else: a document for a user or a
// role in IAM, or in MinIO.
func (b *Bucket) Policy(r store.Rights) string {
	text, _ := json.MarshalIndent(b.policyFor(r), "", "  ") // of strings alone
	return string(text) + "\n"
}

// compactPolicy is the same in few bytes: a session's policy may have 2,048.
func (b *Bucket) compactPolicy(r store.Rights) string {
	text, _ := json.Marshal(b.policyFor(r)) // of strings alone
	return string(text)
}
