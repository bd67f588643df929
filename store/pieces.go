package store

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"
)

// Pieces are methods that a Bucket may have in addition, for large objects: it reads many
// pieces at once, and makes sure that all are of the same object.
type Pieces interface {
	// Look describes the object under key without reading it. ErrNotExist if it is absent.
	Look(ctx context.Context, key string) (Whole, error)
	// GetOf is Get of the very object that Look gave: ErrReplaced if its key does not hold it
	// any more, when it is opened or while it is read.
	GetOf(ctx context.Context, o Object, off, n int64) (io.ReadCloser, error)
}

// ErrReplaced marks an object that is not there any more: its key holds another one,
// or none.
var ErrReplaced = errors.New("object was replaced")

// Whole is an object as Look finds it. Its Tag is never empty.
type Whole struct {
	Object
	Sum Sum
}

// Look is Pieces.Look, or errors.ErrUnsupported where the bucket has none.
func (s *Store) Look(ctx context.Context, key string) (w Whole, err error) {
	p, ok := s.bucket.(Pieces)
	if !ok {
		return w, fmt.Errorf("look at %s in %s: %w", key, s, errors.ErrUnsupported)
	}
	err = s.retryRequest(ctx, "look at", key, func() (err error) {
		w, err = p.Look(ctx, key)
		return err
	})
	return w, err
}

// OpenOf is Pieces.GetOf, for a bucket that has it. It retries the opening, and not the
// reading. The caller closes.
func (s *Store) OpenOf(ctx context.Context, o Object, off, n int64) (r io.ReadCloser, err error) {
	p, ok := s.bucket.(Pieces)
	if !ok {
		return nil, fmt.Errorf("open %s in %s: %w", o.Key, s, errors.ErrUnsupported)
	}
	var replaced error
	err = s.retryWithBody(ctx, "open", o.Key, true, func() (err error) {
		if r, err = p.GetOf(ctx, o, off, n); errors.Is(err, ErrReplaced) {
			replaced, err = err, nil // not retried: the object will not come back
		}
		return err
	})
	return r, errors.Join(err, replaced)
}

// Sum is a checksum of an object that can be computed from those of its pieces. The zero Sum
// is for an object without a checksum from its bucket: any content matches.
type Sum struct {
	Of   string // CRC32C, CRC32 or CRC64NVME; "": not known
	Text string // as S3 and GCS write it: base64, big end first; followed by "-" and the count of parts where Part is not 0
	Part int64  // 0: Text is of all bytes; else of the sums of parts of this size, the last of which may be shorter
}

// The names of sums, as S3 has them.
const (
	CRC32C    = "CRC32C"
	CRC32     = "CRC32"
	CRC64NVME = "CRC64NVME"
)

// nvme is the reversed polynomial of CRC64NVME.
const nvme = 0x9a6c9329ac4bc9b5

// Piece is the size of the pieces that Holds can check: most, or the size of the parts in
// which the object was stored.
func (s Sum) Piece(most int64) int64 {
	if s.Part > 0 {
		return s.Part
	}
	return most
}

// New returns the hash of one piece: CRC32C where the object has no checksum, so that pieces
// have one anyway.
func (s Sum) New() hash.Hash {
	switch s.Of {
	case CRC32:
		return crc32.NewIEEE()
	case CRC64NVME:
		return crc64.New(crc64.MakeTable(nvme))
	}
	return crc32.New(crc32.MakeTable(crc32.Castagnoli))
}

// Holds says whether pieces are those of an object of size. pieces are the results of New
// for each piece in order; each is of piece bytes, and the last may be shorter.
func (s Sum) Holds(pieces [][]byte, piece, size int64) bool {
	if s.Of == "" {
		return true
	}
	if s.Part > 0 {
		all := s.New()
		for _, p := range pieces {
			all.Write(p) // a hash takes everything
		}
		return s.Text == fmt.Sprintf("%s-%d", base64.StdEncoding.EncodeToString(all.Sum(nil)), len(pieces))
	}
	whole := s.New().Sum(nil)
	for i, p := range pieces {
		whole = s.joinSums(whole, p, min(piece, size-int64(i)*piece))
	}
	return s.Text == base64.StdEncoding.EncodeToString(whole)
}

// joinSums is the sum of a followed by b, which is n bytes long. It is the sum of a followed
// by n zero bytes, which is a product of polynomials modulo that of the sum, joined with b's.
func (s Sum) joinSums(a, b []byte, n int64) []byte {
	f := field{top: 1 << 31, poly: crc32.Castagnoli}
	switch s.Of {
	case CRC32:
		f.poly = crc32.IEEE
	case CRC64NVME:
		f = field{top: 1 << 63, poly: nvme}
	}
	wide := func(b []byte) uint64 {
		var w [8]byte
		copy(w[8-len(b):], b)
		return binary.BigEndian.Uint64(w[:])
	}
	sum := f.multiply(f.zeroBytesPower(n), wide(a)) ^ wide(b)
	return binary.BigEndian.AppendUint64(nil, sum)[8-len(a):]
}

// field is the field of polynomials over two elements modulo poly. The coefficient of 1 is
// at the top bit, as in the sums.
type field struct{ top, poly uint64 }

func (f field) multiply(a, b uint64) (product uint64) {
	for at := f.top; at != 0 && a != 0; at >>= 1 {
		if a&at != 0 {
			product ^= b
			a ^= at
		}
		if b&1 != 0 {
			b = b>>1 ^ f.poly
		} else {
			b >>= 1
		}
	}
	return product
}

// zeroBytesPower is x to the power of the number of bits in n bytes.
func (f field) zeroBytesPower(n int64) uint64 {
	result, square := f.top, f.top>>8
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			result = f.multiply(result, square)
		}
		square = f.multiply(square, square)
	}
	return result
}
