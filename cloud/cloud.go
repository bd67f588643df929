// Package cloud is what the rooms of the vendors below it have in common: amazon and google
// find credentials, keep them fresh, narrow them, and say whether this machine has an account
// at all. A store and a driver of one vendor take their client from the same room, and so
// reach the account as the same identity, in the same region, by the same connections.
//
// It refuses to know what is asked of a service. The tests of the two rooms prove it.
package cloud

import (
	"context"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// Clock is the time as these rooms read it. Every store.Clock is one.
type Clock interface {
	Now() time.Time
	Boot() time.Duration // since some fixed point
	Sleep(ctx context.Context, d time.Duration) error
}

// System is the machine's own clock.
var System Clock = systemClock{}

type systemClock struct{}

var begun = time.Now()

func (systemClock) Now() time.Time      { return time.Now() }
func (systemClock) Boot() time.Duration { return time.Since(begun) }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Away is the error of a service that is overloaded, or to which there is no way just now: the
// same request may succeed in a moment, and an account has nothing to mend.
type Away struct {
	Doing string
	Err   error
}

// Error says what was being done, and what the network or the service said.
func (a *Away) Error() string { return a.Doing + ": " + a.Err.Error() }

// Unwrap returns the reason.
func (a *Away) Unwrap() error { return a.Err }

const (
	firstStep = 50 * time.Millisecond
	lastStep  = 5 * time.Second
)

// Retry sends a request until its answer is clear, for as long as wait, and returns the last
// error. unclear says of an error that another answer may come in a moment.
func Retry(ctx context.Context, clock Clock, wait time.Duration, unclear func(error) bool, send func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for since, try := clock.Boot(), 0; ; try++ {
		err := send(limited)
		if err == nil || !unclear(err) || clock.Boot()-since > wait {
			return err
		}
		if clock.Sleep(limited, rand.N(min(firstStep<<min(try, 7), lastStep))) != nil {
			return err
		}
	}
}

// Configured is what this machine's files and environment say of an account.
type Configured struct {
	As      string // what it would be reached as, for people: "the profile train of ~/.aws"; "": nothing
	Region  string // Amazon's, "": none is set here
	Project string // Google's, "": none is set here
	Missing string // what there is none of, in half a sentence; "": everything is there
	Fix     string // what to do about it, in one sentence with something to paste
}

// OK says whether nothing is missing. Whether the service accepts it, the first request says.
func (c Configured) OK() bool { return c.Missing == "" }

// FirmwareSays reads what this machine's maker has written in its firmware, such as
// sys_vendor: a virtual machine's cloud, without a question to its metadata server. "": not
// known.
func FirmwareSays(name string) string {
	text, _ := os.ReadFile("/sys/class/dmi/id/" + name) // "": it is no such machine
	return strings.TrimSpace(string(text))
}
