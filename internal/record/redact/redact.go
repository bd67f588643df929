// Package redact masks secrets in text that comes in pieces, in each form that
// programs print them: as they are, escaped, in hexadecimal and in base64.
//
// It refuses to know where secrets come from and where the text goes.
//
// Proved by its own tests: brute force as oracle, fuzzed texts, and a canary in 32
// encodings that no output of package record may show.
package redact

import (
	"cmp"
	"encoding/binary"
	"io"
	"maps"
	"slices"
	"strings"
)

// leastSecret is how long a secret must be to be redacted: shorter ones stand in
// half of all words.
const leastSecret = 6

// Redactor takes secrets out of what is shown and stored. Each one, and each text
// that is one written differently, becomes [redacted NAME], which says nothing of
// its length. It finds a secret
//
//   - as it is, and reversed
//   - in base64, standard and for URLs, padded or not, alone or anywhere in a
//     longer text (all three alignments), wrapped into lines of 64 or 76
//   - in hexadecimal, in lower, upper or mixed case, also with its bytes apart: aa:bb,
//     aa bb, aa-bb, aa,bb, 0xaa, 0xbb
//   - percent-encoded for paths, queries and by RFC 3986, also twice or each byte; in
//     quoted-printable
//   - each byte as \xNN, each UTF-16 unit as \uNNNN
//   - as a string of JSON, of JSON inside JSON, of Go and of Python
//   - in HTML and XML
//   - quoted for a shell: ' " and \
//   - in UTF-16, both ways round
//
// and, of a secret of several lines, each line of 16 bytes or more in all these.
// Of base64 inside a longer text a character at each end may stay, which the text
// around it has made half of. What a program cuts, compresses, encrypts or writes
// letter by letter is not found: this is a last line, not a wall.
//
// A nil Redactor changes nothing. All methods may be called from many goroutines
// at once.
type Redactor struct {
	sieve sieve
	by    map[uint32][]pattern // by their first four bytes, longest first
	begin map[string]bool      // the first one, two and three bytes of all
	short []string
}

type pattern struct {
	form
	mask string
}

// sieve has a bit for what four bytes may be. Nearly all text ends here.
type sieve [1 << 10]uint64

func slot(four uint32) uint16 { return uint16(four * 0x9e3779b1 >> 16) }

// NewRedactor makes a redactor of secrets, by their names. Space around a secret
// is not looked at.
func NewRedactor(secrets map[string]string) *Redactor {
	r := &Redactor{by: map[uint32][]pattern{}, begin: map[string]bool{}}
	for _, name := range slices.Sorted(maps.Keys(secrets)) {
		secret := strings.TrimSpace(secrets[name])
		if len(secret) < leastSecret {
			r.short = append(r.short, name)
			continue
		}
		for _, f := range patterns(secret) {
			r.addPattern(pattern{f, "[redacted " + name + "]"})
		}
	}
	for _, all := range r.by {
		// Stable: a secret that has two names is known by the first.
		slices.SortStableFunc(all, func(a, b pattern) int { return cmp.Compare(len(b.text), len(a.text)) })
	}
	return r
}

func (r *Redactor) addPattern(p pattern) {
	for _, begin := range p.firstSpellings(4) {
		four := binary.LittleEndian.Uint32([]byte(begin))
		r.by[four] = append(r.by[four], p)
		r.sieve[slot(four)>>6] |= 1 << (slot(four) & 63)
		for n := 1; n < 4; n++ {
			r.begin[begin[:n]] = true
		}
	}
}

// Short names the secrets that are not redacted because they are too short: with
// less than 6 bytes.
func (r *Redactor) Short() []string {
	if r == nil {
		return nil
	}
	return r.short
}

func (r *Redactor) IsEmpty() bool { return r == nil || len(r.by) == 0 }

// String is s without secrets.
func (r *Redactor) String(s string) string {
	if r.IsEmpty() {
		return s
	}
	return string((&Stream{r: r, held: []byte(s)}).End())
}

// Writer redacts what is written to it on its way to w. What may be the beginning
// of a secret waits for what follows; Close passes it on and leaves w open. For
// one goroutine.
func (r *Redactor) Writer(w io.Writer) io.WriteCloser { return &redactedWriter{Stream{r: r}, w} }

