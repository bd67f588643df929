package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/drover-run/drover/internal/cli/terminal"
)

// A project file is found by where a command is typed, and not by a name that the
// user typed. So two questions are asked of it that no other file is asked:
//
//   - Is it the user's own? It is read if it is a regular file of this user or of
//     root that no other user may write, in a folder of this user or of root that
//     no other user may write. A shared folder with a sticky bit is one that others may
//     write. Any other file is passed over with a note, and the search goes on in the
//     folders above, as if it were not there: a file that a stranger has planted
//     neither decides anything nor stops a command.
//   - Does the user know what it says? One's own file may be a stranger's text: that
//     of a repository that was cloned. Keys that run a program, or that send
//     credentials, code or results elsewhere (needsConfirmation), are not used until
//     the user has confirmed the file, once for each content (confirmations).
//
// git (safe.directory) and direnv ask the same two questions. A confirmed file is
// read, whatever its owner: the confirmation names its content, so that an owner that
// changes the file only loses it.

// ProjectFileName is the name of a project's settings.
const ProjectFileName = "drover.yaml"

// maxSettingsFile is a hundred times more than all keys need.
const maxSettingsFile = 1 << 20

// projectFile is a drover.yaml that was found and may be read.
type projectFile struct {
	path      string
	body      []byte
	confirmed bool
	changed   bool // since it was confirmed: confirmed is false
}

// findProjectFile looks in dir and the folders above it, as git looks for a
// repository, and returns nil if there is none to read. A note tells of each file that
// is passed over, and what to do about it.
func findProjectFile(dir string, known Confirmations) (found *projectFile, notes []string) {
	for {
		path := filepath.Join(dir, ProjectFileName)
		p, why, remedy := openProjectFile(path, known)
		switch {
		case p != nil:
			return p, notes
		case why != "":
			notes = append(notes, fmt.Sprintf("note: %s is not used: %s; %s", path, why, remedy))
		}
		up := filepath.Dir(dir)
		if up == dir {
			return nil, notes
		}
		dir = up
	}
}

// openProjectFile reads path if it may be read; if not, why and remedy say so. All
// are empty if there is no such file.
func openProjectFile(path string, known Confirmations) (p *projectFile, why, remedy string) {
	info, err := os.Lstat(path)
	if err != nil && errors.Is(err, fs.ErrNotExist) || err == nil && info.IsDir() {
		return nil, "", ""
	}
	confirm := "if you know what it says: drover config trust " + terminal.Quoted(path)
	digest := known.confirmedDigest(path)
	switch {
	case err != nil:
		return nil, PlainCause(err), "leave the folder, or have it made readable"
	case info.Mode().Type() == fs.ModeSymlink && digest == "": // what it leads to is not even opened
		return nil, "it is a link", confirm
	}
	body, info, err := ReadSettingsFile(path)
	if err != nil {
		return nil, PlainCause(err), "mend it or remove it"
	}
	p = &projectFile{path: path, body: body, confirmed: digest == digestOf(body), changed: digest != ""}
	if p.confirmed {
		p.changed = false
		return p, "", ""
	}
	if why, remedy = othersWrite(path, "it", info); why == "" {
		folder := filepath.Dir(path)
		if info, err = os.Stat(folder); err != nil {
			return nil, PlainCause(err), confirm
		}
		why, remedy = othersWrite(folder, "the folder "+folder, info)
	}
	if why != "" {
		return nil, why, terminal.OrElse(remedy, confirm)
	}
	return p, "", ""
}

// ReadSettingsFile reads a file of a reasonable size, and nothing that is no file: a
// pipe in its place does not make the command wait.
func ReadSettingsFile(path string) ([]byte, fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, nil, err
	case !info.Mode().IsRegular():
		return nil, nil, errors.New("it is not a regular file")
	}
	body, err := io.ReadAll(io.LimitReader(f, maxSettingsFile+1))
	if err == nil && len(body) > maxSettingsFile {
		err = errors.New("it has more than 1 MiB")
	}
	return body, info, err
}

// othersWrite says whether others than this user and root decide what is in a file or
// folder, which is called name. remedy is "" where its modes are not the trouble.
func othersWrite(path, name string, info fs.FileInfo) (why, remedy string) {
	owner, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !ok:
		return name + " has no owner that can be seen", ""
	case int(owner.Uid) != os.Geteuid() && owner.Uid != 0:
		return fmt.Sprintf("%s belongs to another user (uid %d)", name, owner.Uid), ""
	case info.Mode().Perm()&0o022 == 0:
		return "", ""
	case info.Mode()&fs.ModeSticky != 0 || int(owner.Uid) != os.Geteuid():
		return "other users may write " + name, ""
	}
	return "other users may write " + name, "chmod go-w " + terminal.Quoted(path) + " ends that"
}

// PlainCause is an error of the file system without the path, which is said already.
func PlainCause(err error) string {
	var of *fs.PathError
	if errors.As(err, &of) {
		return of.Err.Error()
	}
	return err.Error()
}

// needsConfirmation says whether a key's value in a project file in folder could run a
// program of another's, or send credentials, code or results to another's place. Names,
// numbers and folders inside the project could not.
func needsConfirmation(folder, key, value string) bool {
	switch key {
	case "python", "store_endpoint", "image_mirror", "image_registry", "agent_profile", "agent_role":
		return true
	case "store", "output":
		return !inFolder(folder, value)
	}
	m := TargetKey.FindStringSubmatch(key)
	return m != nil && (m[2] == "args" || m[2] == "store" && !inFolder(folder, value))
}

// inFolder says whether a path stays in folder, also after the links in it.
func inFolder(folder, path string) bool {
	if strings.Contains(path, ":") { // a URL, or what is taken for one
		return false
	}
	path, err := filepath.Abs(path)
	if err != nil || !below(folder, path) {
		return false
	}
	real, err := filepath.EvalSymlinks(folder)
	if err != nil {
		return false
	}
	for {
		at, err := filepath.EvalSymlinks(path)
		if err == nil {
			return below(real, at)
		}
		if info, lerr := os.Lstat(path); lerr == nil && info.Mode().Type() == fs.ModeSymlink {
			return false // to what is not there yet
		}
		if path == filepath.Dir(path) {
			return false
		}
		path = filepath.Dir(path)
	}
}

// below says whether a clean path is folder or in it.
func below(folder, path string) bool {
	rel, err := filepath.Rel(folder, path)
	return err == nil && filepath.IsLocal(rel)
}
