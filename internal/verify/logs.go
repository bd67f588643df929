package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/store"
)

// format is what this code knows to read.
const format = 1

// readEntries gives the entries of a log to take, in order. last is the highest number
// that a listing, made before, has shown; -1: none. whole is false where the log has a
// hole, or an entry that cannot be read: a doubt says so, and nothing after that is given.
func (v *verifier) readEntries(ctx context.Context, name, dir string, last int, take func(n int, e protocol.Entry) error) (whole bool, err error) {
	for n := 0; ; n++ {
		b, err := v.s.Get(ctx, fmt.Sprintf("%s/%08d", dir, n))
		if errors.Is(err, store.ErrNotExist) {
			if n > last {
				return true, nil
			}
			v.addFinding(RuleHole, Note{Log: name, Entry: n, Why: fmt.Sprintf("it is missing, and entry %d is there", last)})
			return false, nil
		}
		if err != nil && !errors.Is(err, store.ErrMalformed) {
			return false, fmt.Errorf("read log %s: %w", name, err)
		}
		v.r.Entries++
		var e protocol.Entry
		if err == nil {
			e, err = decode(b)
		}
		if err != nil {
			v.addFinding(RuleEntry, Note{Log: name, Entry: n, Why: fmt.Sprintf("it cannot be read: %v", err)})
			return false, nil
		}
		if err := take(n, e); err != nil {
			return false, err
		}
	}
}

// decode is strict: a fact that this code does not know might change what follows.
func decode(b []byte) (e protocol.Entry, err error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, err
	}
	if _, err := d.Token(); err != io.EOF {
		return e, errors.New("there is data after its end")
	}
	switch {
	case e.V != format:
		return e, fmt.Errorf("its format is %d, this drover knows %d", e.V, format)
	case e.Nonce == "" || e.By == "":
		return e, errors.New("it does not name its owner")
	}
	return e, nil
}

// bare says that nothing but what every entry has is left of e. Callers take
// out what may be there.
func bare(e protocol.Entry) bool {
	e.V, e.Nonce, e.By, e.At = 0, "", "", time.Time{}
	return reflect.DeepEqual(e, protocol.Entry{})
}

// listObjects gives every object below a prefix, by the rest of its key.
func (v *verifier) listObjects(ctx context.Context, prefix string, each func(rest string)) error {
	for o, err := range v.s.List(ctx, prefix) {
		if err != nil {
			return fmt.Errorf("list %s: %w", prefix, err)
		}
		each(strings.TrimPrefix(o.Key, prefix))
	}
	return nil
}

// lastSequence lists a log: the highest of its numbers, -1 when it is empty. What is no
// number is a doubt.
func (v *verifier) lastSequence(ctx context.Context, name, dir string) (last int, err error) {
	last = -1
	err = v.listObjects(ctx, dir+"/", func(rest string) {
		n, ok := number(rest)
		if !ok {
			v.addFinding(RuleStray, Note{Log: name, Entry: -1, Why: fmt.Sprintf("%s is not an entry of it", rest)})
			return
		}
		last = max(last, n)
	})
	return last, err
}

// number reads an entry's name: eight digits.
func number(name string) (n int, ok bool) {
	if len(name) != 8 || strings.Trim(name, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(name)
	return n, err == nil
}
