package record

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A log object is:
//
//	magic            8 bytes, the last is the version
//	blocks           zstd, each on its own, about 256 KiB of frames each
//	index            attempt, rank, writer, and of each block: lengths, seqs, times, items, streams
//	trailer          24 bytes: index length, index CRC-32C, object length, magic
//
// Blocks lie back to back, so an index cannot point anywhere else, and the
// trailer's length tells a truncated object from a whole one.
const (
	magic      = "DRVLOG\x00\x01"
	trailerLen = 4 + 4 + 8 + len(magic)

	blockSize = 256 << 10             // bytes of frames after which a block is closed
	maxRaw    = blockSize + frameRoom // so no block is larger than this
	maxPacked = maxRaw + 64<<10       // and zstd adds far less than this
	maxRun    = 2 << 20               // bytes of blocks fetched in one request
	maxBlocks = 4096                  // maxPending needs 17
	maxIndex  = 1 << 20               // bytes; at most 80 of them a block

	// tailSize is read first of every object: most objects whole, and of the
	// others the index and trailer, in one request.
	tailSize = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// block is what the index says of a block.
type block struct {
	off, packed      int64 // where it lies, and its length there
	raw              int64 // its length unpacked
	first, last      uint64
	oldest, newest   uint64 // µs
	minItem, maxItem uint64
	streams          byte // bits
}

// packer builds one object after the other, reusing its buffers.
type packer struct {
	zstd   *zstd.Encoder
	raw    []byte  // frames of the open block
	open   block   // what is known of them
	blocks []block // closed ones
	total  int     // raw bytes in the object so far, open block included
}

func newPacker() (*packer, error) {
	// One block at a time, at a window no larger than a block: 2 MB instead of
	// the 20 MB that the defaults take for a stream.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(blockSize), zstd.WithLowerEncoderMem(true))
	return &packer{zstd: enc, raw: make([]byte, 0, maxRaw)}, err
}

// add appends a frame to the open block and gives its encoded form, which is
// good until the next call. It packs into body, and returns it, when the block
// is full.
func (p *packer) add(body []byte, f *Frame) (newBody, encoded []byte) {
	from := len(p.raw)
	p.raw = appendFrame(p.raw, f)
	encoded = p.raw[from:]
	p.total += len(encoded)
	b, us := &p.open, micros(f.Time)
	if from == 0 {
		*b = block{first: f.Seq, oldest: us, newest: us, minItem: f.Item, maxItem: f.Item}
	}
	b.last = f.Seq
	b.oldest, b.newest = min(b.oldest, us), max(b.newest, us)
	b.minItem, b.maxItem = min(b.minItem, f.Item), max(b.maxItem, f.Item)
	b.streams |= byte(f.Stream)
	if len(p.raw) >= blockSize {
		body = p.pack(body)
	}
	return body, encoded
}

func (p *packer) pack(body []byte) []byte {
	if len(p.raw) == 0 {
		return body
	}
	if len(body) == 0 {
		body = append(body, magic...)
	}
	b := p.open
	b.off, b.raw = int64(len(body)), int64(len(p.raw))
	body = p.zstd.EncodeAll(p.raw, body)
	b.packed = int64(len(body)) - b.off
	p.blocks = append(p.blocks, b)
	p.raw = p.raw[:0]
	return body
}

// seal finishes the object in body and makes ready for the next one.
func (p *packer) seal(body []byte, at place) []byte {
	body = p.pack(body)
	from := len(body)
	put := func(v uint64) { body = binary.AppendUvarint(body, v) }
	put(uint64(at.attempt))
	put(uint64(at.rank))
	put(uint64(len(at.writer)))
	body = append(body, at.writer...)
	put(uint64(len(p.blocks)))
	for _, b := range p.blocks {
		put(uint64(b.packed))
		put(uint64(b.raw))
		put(b.first)
		put(b.last - b.first)
		put(b.oldest)
		put(b.newest - b.oldest)
		put(b.minItem)
		put(b.maxItem - b.minItem)
		put(uint64(b.streams))
	}
	body = sealed(body, from)
	p.blocks, p.total = p.blocks[:0], 0
	return body
}

// sealed appends the trailer for the index that begins at from.
func sealed(body []byte, from int) []byte {
	index := body[from:]
	sum := crc32.Checksum(index, castagnoli)
	body = binary.LittleEndian.AppendUint32(body, uint32(len(index)))
	body = binary.LittleEndian.AppendUint32(body, sum)
	body = binary.LittleEndian.AppendUint64(body, uint64(len(body)+8+len(magic)))
	return append(body, magic...)
}

// object is a stored one, its index read and its blocks not.
type object struct {
	at     place
	blocks []block
	key    string
	tail   []byte // its last bytes, already here
	tailAt int64  // where they begin
}

// openObject reads an object's index. size is its length in bytes.
func openObject(ctx context.Context, s Store, key string, size int64) (*object, error) {
	o := &object{key: key, tailAt: max(0, size-tailSize)}
	var err error
	if o.tail, err = o.fetch(ctx, s, o.tailAt, size); err != nil {
		return nil, err
	}
	return o, o.load(ctx, s, size)
}

// load reads the index, whose end at least is in the tail.
func (o *object) load(ctx context.Context, s Store, size int64) error {
	if size < int64(len(magic)+trailerLen) {
		return broken("%d bytes are too few", size)
	}
	indexLen, err := o.trailer(size)
	if err != nil {
		return err
	}
	indexAt := size - int64(trailerLen) - indexLen
	if indexAt < o.tailAt {
		more, err := o.fetch(ctx, s, indexAt, o.tailAt)
		if err != nil {
			return err
		}
		o.tail, o.tailAt = append(more, o.tail...), indexAt
	}
	return o.parse(indexAt, indexLen)
}

// trailer checks the object's end and says how long the index is.
func (o *object) trailer(size int64) (int64, error) {
	t := o.tail[len(o.tail)-trailerLen:]
	if got := string(t[16:]); got != magic {
		if got[:len(magic)-1] == magic[:len(magic)-1] {
			return 0, broken("its version is %d, this drover reads %d", got[len(got)-1], magic[len(magic)-1])
		}
		return 0, broken("its end is missing")
	}
	if binary.LittleEndian.Uint64(t[8:]) != uint64(size) {
		return 0, broken("its length is not the one it was written with")
	}
	n := int64(binary.LittleEndian.Uint32(t))
	if n > maxIndex || n > size-int64(len(magic)+trailerLen) {
		return 0, broken("its index is too long")
	}
	return n, nil
}

func (o *object) parse(indexAt, indexLen int64) error {
	index := o.tail[indexAt-o.tailAt:][:indexLen]
	want := binary.LittleEndian.Uint32(o.tail[len(o.tail)-trailerLen+4:])
	if crc32.Checksum(index, castagnoli) != want {
		return broken("its index is damaged")
	}
	p := parser{b: index}
	o.at.attempt, o.at.rank = int(p.uint(maxAttempt)), int(p.uint(maxRank))
	o.at.writer = string(p.take(int(p.uint(maxID))))
	count := int(p.uint(maxBlocks))
	off, next := int64(len(magic)), uint64(0)
	for range count {
		b := block{off: off}
		b.packed, b.raw = int64(p.uint(maxPacked)), int64(p.uint(maxRaw))
		b.first = p.uint(maxSeq - 1)
		b.last = b.first + p.uint(maxSeq-1)
		b.oldest = p.uint(maxTime - 1)
		b.newest = b.oldest + p.uint(maxTime-1)
		b.minItem = p.uint(1<<64 - 1)
		b.maxItem = b.minItem + p.uint(1<<64-1)
		b.streams = byte(p.uint(uint64(streams)))
		if p.bad || b.first == 0 || b.last >= maxSeq || b.first < next || b.maxItem < b.minItem {
			return broken("its index is not valid")
		}
		off, next = off+b.packed, b.last+1
		o.blocks = append(o.blocks, b)
	}
	if p.bad || len(p.b) != 0 || off != indexAt || o.at.check() != nil {
		return broken("its index is not valid")
	}
	return nil
}

// parser takes numbers off b; the first that is missing or too large makes it bad.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) uint(most uint64) uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 || v > most {
		p.bad, p.b = true, nil
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) take(n int) []byte {
	if n > len(p.b) {
		p.bad, p.b = true, nil
		return nil
	}
	got := p.b[:n]
	p.b = p.b[n:]
	return got
}

