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
	MaxBlock  = blockSize + FrameRoom // so no block is larger than this
	maxPacked = MaxBlock + 64<<10     // and zstd adds far less than this
	maxRun    = 2 << 20               // bytes of blocks fetched in one request
	maxBlocks = 4096                  // MaxPending needs 17
	maxIndex  = 1 << 20               // bytes; at most 80 of them a block

	// TailSize is read first of every object: most objects whole, and of the
	// others the index and trailer, in one request.
	TailSize = 64 << 10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Block is what the index says of a block.
type Block struct {
	off, packed      int64 // where it lies, and its length there
	raw              int64 // its length unpacked
	First, last      uint64
	oldest, newest   uint64 // µs
	minItem, maxItem uint64
	streams          byte // bits
}

// packer builds one object after the other, reusing its buffers.
type packer struct {
	zstd   *zstd.Encoder
	raw    []byte  // frames of the open block
	open   Block   // what is known of them
	blocks []Block // closed ones
	total  int     // raw bytes in the object so far, open block included
}

func newPacker() (*packer, error) {
	// One block at a time, at a window no larger than a block: 2 MB instead of
	// the 20 MB that the defaults take for a stream.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest),
		zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(blockSize), zstd.WithLowerEncoderMem(true))
	return &packer{zstd: enc, raw: make([]byte, 0, MaxBlock)}, err
}

// addFrame appends a frame to the open block and gives its encoded form, which is
// good until the next call. It packs into body, and returns it, when the block
// is full.
func (p *packer) addFrame(body []byte, f *Frame) (newBody, encoded []byte) {
	from := len(p.raw)
	p.raw = appendFrame(p.raw, f)
	encoded = p.raw[from:]
	p.total += len(encoded)
	b, us := &p.open, micros(f.Time)
	if from == 0 {
		*b = Block{First: f.Seq, oldest: us, newest: us, minItem: f.Item, maxItem: f.Item}
	}
	b.last = f.Seq
	b.oldest, b.newest = min(b.oldest, us), max(b.newest, us)
	b.minItem, b.maxItem = min(b.minItem, f.Item), max(b.maxItem, f.Item)
	b.streams |= byte(f.Stream)
	if len(p.raw) >= blockSize {
		body = p.packBlock(body)
	}
	return body, encoded
}

