package manifest

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"math"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
)

// A manifest is a few part objects and an index. A part is zstd blocks back to
// back, each on its own; a block is items, each as its length (uvarint) and its
// text, so a text may hold any byte. Parts and the index are named by what is in
// them: two packers that store the same list at once write the same bytes under the same
// names, and a reader of the index knows that it is whole.
const (
	blockSize = 256 << 10 // bytes of items after which a block is closed; a longer line is a block
	partSize  = 4 << 20   // packed bytes, unless one block is more
	maxRaw    = MaxLine + binary.MaxVarintLen64
	maxPacked = maxRaw + 64<<10 // zstd adds far less than this to what it cannot shrink
	version   = 1
	nameLen   = 32 // hex digits of a SHA-256 in the names of parts and index
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// index is the object that a Manifest names.
type index struct {
	V      int    `json:"v"`
	Format string `json:"format"`
	Count  int    `json:"count"`
	Digest string `json:"digest"`
	Parts  []part `json:"parts"`
}

type part struct {
	Name   string  `json:"name"` // beside the index
	Blocks []block `json:"blocks"`
}

// block lies behind those before it in its part.
type block struct {
	Items  int    `json:"n"`
	Packed int    `json:"len"` // bytes, and CRC-32C of them
	Sum    uint32 `json:"crc"`
	Raw    int    `json:"raw"` // bytes unpacked
}

func (p part) totalSize() (n int64) {
	for _, b := range p.Blocks {
		n += int64(b.Packed)
	}
	return n
}

// checkIndex refuses an index that no packer has made.
func (x *index) checkIndex() error {
	if x.V != version {
		return fmt.Errorf("its version is %d, this drover reads %d", x.V, version)
	}
	if x.Format != Lines && x.Format != CSV && x.Format != JSONL {
		return fmt.Errorf("there is no format %q", x.Format)
	}
	if x.Count < 0 || x.Count > MaxItems {
		return fmt.Errorf("it cannot have %d items", x.Count)
	}
	count := 0
	for _, p := range x.Parts {
		if name, ok := hexName(p.Name, "part-", ".zst"); !ok || len(p.Blocks) == 0 {
			return fmt.Errorf("there is no part %q", name)
		}
		for _, b := range p.Blocks {
			if b.Items < 1 || b.Items > x.Count-count || b.Packed < 1 || b.Packed > maxPacked || b.Raw < b.Items || b.Raw > maxRaw {
				return fmt.Errorf("a block of %s is out of range", p.Name)
			}
			count += b.Items
		}
	}
	if count != x.Count {
		return fmt.Errorf("its blocks hold %d items of %d", count, x.Count)
	}
	return nil
}

// hexName takes the digits out of a name that begins and ends so.
func hexName(name, before, after string) (digits string, ok bool) {
	if len(name) != len(before)+nameLen+len(after) || name[:len(before)] != before || name[len(name)-len(after):] != after {
		return name, false
	}
	digits = name[len(before) : len(before)+nameLen]
	for _, c := range []byte(digits) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return name, false
		}
	}
	return digits, true
}

// Packer writes a list's parts one after the other to out.
type Packer struct {
	Fields []string // the names of the items' fields, and
	Notes  []string // what a person should know of them: set by the caller that adds the items
	Count  int
	ats    bool // some item may hold an @

	out    io.Writer
	zstd   *zstd.Encoder
	raw    []byte // items of the open block,
	items  int    // and how many
	packed []byte
	all    hash.Hash // of all items
	part   hash.Hash // of the open part
	size   int       // packed bytes in it
	index  index
}

func newPacker(out io.Writer, format string) (*Packer, error) {
	// One block at a time, with a window no larger than a block: 2 MB instead of
	// the 20 MB that the defaults take for a stream.
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithWindowSize(blockSize), zstd.WithLowerEncoderMem(true), zstd.WithEncoderCRC(false))
	return &Packer{
		out: out, zstd: enc, raw: make([]byte, 0, blockSize), all: sha256.New(), part: sha256.New(),
		index: index{V: version, Format: format, Parts: []part{}},
	}, err
}

