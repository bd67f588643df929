// Package cloud is what the packages of the vendors below it have in common: amazon and google
// find credentials, keep them fresh, narrow them, and say whether this machine has an account
// at all. A store and a driver of one vendor take their client from the same package, and so
// reach the account as the same identity, in the same region, by the same connections.
//
// It refuses to know what is asked of a service. The tests of amazon and google prove it.
package cloud

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strings"
	"time"
)

// FileEnd returns when the credential in a file ends that was handed over to an agent: both
// vendors' Files say so. ok is false for one that cannot be read or does not end.
func FileEnd(path string) (end time.Time, ok bool) {
	text, err := os.ReadFile(path)
	var f struct{ Until time.Time }
	if err != nil || json.Unmarshal(text, &f) != nil {
		return end, false
	}
	return f.Until, !f.Until.IsZero()
}

// Clock is the time as these packages read it. Every store.Clock is one.
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

// Away is the error of a service that is overloaded or cannot be reached just now: the same
// request may succeed in a moment, and nothing is wrong with the account.
type Away struct {
	Doing string
	Err   error
}

// Error names the request, and says what the network or the service answered.
func (a *Away) Error() string { return a.Doing + ": " + a.Err.Error() }

// Unwrap returns the error of the network or the service.
func (a *Away) Unwrap() error { return a.Err }

const (
	firstStep = 50 * time.Millisecond
	lastStep  = 5 * time.Second
)

// Retry sends a request until its answer is clear, for at most wait, and returns the last
// error. unclear says of an error that the same request may get another answer in a moment.
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
	As      string // the identity that would reach it, for people: "the profile train of ~/.aws"; "": none
	Region  string // Amazon's; "": none is set here
	Project string // Google's; "": none is set here
	Missing string // what is missing, in half a sentence; "": nothing
	Fix     string // what to do about it, in one sentence with something to paste
}

// OK says whether nothing is missing. Only the first request shows whether the service accepts it.
func (c Configured) OK() bool { return c.Missing == "" }

// FirmwareSays reads a value that the maker of this machine has written in its firmware, such
// as sys_vendor. It names the cloud of a virtual machine without a request to a metadata
// server. "": not known.
func FirmwareSays(name string) string {
	text, _ := os.ReadFile("/sys/class/dmi/id/" + name) // "": the machine has no such file
	return strings.TrimSpace(string(text))
}
