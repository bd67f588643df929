package protocol

import (
	"errors"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// ErrUnreadable says that an object is there and was read, and that what it holds is
// damaged, or of a newer drover. Another job's objects may be as good as ever.
var ErrUnreadable = errors.New("it cannot be read")

// unreadable is why, in its own words.
type unreadable struct{ error }

func (u unreadable) Is(target error) bool { return target == ErrUnreadable }

func (u unreadable) Unwrap() error { return u.error }

// MarkUnreadable makes err one that is ErrUnreadable.
func MarkUnreadable(err error) error { return unreadable{err} }

// shortened is an error with a text that quotes no more of a record than a line has room for.
type shortened struct{ error }

// misread says of what the store calls no object of drover's that it cannot be read.
func misread(err error) error {
	if errors.Is(err, store.ErrMalformed) {
		return fault.Wrap(unreadable{err}, fault.Bug, fault.MarkedHint(err), "")
	}
	return err
}

func (s shortened) Error() string {
	text := s.error.Error()
	if len(text) > maxWhy {
		return text[:maxWhy] + "..."
	}
	return text
}

func (s shortened) Unwrap() error { return s.error }
