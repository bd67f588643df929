package folder

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/secret"
)

// The errors of a file system, by what a user can do about them.
var (
	readOnly  = []syscall.Errno{unix.EROFS}
	exhausted = []syscall.Errno{unix.ENOSPC, unix.EDQUOT, unix.EMFILE, unix.ENFILE, unix.ENOMEM}
	noLocks   = []syscall.Errno{unix.ENOLCK, unix.EOPNOTSUPP, unix.ENOSYS, unix.EINVAL}
)

func isAny(err error, errnos []syscall.Errno) bool {
	for _, e := range errnos {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// Refused says what the file system of a driver's folder refused, and where else the folder may
// lie. It leaves nil, faults, and the error of a context as they are.
func Refused(dir, doing string, err error) error {
	var known *fault.Fault
	hint := "Free space there, or name a folder on a local disk with XDG_STATE_HOME."
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case errors.Is(err, fs.ErrPermission), isAny(err, readOnly):
		return fault.Wrap(err, fault.Denied, "Get write permission there, or name another folder with XDG_STATE_HOME.", "%s", doing)
	case isAny(err, exhausted):
		return fault.Wrap(err, fault.Full, hint, "%s", doing)
	case errors.Is(err, ErrNoLocks):
		return fault.Wrap(err, fault.Invalid, hint, "%s: %s", doing, dir)
	}
	return fault.Wrap(err, fault.Lost, hint, "%s", doing)
}

// Begin is the first step of every Start: it gives the handle and the folder that a request
// means, or says why there can be none.
func Begin(ctx context.Context, dir, target string, r driver.Request) (h driver.Handle, base string, err error) {
	h = driver.Handle{Target: target, Job: r.Job, Placement: r.Placement}
	base, ok := Folder(dir, target, h)
	switch {
	case ctx.Err() != nil:
		return h, "", context.Cause(ctx)
	case !ok:
		return h, "", fault.New(fault.Invalid, "", "start agents: job %q, placement %d is not a valid name for them", r.Job, r.Placement)
	case r.Agents < 1:
		return h, "", fault.New(fault.Invalid, "", "start agents: %s: %d is not a number of agents", h, r.Agents)
	case !filepath.IsAbs(dir):
		return h, "", fault.New(fault.Bug, "", "start agents: folder %q is not absolute", dir)
	}
	return h, base, nil
}

// Sealed are the secrets for agents, which no other user may read: the values of the job's
// secrets by variable, as JSON, and the credential for the store. nil: there is none.
func Sealed(ctx context.Context, b driver.Boot) (secrets, pass []byte, err error) {
	if len(b.Secrets) > 0 {
		values, err := secret.Resolve(b.Secrets, os.Environ(), os.ReadFile)
		if err != nil {
			return nil, nil, err
		}
		if secrets, err = json.Marshal(values); err != nil {
			return nil, nil, err
		}
	}
	if b.Pass != nil {
		pass, err = b.Pass(ctx)
	}
	return secrets, pass, err
}
