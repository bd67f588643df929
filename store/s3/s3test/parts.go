package s3test

import (
	"crypto/md5"
	"encoding/xml"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// leastPart is S3's: all parts but the last are at least this large.
const leastPart = 5 << 20

func (s *Server) beginUpload(w http.ResponseWriter, key string) *refusal {
	if s.uploads == nil {
		s.uploads = map[string]*upload{}
	}
	s.serial++
	id := fmt.Sprintf("upload-%d", s.serial)
	s.uploads[id] = &upload{key: key, parts: map[int]object{}}
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key><UploadId>%s</UploadId></InitiateMultipartUploadResult>", s.Bucket, key, id)
	return nil
}

func (s *Server) putPart(w http.ResponseWriter, r *http.Request, body []byte) *refusal {
	u := s.uploads[r.URL.Query().Get("uploadId")]
	if u == nil {
		return noSuchUpload
	}
	n, err := strconv.Atoi(r.URL.Query().Get("partNumber"))
	if err != nil || n < 1 || n > 10_000 {
		return &refusal{status: 400, code: "InvalidArgument", say: "Part number must be an integer between 1 and 10000, inclusive"}
	}
	tag := fmt.Sprintf("\"%x\"", md5.Sum(body))
	u.parts[n] = object{body: body, tag: tag, sum: r.Header.Get("X-Amz-Checksum-Crc32c")}
	w.Header().Set("ETag", tag)
	return nil
}

type partList struct {
	XMLName              xml.Name `xml:"ListPartsResult"`
	IsTruncated          bool
	NextPartNumberMarker int
	Part                 []listedPart
}

type listedPart struct {
	PartNumber, Size     int
	ETag, ChecksumCRC32C string
}

// listParts tells two parts a page.
func (s *Server) listParts(w http.ResponseWriter, q url.Values) *refusal {
	u := s.uploads[q.Get("uploadId")]
	if u == nil {
		return noSuchUpload
	}
	after, _ := strconv.Atoi(q.Get("part-number-marker"))
	var list partList
	for _, n := range slices.Sorted(maps.Keys(u.parts)) {
		if n <= after {
			continue
		}
		if list.IsTruncated = len(list.Part) == 2; list.IsTruncated {
			break
		}
		o := u.parts[n]
		list.Part = append(list.Part, listedPart{PartNumber: n, Size: len(o.body), ETag: o.tag, ChecksumCRC32C: o.sum})
		list.NextPartNumberMarker = n
	}
	w.Header().Set("Content-Type", "application/xml")
	_ = xml.NewEncoder(w).Encode(list) // a test that reads half of it says so
	return nil
}

type completing struct {
	Part []struct {
		PartNumber     int
		ETag           string
		ChecksumCRC32C string
	}
}

func (s *Server) completeUpload(w http.ResponseWriter, r *http.Request, key string, body []byte) *refusal {
	id := r.URL.Query().Get("uploadId")
	u := s.uploads[id]
	var asked completing
	switch {
	case u == nil || u.key != key:
		return noSuchUpload
	case xml.Unmarshal(body, &asked) != nil || len(asked.Part) == 0:
		return &refusal{status: 400, code: "MalformedXML", say: "The XML you provided was not well-formed"}
	case s.keyIsTaken(r, key):
		return precondition
	}
	var whole []byte
	for i, p := range asked.Part {
		have, held := u.parts[p.PartNumber]
		switch {
		case !held || have.tag != p.ETag || have.sum != p.ChecksumCRC32C:
			return &refusal{status: 400, code: "InvalidPart", say: "One or more of the specified parts could not be found."}
		case i > 0 && asked.Part[i-1].PartNumber >= p.PartNumber:
			return &refusal{status: 400, code: "InvalidPartOrder", say: "The list of parts was not in ascending order."}
		case i < len(asked.Part)-1 && len(have.body) < leastPart:
			return &refusal{status: 400, code: "EntityTooSmall", say: "Your proposed upload is smaller than the minimum allowed size"}
		}
		whole = append(whole, have.body...)
	}
	said := r.Header.Get("X-Amz-Checksum-Crc32c")
	if said != "" && said != checksum(whole) {
		return badDigest
	}
	if size := r.Header.Get("X-Amz-Mp-Object-Size"); size != "" && size != strconv.Itoa(len(whole)) {
		return &refusal{status: 400, code: "InvalidRequest", say: "The size is not that of the parts."}
	}
	delete(s.uploads, id)
	o := s.putObject(key, whole, said)
	w.Header().Set("Content-Type", "application/xml")
	fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key><ETag>%s</ETag></CompleteMultipartUploadResult>", s.Bucket, key, o.tag)
	return nil
}
