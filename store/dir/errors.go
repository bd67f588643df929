package dir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

var (
	// errVanished: the folder, or the temporary file, was gone when it was needed.
	errVanished  = errors.New("folder vanished")
	errNotFolder = errors.New("not a folder")
	errNotFile   = errors.New("neither a file nor a folder")
	errIsFolder  = errors.New("a folder of other objects has this name")
)

// wrapFileError says in one line why the file system would not, and what to do next.
// An absent file is store.ErrNotExist.
func (b *Bucket) wrapFileError(doing string, err error) error {
	err = bare(err)
	is := func(errnos ...syscall.Errno) bool {
		for _, e := range errnos {
			if errors.Is(err, e) {
				return true
			}
		}
		return false
	}
	var known *fault.Fault
	switch {
	case errors.Is(err, errNotFile), is(syscall.ELOOP, syscall.ENXIO): // ENXIO: a socket, or a device that is not there
		return fault.Wrap(store.ErrMalformed, fault.Bug, "Find out how it came there, and remove it: `ls -l "+b.root+"`", "%s: a link, pipe, socket or device", doing)
	case errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case absent(err):
		return fmt.Errorf("%s: %w", doing, store.ErrNotExist)
	case is(syscall.ENOSPC, syscall.EDQUOT):
		return fault.Wrap(err, fault.Full,
			"Free space under "+b.root+", or name a folder on another disk with `--store`.", "%s", doing)
	case is(syscall.EROFS, syscall.EACCES, syscall.EPERM):
		return fault.Wrap(err, fault.Denied,
			"Run `ls -ld "+b.root+"` and get write permission, or name another folder with `--store`.", "%s", doing)
	case errors.Is(err, errNotFolder):
		return fault.Wrap(err, fault.Invalid, "Name a folder, or a new path, with `--store`.", "%s", doing)
	case errors.Is(err, errIsFolder), is(syscall.ENAMETOOLONG):
		return fault.Wrap(err, fault.Invalid, "", "%s", doing)
	case is(syscall.ESTALE, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EAGAIN, syscall.EINTR, syscall.ETIMEDOUT):
		return fmt.Errorf("%s: %w: %w", doing, err, store.ErrBusy)
	}
	return fault.Wrap(err, fault.Lost,
		"Look at the disk under "+b.root+" with dmesg, or name a folder on another one with `--store`.", "%s", doing)
}

// notWritten is refused for a writer: what is absent then is a folder that was
// there a moment ago.
func (b *Bucket) notWritten(doing string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return errVanished
	case errors.Is(err, syscall.ENOTDIR):
		return fault.New(fault.Invalid, "", "%s: another object has the name of its folder", doing)
	}
	return b.wrapFileError(doing, err)
}

// wrapNameError is notWritten for link and rename. Only the errors with which a kernel
// or an NFS server refuses to begin are certain; any other may come after the
// work was done.
func (b *Bucket) wrapNameError(doing string, err error) error {
	for _, e := range []syscall.Errno{syscall.EPERM, syscall.EOPNOTSUPP, syscall.ENOSYS, syscall.EMLINK, syscall.EXDEV} {
		if errors.Is(err, e) {
			// The temporary file could be made, so it is not permission that lacks.
			return fault.Wrap(bare(err), fault.Invalid,
				"Name a folder on a file system with hard links with `--store`.", "%s: its file system cannot link files", doing)
		}
	}
	for _, e := range []error{fs.ErrNotExist, errIsFolder, errNotFile, syscall.ENXIO, syscall.ENOTDIR, syscall.ENOSPC, syscall.EDQUOT,
		syscall.EROFS, syscall.EACCES, syscall.ENAMETOOLONG, syscall.ELOOP, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM} {
		if errors.Is(err, e) {
			return b.notWritten(doing, err)
		}
	}
	return fmt.Errorf("%s: %w: %w", doing, bare(err), store.ErrUnclear)
}

// absent also covers a key below an object: no such key can be there.
func absent(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)
}

// bare is the errno alone: the text names the store and the key already, and
// the path of a temporary file is of no use to the user.
func bare(err error) error {
	var p *os.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Err
	case errors.As(err, &l):
		return l.Err
	}
	return err
}
