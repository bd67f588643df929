package record

import (
	"bufio"
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/record/recordtest"
	"github.com/drover-run/drover/store/mem"
)

// sample is an object as a Writer makes it.
func sample(t testing.TB) (key string, body []byte) {
	t.Helper()
	d := recordtest.NewStore(mem.New())
	w := newWriter(t, d, 1, 2, "abc")
	recordtest.WriteAll(t, w, Stdout, 7, []byte("some output\n"))
	recordtest.WriteAll(t, w, Stderr, 300, []byte("some trouble\n"))
	w.Note("a note")
	recordtest.CloseWriter(t, w)
	key = w.at.Key(recordtest.Prefix, 0)
	body, err := d.Get(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	return key, body
}

// parsed reads body as if it were stored, and gives the frames and errors.
func parsed(t testing.TB, key string, body []byte, filter ...Filter) (frames []Frame, errs []error) {
	d := recordtest.NewStore(mem.New())
	if err := d.Put(t.Context(), key, body); err != nil {
		t.Fatal(err)
	}
	for f, err := range Read(t.Context(), d, recordtest.Prefix, append(filter, Filter{})[0]) {
		if err != nil {
			errs = append(errs, err)
			continue
		}
		frames = append(frames, f)
	}
	return frames, errs
}

func TestEveryTruncationAndEveryFlippedByteIsNoticed(t *testing.T) {
	key, body := sample(t)
	want, errs := parsed(t, key, body)
	if len(want) != 3 || errs != nil {
		t.Fatalf("the sample itself: %d frames, %v", len(want), errs)
	}
	chosen := Filter{Item: 7, Streams: Stdout, Since: want[0].Time, Until: want[0].Time.Add(time.Microsecond)}
	few, errs := parsed(t, key, body, chosen)
	if len(few) != 1 || errs != nil {
		t.Fatalf("the sample, filtered: %d frames, %v", len(few), errs)
	}
	for n := range body {
		if _, errs := parsed(t, key, body[:n]); errs == nil {
			t.Errorf("cut to %d of %d bytes: no error", n, len(body))
		}
		bad := bytes.Clone(body)
		bad[n] ^= 0x55
		if got, errs := parsed(t, key, bad); errs == nil && !cmp.Equal(want, got) {
			t.Errorf("byte %d changed: other frames and no error", n)
		}
		if got, errs := parsed(t, key, bad, chosen); errs == nil && !cmp.Equal(few, got) {
			t.Errorf("byte %d changed: a filter finds other frames and no error", n)
		}
	}
}

// TestAnIndexThatLiesAboutItsBlocksIsNoticed: its forger knows how to make
// a checksum. What is skipped by the index must be what reading would skip.
func TestAnIndexThatLiesAboutItsBlocksIsNoticed(t *testing.T) {
	var sayings faulttest.Sayings
	t.Cleanup(func() { sayings.Compare(t, "index") })
	at := Origin{1, 2, "abc"}
	for name, lie := range map[string]func(*Block){
		"nothing":     func(*Block) {},
		"seqs":        func(b *Block) { b.First++; b.last++ },
		"more frames": func(b *Block) { b.last++ },
		"less frames": func(b *Block) { b.last-- },
		"times":       func(b *Block) { b.oldest++; b.newest++ },
		"items":       func(b *Block) { b.minItem++ },
		"streams":     func(b *Block) { b.streams = byte(Agent) },
		"length":      func(b *Block) { b.raw-- },
	} {
		p, err := newPacker()
		if err != nil {
			t.Fatal(err)
		}
		var body []byte
		for seq := range uint64(3) {
			body, _ = p.addFrame(body, &Frame{Stream: Stdout, Seq: seq + 1, Item: seq + 1, Time: recordtest.BubbleStart, Data: []byte("x")})
		}
		body = p.packBlock(body)
		lie(&p.blocks[0])
		_, errs := parsed(t, at.Key(recordtest.Prefix, 0), p.sealObject(body, at))
		for _, err := range errs {
			sayings.Error(name, err)
		}
		if honest := name == "nothing"; honest != (errs == nil) {
			t.Errorf("a lie about %s: got %v", name, errs)
		}
	}
}

func FuzzObject(f *testing.F) {
	key, body := sample(f)
	f.Add(body)
	f.Add(body[:len(body)-trailerLen])
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, errs := parsed(t, key, b)
		seq := uint64(0)
		for _, f := range frames {
			if f.Seq <= seq || len(f.Data) > MaxFrame || !oneStream(byte(f.Stream)) || f.Rank != 2 {
				t.Fatalf("impossible frame %+v", f)
			}
			seq = f.Seq
		}
		for _, err := range errs {
			if !strings.Contains(err.Error(), "not a drover log") {
				t.Fatalf("unexpected error: %v", err)
			}
		}
	})
}

