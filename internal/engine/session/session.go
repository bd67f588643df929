// Package session holds what all parts of an engine work with: the store, the targets and their
// names, and the caller of a command. It decides nothing. Proved by the tests of package engine.
package session

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/engine/programs"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/stdin"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// Session is what one command line or one program works with. Its methods may be called from many goroutines.
type Session struct {
	World   protocol.World
	Drivers map[string]driver.Opened // by target, as in --on
	Targets map[string]job.Target    // places that the user has named, by their names
	Boot    driver.Boot              // Binary and Store; Job is filled in
	// Programs finds this program for machines of other systems.
	Programs *programs.Finder
	Caller   Caller
	Images   Images
	// Near says that the store answers in microseconds: it is then asked more often.
	Near bool
	// OpenPlace opens any bucket by its URL, for inputs that are read where
	// they are. Nil: such are refused.
	OpenPlace func(ctx context.Context, url string) (store.Bucket, error)
}

// Caller is the user of a command, and where it is typed.
type Caller struct {
	User    string
	Host    string
	Folder  string // absolute
	Home    string // absolute, "" when there is none
	Environ []string
	Cache   string // root of drover's cache
	Version string
	By      string // this process's name in logs; never used twice
	// Stdin is what a map's items may come from.
	Stdin io.Reader
	// Input is what the program of a run reads as its standard input, where its agents live
	// beside the command line. Nil: nothing.
	Input *stdin.Input
	// Terminal opens what such a program reads in the place of a terminal that Input is,
	// once its agent is asked for; nil: nothing.
	Terminal func() *os.File
	// Streams are what the command prints into, such as os.Stdout: a file that one of
	// them leads to is no code.
	Streams []*os.File
	// State is drover's state folder, where it remembers what commands have printed
	// into; "": it does not.
	State string
	// Again is the command as it was typed, with one flag more, to be pasted. Nil: there
	// is no such line.
	Again func(flag string) string
}

// PollInterval is how often a live job is read.
func (s *Session) PollInterval() time.Duration {
	if s.Near {
		return 50 * time.Millisecond
	}
	return 2 * time.Second
}

// Driver finds the driver for a target such as "local" or "slurm/gpu".
func (s *Session) Driver(target string) (driver.Opened, error) {
	name, detail := job.SplitTarget(target)
	if d, ok := s.Drivers[name]; ok {
		d.Properties = d.Properties.At(detail)
		return d, nil
	}
	var known []string
	for n := range s.Drivers {
		known = append(known, n)
	}
	for n := range s.Targets {
		known = append(known, n)
	}
	slices.Sort(known)
	return driver.Opened{}, fault.New(fault.Invalid, "Use `--on "+strings.Join(known, "`, `--on ")+"`.", "choose target: %q is unknown", target)
}

// ApplyTargetName puts what a user's own name for a target means in its place. From then on
// that name is not known: a job runs where it was placed, whatever the config says later.
func (s *Session) ApplyTargetName(spec job.Spec) (job.Spec, error) {
	t, ok := s.Targets[spec.On]
	if !ok {
		return spec, nil
	}
	if _, err := s.Driver(t.On); err != nil {
		return spec, fmt.Errorf("place job on %s: %w", spec.On, err)
	}
	return t.Apply(spec.On, spec)
}

// PlacementHandle names a placement of a job to the driver of its target.
func (s *Session) PlacementHandle(j job.Job, placement int) driver.Handle {
	name, _ := job.SplitTarget(j.Spec.On)
	return driver.Handle{Target: name, Detail: j.Detail, Job: j.ID, Placement: placement}
}

// OpenBucketURL opens any bucket, for inputs that are read where they are. full is the URL that opens it elsewhere too.
func (s *Session) OpenBucketURL(ctx context.Context, url string) (there *store.Store, full string, err error) {
	if s.OpenPlace == nil {
		return nil, "", fault.New(fault.Invalid, "Give drover.Options an OpenPlace.", "open %s: this program opens no buckets", url)
	}
	b, err := s.OpenPlace(ctx, url)
	if err != nil {
		return nil, "", err
	}
	if full = b.String(); !strings.Contains(full, "?") { // with the server, which an agent may not know
		full = url
	}
	return store.New(b, store.Options{}), full, nil
}
