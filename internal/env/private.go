package env

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/private"
)

// What is in the cache is run by its user: environments, uv, and answers that name an
// interpreter. A colleague of a shared group, with which a umask of 002 shares each file
// that is made, must not decide what that is. So folders of the cache are 0700, tools
// make files that only their owner may write, and what others could have changed is
// not used.

// privateFolder makes a folder of the cache that this user alone may open. One of this
// user's that is open to others is closed; another user's is left as it is.
func privateFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) == os.Geteuid() && info.Mode().Perm() != 0o700 {
		return os.Chmod(dir, 0o700)
	}
	return nil
}

// sealed says that no other user can have changed path, which is in the cache: it
// belongs to this user, to root, or to the owner of the cache, which the caller trusts by
// naming it, and no other user may write it.
func sealed(cache, path string) bool {
	info, err := os.Lstat(path)
	if err != nil || info.Mode()&os.ModeSymlink == 0 && info.Mode()&0o022 != 0 { // a link has no mode of its own
		return false
	}
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	if uid := int(owner.Uid); uid == os.Geteuid() || uid == 0 {
		return true
	}
	root, err := os.Stat(cache)
	if err != nil {
		return false
	}
	theirs, ok := root.Sys().(*syscall.Stat_t)
	return ok && theirs.Uid == owner.Uid
}

// sealedEnvironment says so of an environment, by the folders from which most is run:
// one that was built with a umask that lets others write shows it there.
func sealedEnvironment(dir string) bool {
	folder := filepath.Dir(dir)
	cache := filepath.Dir(folder)
	paths := []string{folder, dir, filepath.Join(dir, marker), filepath.Join(dir, "bin"), filepath.Join(dir, "bin", "python")}
	libraries, _ := filepath.Glob(filepath.Join(dir, "lib", "python*", "site-packages")) // of a pattern that is right
	for _, library := range libraries {
		paths = append(paths, filepath.Dir(library), library)
	}
	for _, path := range paths {
		if !sealed(cache, path) {
			return false
		}
	}
	return true
}

// setAside moves away what another user has put where something of the cache belongs,
// and what cannot be removed because of that.
func setAside(dir string) error {
	aside, err := os.MkdirTemp(filepath.Dir(dir), ".refused-")
	if err == nil {
		err = os.Rename(dir, filepath.Join(aside, filepath.Base(dir)))
	}
	if err != nil {
		return fault.Wrap(err, fault.Denied, fmt.Sprintf("Remove it: `rm -r %s`.", dir), "replace %s: another user has changed it", dir)
	}
	return nil
}

// ownedAnswer reads what an earlier command has remembered, if no other user can have
// written it.
func ownedAnswer(file string) ([]byte, error) {
	const most = 16 << 20 // bytes; an answer has some thousands
	return private.ReadOwned(filepath.Dir(file), filepath.Base(file), most)
}