// packed reads the bytes of blocks that lie back to back.
func (o *object) packed(ctx context.Context, s Store, run []block) ([]byte, error) {
	from := run[0].off
	last := run[len(run)-1]
	to := last.off + last.packed
	if from >= o.tailAt {
		return o.tail[from-o.tailAt : to-o.tailAt], nil
	}
	return o.fetch(ctx, s, from, to)
}

// frames gives the frames of the blocks that are wanted to yield, until that
// says stop.
func (o *object) frames(ctx context.Context, s Store, dec *zstd.Decoder, wanted func(*block) bool, yield func(Frame) bool) (goOn bool, err error) {
	return o.runs(ctx, s, wanted, func(b block, packed []byte) (bool, error) { return o.unpack(dec, packed, b, yield) })
}

// runs gives the blocks that are wanted to use as they were stored, until that says
// stop. Neighbours are fetched in one request, up to maxRun bytes.
func (o *object) runs(ctx context.Context, s Store, wanted func(*block) bool, use func(b block, packed []byte) (goOn bool, err error)) (goOn bool, err error) {
	for at := 0; at < len(o.blocks); {
		if !wanted(&o.blocks[at]) {
			at++
			continue
		}
		end, size := at, int64(0)
		for end < len(o.blocks) && wanted(&o.blocks[end]) && (end == at || size+o.blocks[end].packed <= maxRun) {
			size += o.blocks[end].packed
			end++
		}
		run := o.blocks[at:end]
		packed, err := o.packed(ctx, s, run)
		if err != nil {
			return true, err
		}
		for _, b := range run {
			if goOn, err := use(b, packed[b.off-run[0].off:][:b.packed]); !goOn || err != nil {
				return goOn, err
			}
		}
		at = end
	}
	return true, nil
}