// FuzzIndex puts any index under a right trailer, which FuzzObject would have
// to guess a checksum for.
func FuzzIndex(f *testing.F) {
	key, body := sample(f)
	o := &Object{tail: body}
	n, err := o.checkTrailer(int64(len(body)))
	if err != nil {
		f.Fatal(err)
	}
	end := len(body) - trailerLen
	blocks := body[:end-int(n)]
	f.Add(body[end-int(n) : end])
	f.Add([]byte{1, 2, 3, 'a', 'b', 'c', 0})
	f.Fuzz(func(t *testing.T, index []byte) {
		parsed(t, key, sealed(append(bytes.Clone(blocks), index...), len(blocks)))
	})
}

func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, &Frame{Stream: Stderr, Seq: 5, Item: 1 << 40, Time: recordtest.BubbleStart, Data: []byte("x")}))
	f.Add([]byte{1, 1, 1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, b []byte) {
		one, rest, err := takeFrame(b)
		r := bufio.NewReader(bytes.NewReader(b))
		first, _ := r.ReadByte()
		two, err2 := readFrame(r, first)
		if (err == nil) != (err2 == nil) {
			t.Fatalf("from a slice: %v; from a reader: %v", err, err2)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(one, two); diff != "" {
			t.Fatal(diff)
		}
		again, left, err := takeFrame(appendFrame(nil, &one))
		if err != nil || len(left) != 0 || !cmp.Equal(one, again) {
			t.Fatalf("does not survive a round trip: %v", err)
		}
		_ = rest
	})
}

func FuzzSocket(f *testing.F) {
	hello := append([]byte(Greeting), 1, 2, 1, 'a')
	frame := appendFrame(nil, &Frame{Stream: Stdout, Seq: 1, Time: recordtest.BubbleStart, Data: []byte("x")})
	f.Add(hello, append(frame, saidEnd))
	f.Add(hello, append(frame, saidGap))
	f.Add([]byte("HTTP/1.1 200 OK\r\n\r\n"), []byte{})
	f.Fuzz(func(t *testing.T, hello, rest []byte) {
		at, err := readGreeting(bufio.NewReader(bytes.NewReader(hello)))
		if err == nil && at.checkBounds() != nil {
			t.Fatalf("impossible place %+v", at)
		}
		readLive(bufio.NewReader(bytes.NewReader(rest)), at, func(f Frame) bool {
			if f.Seq == 0 || len(f.Data) > MaxFrame {
				t.Fatalf("impossible frame %+v", f)
			}
			return true
		})
	})
}

func FuzzKey(f *testing.F) {
	f.Add(Origin{1, 2, "abc"}.Key(recordtest.Prefix, 3))
	f.Add(recordtest.Prefix + "/000001-0000+2-abc-00000003")
	f.Fuzz(func(t *testing.T, key string) {
		if p, n, ok := ParseKey(recordtest.Prefix, key); ok && p.Key(recordtest.Prefix, n) != key {
			t.Fatalf("%q is not %v %d", key, p, n)
		}
	})
}
