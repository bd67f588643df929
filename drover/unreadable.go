package drover

import (
	"errors"
	"fmt"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
)

// Unreadable says which jobs of a list cannot be read, being damaged or of a newer
// drover. It comes beside the list of the others, which is as good as without it.
type Unreadable struct {
	Jobs []error // why, each naming its job
}

func (u *Unreadable) Error() string {
	var why []string
	for _, err := range u.Jobs {
		why = append(why, err.Error())
	}
	if len(why) == 1 {
		return why[0]
	}
	return fmt.Sprintf("read %d jobs: %s", len(why), strings.Join(why, "; "))
}

// Unwrap gives them all.
func (u *Unreadable) Unwrap() []error { return u.Jobs }

// Took takes err in when it is of one job's objects alone.
func (u *Unreadable) Took(err error) bool {
	if some := (*Unreadable)(nil); errors.As(err, &some) {
		u.Jobs = append(u.Jobs, some.Jobs...)
		return true
	}
	if errors.Is(err, protocol.ErrUnreadable) {
		u.Jobs = append(u.Jobs, err)
		return true
	}
	return false
}

// OrNil is u as an error, nil of none.
func (u *Unreadable) OrNil() error {
	if len(u.Jobs) == 0 {
		return nil
	}
	return u
}
