package store_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/drover-run/drover/store"
)

// The sums of "123456789" are in every catalogue of them.
func TestSumsAreThoseOfTheCatalogues(t *testing.T) {
	for of, want := range map[string]string{store.CRC32C: "e3069283", store.CRC32: "cbf43926", store.CRC64NVME: "ae8b14860a799888"} {
		h := store.Sum{Of: of}.New()
		h.Write([]byte("123456789"))
		if got := fmt.Sprintf("%x", h.Sum(nil)); got != want {
			t.Errorf("%s: %s, want %s", of, got, want)
		}
	}
}

func TestASumFollowsFromThoseOfThePieces(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, of := range []string{store.CRC32C, store.CRC32, store.CRC64NVME} {
		for range 50 {
			body := make([]byte, 1+r.IntN(5000))
			for i := range body {
				body[i] = byte(r.Uint32())
			}
			piece := int64(1 + r.IntN(2*len(body)))
			sum := store.Sum{Of: of}
			all := sum.New()
			all.Write(body)
			sum.Text = base64.StdEncoding.EncodeToString(all.Sum(nil))
			parts := store.Sum{Of: of, Part: piece}
			var pieces [][]byte
			ofSums := sum.New()
			for at := int64(0); at < int64(len(body)); at += piece {
				h := sum.New()
				h.Write(body[at:min(at+piece, int64(len(body)))])
				pieces = append(pieces, h.Sum(nil))
				ofSums.Write(h.Sum(nil))
			}
			parts.Text = fmt.Sprintf("%s-%d", base64.StdEncoding.EncodeToString(ofSums.Sum(nil)), len(pieces))
			size := int64(len(body))
			if !sum.Holds(pieces, piece, size) || !parts.Holds(pieces, piece, size) || parts.Piece(7) != piece || sum.Piece(7) != 7 {
				t.Fatalf("%s of %d bytes in pieces of %d does not hold", of, size, piece)
			}
			pieces[r.IntN(len(pieces))][0] ^= 1
			if sum.Holds(pieces, piece, size) || parts.Holds(pieces, piece, size) {
				t.Fatalf("%s of %d bytes in pieces of %d holds of others", of, size, piece)
			}
		}
	}
	if !(store.Sum{}).Holds(nil, 1, 1) {
		t.Error("no sum refuses")
	}
}
