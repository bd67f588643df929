package protocol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Format is the format of all entries and records that this code reads and writes. A reader
// refuses any other: what an older or newer drover meant is not guessed.
const Format = job.Format

// Decode reads a record of this format, and holds it against its bounds: see check.go.
func Decode(b []byte, into any, v *int, key string) error {
	damaged := func(err error) error {
		return fault.Wrap(unreadable{shortened{err}}, fault.Bug, "Keep the store as it is and report this.", "read %s", key)
	}
	if most := maxSize(into); len(b) > most {
		return damaged(fmt.Errorf("it has %d bytes, at most %d", len(b), most))
	}
	if len(b) > fewBytes && Structs(b) > maxStructs {
		return damaged(fmt.Errorf("it holds more than %d records", maxStructs))
	}
	if err := json.Unmarshal(b, into); err != nil {
		return damaged(err)
	}
	if *v != Format {
		hint := "Use the newer drover that wrote it."
		if *v < Format {
			hint = "Use the older drover that wrote it, or another store: --store."
		}
		return fault.Wrap(unreadable{fmt.Errorf("it has format %d, and this drover reads format %d", *v, Format)}, fault.Invalid, hint, "read %s", key)
	}
	if r, ok := into.(checked); ok {
		if err := r.Check(); err != nil {
			return damaged(err)
		}
	}
	return nil
}

func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encoding %T: %v", v, err)) // our own plain structs
	}
	return b
}

// ReadObject reads an object of the ledger's own, and fixed one that is never rewritten: see
// store.Store. What is no object of drover's, or has more than most bytes, is ErrUnreadable;
// many are read at once, so none comes into memory beyond its bound.
func (w World) ReadObject(ctx context.Context, key string, most int) ([]byte, error) {
	b, err := w.Store.GetAtMost(ctx, key, most)
	return b, misread(err)
}

func (w World) ReadWriteOnce(ctx context.Context, key string, age time.Duration, most int) ([]byte, error) {
	b, err := w.Store.Fixed(ctx, key, age, most)
	return b, misread(err)
}

// ReadRecord reads and decodes a write-once record; ok is false when it is absent.
func ReadRecord[T any](ctx context.Context, w World, key string, v func(*T) *int) (rec T, ok bool, err error) {
	b, err := w.ReadWriteOnce(ctx, key, store.Forever, maxSize(&rec))
	if errors.Is(err, store.ErrNotExist) {
		return rec, false, nil
	}
	if err != nil {
		return rec, false, fmt.Errorf("read %s: %w", key, err)
	}
	return rec, true, Decode(b, &rec, v(&rec), key)
}
