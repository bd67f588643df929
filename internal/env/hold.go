package env

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/tools"
)

// useEnd names the file that all hold, together, processes that use an environment; one that
// removes one must hold it alone. It stays when the environment goes, as the
// builder's lock does and for the same reason.
const useEnd = ".use"

// Hold keeps the plan's environment from being removed until release is called
// or this process ends, however it ends. Many may hold one at a time. Called
// before Build there is no moment at which what Build found can go; it may wait
// then for a removal that has begun. Of a plan without an environment of
// drover's own it does nothing. Release may be called more than once.
func (p Plan) Hold(ctx context.Context) (release func(), err error) {
	dir := p.usedEnvironment()
	if dir == "" {
		return func() {}, nil
	}
	if err := privateFolder(envs(p.caller.Cache)); err != nil {
		return nil, onDisk(err, "use environment")
	}
	path := dir + useEnd
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS) {
		// Another user's cache: a lock needs no right to write. Where there
		// is no file, a user that may make one has not made room here yet.
		if f, err = os.Open(path); errors.Is(err, fs.ErrNotExist) {
			return func() {}, nil
		}
	}
	if err != nil {
		return nil, onDisk(err, "use environment")
	}
	if err := tools.Lock(ctx, f, unix.LOCK_SH, func() bool { return true }); err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil // a second Close gives an answer that is not needed
}

// usedEnvironment is the environment of the cache that the script will run in: the
// plan's own, or the one that the caller is in already; "" for none.
func (p *Plan) usedEnvironment() string {
	switch {
	case p.asked != nil:
		return p.environFolder()
	case p.self.Prefix != "" && filepath.Dir(p.self.Prefix) == envs(p.caller.Cache):
		return p.self.Prefix
	}
	return ""
}

// looks is how often Remove tries: a List in between holds the file for a moment.
const looks = 4

// unused takes the file that users hold, alone.
func unused(ctx context.Context, dir string) (*os.File, error) {
	f, err := os.OpenFile(dir+useEnd, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, onDisk(err, "remove environment")
	}
	left := looks
	err = tools.Lock(ctx, f, unix.LOCK_EX, func() bool { left--; return left > 0 })
	if err == nil {
		return f, nil
	}
	f.Close()
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil, fault.New(fault.Full, "Wait until the jobs that run in it have ended, or cancel them.",
			"remove environment: %s: a process uses it", filepath.Base(dir))
	}
	return nil, fmt.Errorf("remove environment: %w", err)
}
