package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// format is what this code knows to read.
const format = 2

// readEntries gives the entries of a log to take, in order. last is the highest number
// that a listing, made before, has shown; -1: none. whole is false where the log has a
// hole, or an entry that cannot be read: a doubt says so, and nothing after that is given.
// foreign says that an entry holds a fact that belongs to another log.
func readEntries[E protocol.Entry](ctx context.Context, v *verifier, name, dir string, last int, take func(n int, e E, foreign bool) error) (whole bool, err error) {
	for n := 0; ; n++ {
		b, err := v.s.Get(ctx, fmt.Sprintf("%s/%08d", dir, n))
		if errors.Is(err, store.ErrNotExist) {
			if n > last {
				return true, nil
			}
			v.addFinding(RuleHole, report.VerifyNote{Log: name, Entry: n, Why: fmt.Sprintf("it is missing, and entry %d is there", last)})
			return false, nil
		}
		if err != nil && !errors.Is(err, store.ErrMalformed) {
			return false, fmt.Errorf("read log %s: %w", name, err)
		}
		v.r.Entries++
		var e E
		foreign := false
		if err == nil {
			e, foreign, err = decode[E](b)
		}
		if err != nil {
			v.addFinding(RuleEntry, report.VerifyNote{Log: name, Entry: n, Why: fmt.Sprintf("it cannot be read: %v", err)})
			return false, nil
		}
		if err := take(n, e, foreign); err != nil {
			return false, err
		}
	}
}

// decode is strict: a fact that this code does not know might change what follows. A fact
// of another log is known, and counts for nothing here: foreign is then true.
func decode[E protocol.Entry](b []byte) (e E, foreign bool, err error) {
	if err = decodeStrictly(b, &e); err != nil {
		if own, ok := withoutForeignFacts[E](b); ok {
			e = *new(E)
			foreign, err = true, decodeStrictly(own, &e)
		}
	}
	if err != nil {
		return e, foreign, err
	}
	switch h := protocol.HeaderOf(&e); {
	case h.V != format:
		return e, foreign, fmt.Errorf("its format is %d, and this drover reads %d", h.V, format)
	case h.Nonce == "" || h.By == "":
		return e, foreign, errors.New("it does not name its owner")
	}
	return e, foreign, nil
}

func decodeStrictly(b []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("there is data after its end")
	}
	return nil
}

// withoutForeignFacts takes facts of other logs out of an entry of type E; ok is false
// when it holds none.
func withoutForeignFacts[E protocol.Entry](b []byte) (own []byte, ok bool) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(b, &fields) != nil {
		return nil, false
	}
	before, mine, others := len(fields), factsOf[E](), slices.Concat(factsOf[protocol.TaskEntry](), factsOf[protocol.JobEntry](), factsOf[protocol.ChunkEntry](), factsOf[protocol.StateEntry](),
		factsOf[protocol.InputEntry](), factsOf[protocol.OutputsEntry](), factsOf[protocol.RoundsEntry](), factsOf[protocol.SweepEntry]())
	maps.DeleteFunc(fields, func(name string, _ json.RawMessage) bool {
		return slices.Contains(others, name) && !slices.Contains(mine, name)
	})
	own, err := json.Marshal(fields)
	return own, err == nil && len(fields) < before
}

// factsOf are the names of what an entry of type E may hold.
func factsOf[E protocol.Entry]() (names []string) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[E]()) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names = append(names, name)
		}
	}
	return names
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
			v.addFinding(RuleStray, report.VerifyNote{Log: name, Entry: -1, Why: fmt.Sprintf("%s is not an entry of it", rest)})
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