type redactedWriter struct {
	Stream
	w io.Writer
}

func (w *redactedWriter) Write(b []byte) (int, error) {
	if _, err := w.w.Write(w.Next(b)); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (w *redactedWriter) Close() error {
	_, err := w.w.Write(w.End())
	return err
}

// secretAt looks for secrets that begin where b begins. whole is the longest, or nil;
// more means that b is too short to tell.
func (r *Redactor) secretAt(b []byte) (whole *pattern, more bool) {
	if len(b) < 4 {
		return nil, r.begin[string(b)]
	}
	all := r.by[binary.LittleEndian.Uint32(b)]
	for i := range all {
		switch n := len(all[i].text); {
		case n > len(b):
			more = more || all[i].matchesBeginning(b)
		case all[i].matchesBeginning(b[:n]):
			return &all[i], more
		}
	}
	return nil, more
}

// findCandidate gives the first place from i on that may begin a secret.
func (r *Redactor) findCandidate(b []byte, i int) int {
	for ; i+4 <= len(b); i++ {
		if s := slot(binary.LittleEndian.Uint32(b[i:])); r.sieve[s>>6]>>(s&63)&1 != 0 {
			return i
		}
	}
	return i
}

// Stream redacts one stream, which comes in pieces. One that holds nothing but
// its Redactor is at the beginning of a stream.
//
// Every byte of every secret found is taken out, also where two overlap; what
// overlaps, and the same secret again at once, becomes one mask.
type Stream struct {
	r    *Redactor
	held []byte // the end of what came, from where a secret may have begun
	progress
	joined, out []byte // reused
}

// NewStream begins a text that r redacts.
func NewStream(r *Redactor) Stream { return Stream{r: r} }

// progress is how far a stream is, in bytes from where held begins.
type progress struct {
	done int    // before it all is out, or behind a mask that is
	over int    // where the secret that was found last ends; it may be negative
	mask string // its mask
}

// Next gives what may be shown now that b has come. It is valid until the next
// call and may be b itself.
func (s *Stream) Next(b []byte) []byte {
	if s.r.IsEmpty() {
		return b
	}
	if len(s.held) > 0 {
		s.joined = append(append(s.joined[:0], s.held...), b...)
		b = s.joined
	}
	out, keep, p := s.scanSecrets(b, false)
	s.held = append(s.held[:0], b[keep:]...)
	s.progress = progress{p.done - keep, p.over - keep, p.mask}
	return out
}

// Release gives what is held back as if the stream ended here. It is still
// remembered: when it was the beginning of a secret, the rest of that is masked.
func (s *Stream) Release() []byte {
	out, _, _ := s.scanSecrets(s.held, true)
	s.done = len(s.held)
	return out
}

// HoldsText says that something is held back.
func (s *Stream) HoldsText() bool { return s.done < len(s.held) }

// End gives the rest, now that the stream has ended.
func (s *Stream) End() []byte {
	out := s.Release()
	s.held, s.progress = nil, progress{}
	return out
}

// scanSecrets gives what may be shown of b, from where it must be held, and the progress
// made, in bytes from where b begins. Nothing is held when b is the last.
func (s *Stream) scanSecrets(b []byte, last bool) (out []byte, keep int, p progress) {
	p, out = s.progress, s.out[:0]
	i := s.r.findCandidate(b, 0)
	for ; i < len(b); i = s.r.findCandidate(b, i+1) {
		whole, more := s.r.secretAt(b[i:])
		if more && !last {
			break
		}
		if whole == nil || i+len(whole.text) <= p.over {
			continue
		}
		// Behind a mask comes no other one, unless something was shown between.
		if i > p.over || i == p.over && whole.mask != p.mask || p.done > p.over {
			p.mask = whole.mask
			out = append(out, b[min(p.done, i):i]...)
			if i+len(whole.text) > p.done {
				out = append(out, p.mask...)
			}
		}
		p.over = i + len(whole.text)
		p.done = max(p.done, p.over)
	}
	if s.out = out; p.done < i {
		if len(out) == 0 { // most text: not copied
			out = b[p.done:i]
		} else {
			out = append(out, b[p.done:i]...)
			s.out = out
		}
		p.done = i
	}
	return out, i, p
}
