package items

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/items/manifest"
)

// readSize is how much of a source is asked for at once.
const readSize = 256 << 10

// collector reads the lines of one source into a packer.
type collector struct {
	Source
	format string
	packer *manifest.Packer
	in     *bufio.Reader
	long   []byte // a line that did not fit into in's buffer
	record []byte // a CSV record of several lines
	lines  int    // read so far: the number of the line at hand

	bom                 bool
	crlf, empty         int // lines that ended in CRLF; that were skipped
	inner, firstInner   int // lines with a CR inside
	binary, firstBinary int // lines that are not UTF-8
}

// collectItems reads r to its end.
func (c *collector) collectItems(ctx context.Context, r io.Reader) error {
	err := c.readItems(r)
	if stop := context.Cause(ctx); stop != nil && err != nil {
		return fmt.Errorf("read items from %q: %w", c.sourceTitle(), stop)
	}
	if err != nil {
		return err
	}
	c.noteChanges()
	if c.packer.Count == 0 {
		return c.noItemsError()
	}
	return nil
}

func (c *collector) readItems(r io.Reader) error {
	in, done, err := c.unpackedReader(r)
	if err != nil {
		return err
	}
	defer done()
	c.in = in
	if err := c.skipByteOrderMark(); err != nil {
		return err
	}
	switch c.format {
	case manifest.CSV:
		return c.collectCSV()
	case manifest.JSONL:
		return c.collectJSON()
	}
	return c.collectLines()
}

func (c *collector) noItemsError() error {
	hint := "Write one item on each line."
	if c.From == "-" {
		hint = "Look at what writes into the pipe: it gave no items."
	}
	why := "it is empty"
	switch {
	case c.format == manifest.CSV && len(c.packer.Fields) > 0:
		hint, why = "Write one item on each line below the header.", "it has a header and no items"
	case c.empty > 0:
		why = "all its lines are empty"
	}
	return c.refuseSource(hint, "%s", why)
}

// unpackedReader sees through gzip and zstd, told by how they begin: no text begins so.
func (c *collector) unpackedReader(r io.Reader) (in *bufio.Reader, done func(), err error) {
	in = bufio.NewReaderSize(r, readSize)
	head, err := in.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, c.readError(err)
	}
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, nil, c.readError(fmt.Errorf("unpack gzip: %w", err))
		}
		return bufio.NewReaderSize(z, readSize), func() { z.Close() }, nil
	case bytes.Equal(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		// The zstd program takes 8 MiB at its strongest, unless --ultra or --long is asked for.
		z, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(32<<20))
		if err != nil {
			return nil, nil, c.readError(fmt.Errorf("unpack zstd: %w", err))
		}
		return bufio.NewReaderSize(z, readSize), z.Close, nil
	}
	return in, func() {}, nil
}

// readError is an error of whatever the bytes come from.
func (c *collector) readError(err error) error {
	where := ""
	if c.lines > 0 {
		where = fmt.Sprintf(": after line %d", c.lines)
	}
	return fault.Wrap(err, fault.Invalid, "Check the source and its permissions.", "read items from %q%s", c.sourceTitle(), where)
}

// skipByteOrderMark leaves out a byte order mark, and refuses those of other encodings.
func (c *collector) skipByteOrderMark() error {
	head, err := c.in.Peek(4)
	if err != nil && err != io.EOF {
		return c.readError(err)
	}
	other := ""
	switch {
	case bytes.HasPrefix(head, []byte{0xef, 0xbb, 0xbf}):
		c.bom = true
		_, err := c.in.Discard(3)
		return err
	case bytes.Equal(head, []byte{0xff, 0xfe, 0, 0}), bytes.Equal(head, []byte{0, 0, 0xfe, 0xff}):
		other = "UTF-32"
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}), bytes.HasPrefix(head, []byte{0xfe, 0xff}):
		other = "UTF-16"
	}
	if other == "" {
		return nil
	}
	file := c.From
	if file == "-" {
		file = "FILE"
	}
	return c.refuseSource("Convert it: iconv -f "+other+" -t UTF-8 "+file+" | drover map --from - ...", "it is %s text, and drover reads UTF-8", other)
}

