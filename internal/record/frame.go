package record

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"time"
)

// A frame is written as: stream, then seq, time, item and length as uvarints,
// then the bytes. The same form stands in blocks, in the ring and on the
// socket, so a frame is encoded once. Attempt, rank and writer are said once,
// in an object's index and in a socket's greeting.

const (
	MaxFrame  = 64 << 10                                       // data bytes: one full pipe
	maxHeader = 1 + 4*binary.MaxVarintLen64                    // bytes before the data
	maxSeq    = 1 << 62                                        // so that seq+1 never wraps
	MaxTime   = 253_402_300_800 * 1_000_000                    // µs; year 10000, where RFC 3339 ends
	streams   = byte(Stdout | Stderr | Agent | Metric | Usage) // every bit a stream may have
	FrameRoom = MaxFrame + maxHeader                           // bytes the largest frame takes
)

// ErrDamaged is any object or answer that no Writer has made.
var ErrDamaged = errors.New("not a drover log, or damaged")

func NewDamagedError(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

func appendFrame(dst []byte, f *Frame) []byte {
	dst = append(dst, byte(f.Stream))
	dst = binary.AppendUvarint(dst, f.Seq)
	dst = binary.AppendUvarint(dst, micros(f.Time))
	dst = binary.AppendUvarint(dst, f.Item)
	dst = binary.AppendUvarint(dst, uint64(len(f.Data)))
	return append(dst, f.Data...)
}

// micros is t as it is stored: a clock before 1970 counts as 1970.
func micros(t time.Time) uint64 {
	return uint64(min(max(t.UnixMicro(), 0), MaxTime-1))
}

func FromMicros(us uint64) time.Time { return time.UnixMicro(int64(us)).UTC() }

func oneStream(s byte) bool { return s&^streams == 0 && bits.OnesCount8(s) == 1 }

// Header is what stands before a frame's bytes.
type Header struct {
	Stream            Stream
	Seq, Micros, Item uint64
}

// takeFrame reads the frame at the beginning of b. Its Data lies in b.
func takeFrame(b []byte) (f Frame, rest []byte, err error) {
	h, from, to, err := takeHeader(b, 0)
	if err != nil {
		return f, nil, err
	}
	return Frame{Stream: h.Stream, Seq: h.Seq, Item: h.Item, Time: FromMicros(h.Micros), Data: b[from:to:to]}, b[to:], nil
}

// takeHeader reads the header at at, and says where in b the frame's bytes are.
func takeHeader(b []byte, at int) (h Header, from, to int, err error) {
	if at >= len(b) || !oneStream(b[at]) {
		return h, 0, 0, NewDamagedError("a frame of no stream")
	}
	h.Stream = Stream(b[at])
	var v [4]uint64
	at++
	for i := range v {
		x, n := binary.Uvarint(b[at:])
		if n <= 0 {
			return h, 0, 0, NewDamagedError("a frame's header is cut short")
		}
		v[i], at = x, at+n
	}
	if err := check(v); err != nil {
		return h, 0, 0, err
	}
	if v[3] > uint64(len(b)-at) {
		return h, 0, 0, NewDamagedError("a frame is cut short")
	}
	h.Seq, h.Micros, h.Item = v[0], v[1], v[2]
	return h, at, at + int(v[3]), nil
}

// byteReader is what readFrame needs: *bufio.Reader.
type byteReader interface {
	io.Reader
	io.ByteReader
}

// readFrame reads the rest of a frame after its stream. Its Data
// is new. It allocates at most MaxFrame whatever the other side says.
func readFrame(r byteReader, stream byte) (f Frame, err error) {
	if !oneStream(stream) {
		return f, NewDamagedError("a frame of no stream")
	}
	f.Stream = Stream(stream)
	var v [4]uint64
	for i := range v {
		if v[i], err = binary.ReadUvarint(r); err != nil {
			return f, err
		}
	}
	if err := check(v); err != nil {
		return f, err
	}
	f.Seq, f.Time, f.Item = v[0], FromMicros(v[1]), v[2]
	f.Data = make([]byte, v[3])
	_, err = io.ReadFull(r, f.Data)
	return f, err
}

// check looks at a header's numbers: seq, time, item, length.
func check(v [4]uint64) error {
	if v[0] == 0 || v[0] >= maxSeq || v[1] >= MaxTime || v[3] > MaxFrame {
		return NewDamagedError("a frame's header is out of range")
	}
	return nil
}