func (p *packer) packBlock(body []byte) []byte {
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

// sealObject finishes the object in body and makes ready for the next one.
func (p *packer) sealObject(body []byte, at Origin) []byte {
	body = p.packBlock(body)
	from := len(body)
	put := func(v uint64) { body = binary.AppendUvarint(body, v) }
	put(uint64(at.Attempt))
	put(uint64(at.Rank))
	put(uint64(len(at.Writer)))
	body = append(body, at.Writer...)
	put(uint64(len(p.blocks)))
	for _, b := range p.blocks {
		put(uint64(b.packed))
		put(uint64(b.raw))
		put(b.First)
		put(b.last - b.First)
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

// Object is a stored one, its index read and its blocks not.
type Object struct {
	At     Origin
	blocks []Block
	Key    string
	tail   []byte // its last bytes, already here
	tailAt int64  // where they begin
}

// OpenObject reads an object's index. size is its length in bytes.
func OpenObject(ctx context.Context, s Store, key string, size int64) (*Object, error) {
	o := &Object{Key: key, tailAt: max(0, size-TailSize)}
	var err error
	if o.tail, err = o.fetchRange(ctx, s, o.tailAt, size); err != nil {
		return nil, err
	}
	return o, o.loadIndex(ctx, s, size)
}

// loadIndex reads the index; its end at least is in the tail.
func (o *Object) loadIndex(ctx context.Context, s Store, size int64) error {
	if size < int64(len(magic)+trailerLen) {
		return NewDamagedError("%d bytes are too few", size)
	}
	indexLen, err := o.checkTrailer(size)
	if err != nil {
		return err
	}
	indexAt := size - int64(trailerLen) - indexLen
	if indexAt < o.tailAt {
		more, err := o.fetchRange(ctx, s, indexAt, o.tailAt)
		if err != nil {
			return err
		}
		o.tail, o.tailAt = append(more, o.tail...), indexAt
	}
	return o.parseIndex(indexAt, indexLen)
}

// checkTrailer checks the object's end and says how long the index is.
func (o *Object) checkTrailer(size int64) (int64, error) {
	t := o.tail[len(o.tail)-trailerLen:]
	if got := string(t[16:]); got != magic {
		if got[:len(magic)-1] == magic[:len(magic)-1] {
			return 0, NewDamagedError("its version is %d, this drover reads %d", got[len(got)-1], magic[len(magic)-1])
		}
		return 0, NewDamagedError("its end is missing")
	}
	if binary.LittleEndian.Uint64(t[8:]) != uint64(size) {
		return 0, NewDamagedError("its length is not the one it was written with")
	}
	n := int64(binary.LittleEndian.Uint32(t))
	if n > maxIndex || n > size-int64(len(magic)+trailerLen) {
		return 0, NewDamagedError("its index is too long")
	}
	return n, nil
}

func (o *Object) parseIndex(indexAt, indexLen int64) error {
	index := o.tail[indexAt-o.tailAt:][:indexLen]
	want := binary.LittleEndian.Uint32(o.tail[len(o.tail)-trailerLen+4:])
	if crc32.Checksum(index, castagnoli) != want {
		return NewDamagedError("its index is damaged")
	}
	p := parser{b: index}
	o.At.Attempt, o.At.Rank = int(p.readUvarint(maxAttempt)), int(p.readUvarint(maxRank))
	o.At.Writer = string(p.takeBytes(int(p.readUvarint(maxID))))
	count := int(p.readUvarint(maxBlocks))
	off, next := int64(len(magic)), uint64(0)
	for range count {
		b := Block{off: off}
		b.packed, b.raw = int64(p.readUvarint(maxPacked)), int64(p.readUvarint(MaxBlock))
		b.First = p.readUvarint(maxSeq - 1)
		b.last = b.First + p.readUvarint(maxSeq-1)
		b.oldest = p.readUvarint(MaxTime - 1)
		b.newest = b.oldest + p.readUvarint(MaxTime-1)
		b.minItem = p.readUvarint(1<<64 - 1)
		b.maxItem = b.minItem + p.readUvarint(1<<64-1)
		b.streams = byte(p.readUvarint(uint64(streams)))
		if p.bad || b.First == 0 || b.last >= maxSeq || b.First < next || b.maxItem < b.minItem {
			return NewDamagedError("its index is not valid")
		}
		off, next = off+b.packed, b.last+1
		o.blocks = append(o.blocks, b)
	}
	if p.bad || len(p.b) != 0 || off != indexAt || o.At.checkBounds() != nil {
		return NewDamagedError("its index is not valid")
	}
	return nil
}

// parser takes numbers off b; the first that is missing or too large makes it bad.
type parser struct {
	b   []byte
	bad bool
}

func (p *parser) readUvarint(most uint64) uint64 {
	v, n := binary.Uvarint(p.b)
	if n <= 0 || v > most {
		p.bad, p.b = true, nil
		return 0
	}
	p.b = p.b[n:]
	return v
}

func (p *parser) takeBytes(n int) []byte {
	if n > len(p.b) {
		p.bad, p.b = true, nil
		return nil
	}
	got := p.b[:n]
	p.b = p.b[n:]
	return got
}

// fetchBlocks reads the bytes of blocks that lie back to back.
func (o *Object) fetchBlocks(ctx context.Context, s Store, run []Block) ([]byte, error) {
	from := run[0].off
	last := run[len(run)-1]
	to := last.off + last.packed
	if from >= o.tailAt {
		return o.tail[from-o.tailAt : to-o.tailAt], nil
	}
	return o.fetchRange(ctx, s, from, to)
}

// yieldFrames gives the frames of the blocks that are wanted to yield, until that
// says stop.
func (o *Object) yieldFrames(ctx context.Context, s Store, dec *zstd.Decoder, wanted func(*Block) bool, yield func(Frame) bool) (goOn bool, err error) {
	return o.BlockRuns(ctx, s, wanted, func(b Block, packed []byte) (bool, error) { return o.unpackBlock(dec, packed, b, yield) })
}

// BlockRuns gives the blocks that are wanted to use as they were stored, until that says
// stop. Neighbours are fetched in one request, up to maxRun bytes.
func (o *Object) BlockRuns(ctx context.Context, s Store, wanted func(*Block) bool, use func(b Block, packed []byte) (goOn bool, err error)) (goOn bool, err error) {
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
		packed, err := o.fetchBlocks(ctx, s, run)
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

func (o *Object) fetchRange(ctx context.Context, s Store, from, to int64) ([]byte, error) {
	r, err := s.Open(ctx, o.Key, from, to-from)
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
		return nil, NewDamagedError("it is shorter than its listing said")
	}
	return buf.Bytes(), nil
}

// NewDecoder makes what unpack needs. It holds no goroutine.
func NewDecoder() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderMaxMemory(MaxBlock+1), zstd.WithDecoderMaxWindow(1<<20),
		zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
}

// unpackBlock gives the frames of a block to yield until that says stop.
func (o *Object) unpackBlock(dec *zstd.Decoder, packed []byte, b Block, yield func(Frame) bool) (goOn bool, err error) {
	raw, err := UnpackBlock(dec, packed, b, make([]byte, 0, b.raw))
	if err != nil {
		return true, err
	}
	goOn = true
	_, err = WalkFrames(raw, b, func(h Header, from, to int) bool {
		goOn = yield(Frame{Attempt: o.At.Attempt, Rank: o.At.Rank, Writer: o.At.Writer, Seq: h.Seq, Item: h.Item,
			Stream: h.Stream, Time: FromMicros(h.Micros), Data: raw[from:to:to]})
		return goOn
	})
	return goOn, err
}

// UnpackBlock is a block's frames as they stand in it, appended to the empty into.
func UnpackBlock(dec *zstd.Decoder, packed []byte, b Block, into []byte) ([]byte, error) {
	raw, err := dec.DecodeAll(packed, into)
	if err != nil {
		return nil, NewDamagedError("a block cannot be unpacked (%v)", err)
	}
	if int64(len(raw)) != b.raw {
		return nil, NewDamagedError("a block has another length than its index says")
	}
	return raw, nil
}

// WalkFrames gives the frames in an unpacked block to yield until that says stop. Each is
// checked against the index, so that what was skipped by the index is what would
// have been skipped by reading. next is the seq behind the last one that was given.
func WalkFrames(raw []byte, b Block, yield func(h Header, from, to int) bool) (next uint64, err error) {
	next = b.First
	for at := 0; at < len(raw); {
		h, from, to, err := takeHeader(raw, at)
		if err != nil {
			return next, err
		}
		if !b.holdsFrame(h, next) {
			return next, NewDamagedError("a block has other frames than its index says")
		}
		at = to
		next++
		if !yield(h, from, to) {
			return next, nil
		}
	}
	if next != b.last+1 {
		return next, NewDamagedError("a block has fewer frames than its index says")
	}
	return next, nil
}

func (b *Block) holdsFrame(h Header, next uint64) bool {
	return h.Seq == next && h.Seq <= b.last && h.Micros >= b.oldest && h.Micros <= b.newest &&
		h.Item >= b.minItem && h.Item <= b.maxItem && b.streams&byte(h.Stream) != 0
}