// refuseLine refuses the line at hand, or the one given.
func (c *collector) refuseLine(line int, hint, format string, args ...any) error {
	return c.refuseSource(hint, "line %d: "+format, append([]any{line}, args...)...)
}

// readLine gives the next line without its end, good until the next call, and io.EOF
// after the last.
func (c *collector) readLine() ([]byte, error) {
	text, err := c.in.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		c.long = append(c.long[:0], text...)
		for errors.Is(err, bufio.ErrBufferFull) && len(c.long) <= manifest.MaxLine+2 {
			text, err = c.in.ReadSlice('\n')
			c.long = append(c.long, text...)
		}
		text = c.long
	}
	switch {
	case err == io.EOF && len(text) == 0:
		return nil, io.EOF
	case err != nil && err != io.EOF && !errors.Is(err, bufio.ErrBufferFull):
		return nil, c.readError(err)
	}
	c.lines++
	if n := len(text) - 1; n >= 0 && text[n] == '\n' {
		text = text[:n]
	}
	if n := len(text) - 1; n >= 0 && text[n] == '\r' {
		text = text[:n]
		c.crlf++
	}
	if len(text) > manifest.MaxLine {
		return nil, c.refuseLine(c.lines, "Put long data into files, and let each line name one.", "it is longer than 16 MiB")
	}
	if bytes.IndexByte(text, 0) >= 0 {
		return nil, c.refuseLine(c.lines, "Is it text, in UTF-8? See it with: head -c 100 FILE | od -c.", "it holds a NUL byte, and an argument cannot")
	}
	return text, nil
}

func (c *collector) addItem(text []byte) error {
	if c.packer.Count == manifest.MaxItems {
		return c.refuseLine(c.lines, "Split it into several maps.", "more than %d items", manifest.MaxItems)
	}
	return manifest.AddItem(c.packer, text)
}

func (c *collector) collectLines() error {
	for {
		text, err := c.readLine()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(text) == 0 {
			c.empty++
			continue
		}
		if bytes.IndexByte(text, '\r') >= 0 {
			if c.inner++; c.inner == 1 {
				c.firstInner = c.lines
			}
		}
		if !utf8.Valid(text) {
			if c.binary++; c.binary == 1 {
				c.firstBinary = c.lines
			}
		}
		if err := c.addItem(text); err != nil {
			return err
		}
	}
}

// checkText refuses what CSV and JSON cannot be.
func (c *collector) checkText(text []byte) error {
	if utf8.Valid(text) {
		return nil
	}
	return c.refuseLine(c.lines, "Convert it: iconv -f LATIN1 -t UTF-8 FILE.", "it is not UTF-8")
}

// noteChanges says what was done to the lines.
func (c *collector) noteChanges() {
	say := func(n int, one, many string) {
		switch {
		case n == 1:
			c.packer.Notes = append(c.packer.Notes, one)
		case n > 1:
			c.packer.Notes = append(c.packer.Notes, fmt.Sprintf(many, n))
		}
	}
	if c.bom {
		say(1, "the byte order mark at the beginning was left out", "")
	}
	say(c.crlf, "1 line ends in CR LF; the CR was left out", "%d lines end in CR LF; the CR was left out")
	say(c.empty, "1 empty line was skipped", "%d empty lines were skipped")
	say(c.inner, fmt.Sprintf("line %d holds a carriage return, which was kept", c.firstInner),
		fmt.Sprintf("%%d lines hold a carriage return, the first is line %d; they were kept as they are", c.firstInner))
	say(c.binary, fmt.Sprintf("line %d is not UTF-8; it was kept as it is", c.firstBinary),
		fmt.Sprintf("%%d lines are not UTF-8, the first is line %d; they were kept as they are", c.firstBinary))
}