func (o *object) fetch(ctx context.Context, s Store, from, to int64) ([]byte, error) {
	r, err := s.Open(ctx, o.key, from, to-from)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	// Grown as bytes arrive: a listing that lies about sizes costs no more than a run.
	var buf bytes.Buffer
	buf.Grow(int(min(to-from, maxRun)) + bytes.MinRead)
	if _, err := buf.ReadFrom(io.LimitReader(r, to-from)); err != nil {
		return nil, err
	}
	if int64(buf.Len()) != to-from {
		return nil, broken("it is shorter than its listing said")
	}
	return buf.Bytes(), nil
}

// newDecoder makes what unpack needs. It holds no goroutine.
func newDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(maxRaw+1), zstd.WithDecoderMaxWindow(1<<20),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
}

// unpack gives the frames of a block to yield until that says stop.
func (o *object) unpack(dec *zstd.Decoder, packed []byte, b block, yield func(Frame) bool) (goOn bool, err error) {
	raw, err := unpacked(dec, packed, b, make([]byte, 0, b.raw))
	if err != nil {
		return true, err
	}
	goOn = true
	_, err = walk(raw, b, func(h header, from, to int) bool {
		goOn = yield(Frame{Attempt: o.at.attempt, Rank: o.at.rank, Writer: o.at.writer, Seq: h.seq, Item: h.item,
			Stream: h.stream, Time: fromMicros(h.us), Data: raw[from:to:to]})
		return goOn
	})
	return goOn, err
}

// unpacked is a block's frames as they stand in it, appended to the empty into.
func unpacked(dec *zstd.Decoder, packed []byte, b block, into []byte) ([]byte, error) {
	raw, err := dec.DecodeAll(packed, into)
	if err != nil {
		return nil, broken("a block cannot be unpacked (%v)", err)
	}
	if int64(len(raw)) != b.raw {
		return nil, broken("a block has another length than its index says")
	}
	return raw, nil
}

// walk gives the frames in an unpacked block to yield until that says stop. Each is
// checked against the index, so that what was skipped by the index is what would
// have been skipped by reading. next is the seq behind the last one that was given.
func walk(raw []byte, b block, yield func(h header, from, to int) bool) (next uint64, err error) {
	next = b.first
	for at := 0; at < len(raw); {
		h, from, to, err := takeHeader(raw, at)
		if err != nil {
			return next, err
		}
		if !b.holds(h, next) {
			return next, broken("a block has other frames than its index says")
		}
		at = to
		next++
		if !yield(h, from, to) {
			return next, nil
		}
	}
	if next != b.last+1 {
		return next, broken("a block has fewer frames than its index says")
	}
	return next, nil
}

func (b *block) holds(h header, next uint64) bool {
	return h.seq == next && h.seq <= b.last && h.us >= b.oldest && h.us <= b.newest &&
		h.item >= b.minItem && h.item <= b.maxItem && b.streams&byte(h.stream) != 0
}