// mayHoldAt reports whether an item's text may hold an @ once it is decoded.
func mayHoldAt(text []byte) bool {
	return bytes.IndexByte(text, '@') >= 0 || bytes.Contains(text, []byte("%40")) || bytes.Contains(text, []byte(`\u0040`))
}

// AddItem appends an item.
func AddItem[T string | []byte](p *Packer, text T) error {
	if len(p.raw) > 0 && len(p.raw)+len(text)+binary.MaxVarintLen32 > blockSize {
		if err := p.closeBlock(); err != nil {
			return err
		}
	}
	p.raw = binary.AppendUvarint(p.raw, uint64(len(text)))
	p.raw = append(p.raw, text...)
	p.ats = p.ats || mayHoldAt(p.raw[len(p.raw)-len(text):])
	p.items++
	p.Count++
	return nil
}

func (p *Packer) closeBlock() error {
	if p.items == 0 {
		return nil
	}
	p.all.Write(p.raw)
	p.packed = p.zstd.EncodeAll(p.raw, p.packed[:0])
	b := block{Items: p.items, Packed: len(p.packed), Raw: len(p.raw), Sum: crc32.Checksum(p.packed, castagnoli)}
	p.raw, p.items = p.raw[:0], 0
	if p.size > 0 && p.size+b.Packed > partSize {
		p.closePart()
	}
	if p.size == 0 {
		p.index.Parts = append(p.index.Parts, part{})
	}
	last := &p.index.Parts[len(p.index.Parts)-1]
	last.Blocks = append(last.Blocks, b)
	p.size += b.Packed
	p.part.Write(p.packed)
	_, err := p.out.Write(p.packed)
	return err
}

func (p *Packer) closePart() {
	if p.size == 0 {
		return
	}
	p.index.Parts[len(p.index.Parts)-1].Name = "part-" + hex.EncodeToString(p.part.Sum(nil))[:nameLen] + ".zst"
	p.part.Reset()
	p.size = 0
}

// sealIndex completes the index. A digest is of the items and of what they mean: the
// names of CSV's fields; those of JSON stand in the items.
func (p *Packer) sealIndex() error {
	if err := p.closeBlock(); err != nil {
		return err
	}
	p.closePart()
	fmt.Fprintf(p.all, "\ndrover items 1\n%s\n%d\n", p.index.Format, p.Count)
	if p.index.Format == CSV {
		for _, name := range p.Fields {
			fmt.Fprintf(p.all, "%d:%s", len(name), name)
		}
	}
	p.index.Count, p.index.Digest = p.Count, hex.EncodeToString(p.all.Sum(nil))
	return nil
}

// unpack gives the items of a block: text, in which each stands behind its length.
func unpack(dec *zstd.Decoder, b block, packed, room []byte) (raw []byte, err error) {
	if crc32.Checksum(packed, castagnoli) != b.Sum {
		return room, errDamaged
	}
	raw, err = dec.DecodeAll(packed, room[:0])
	if err != nil || len(raw) != b.Raw {
		return room, errDamaged
	}
	return raw, nil
}

// next takes an item off the items of a block. They were checked on the way here,
// so what does not fit was never written so.
func next(items string) (text, rest string, err error) {
	var n uint64
	for i := 0; ; i++ {
		if i == len(items) || i == binary.MaxVarintLen32 {
			return "", "", errDamaged
		}
		n |= uint64(items[i]&0x7f) << (7 * i)
		if items[i] < 0x80 {
			items = items[i+1:]
			break
		}
	}
	if n > uint64(len(items)) || n > math.MaxInt32 {
		return "", "", errDamaged
	}
	return items[:n], items[n:], nil
}

// newUnpacker makes a decoder for blocks: one at a time, none larger than the
// largest, whatever the bytes say.
func newUnpacker() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxPacked))
}

// DiskError says what to do where a list finds no room for its files.
func DiskError(err error, dir string) error {
	if !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("store the items in %s: %w", dir, err)
	}
	return fault.Wrap(err, fault.Full, "Free some space there and run it again.", "store the items in %s", dir)
}
