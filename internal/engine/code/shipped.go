package code

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/drover-run/drover/internal/bundle"
	"github.com/drover-run/drover/job/secret"
)

// indexFiles are the files that name package indexes and repositories: their addresses
// are where a password is most often written down. A name that begins with * stands for
// all that end so.
var indexFiles = []string{"*requirements.txt", "*requirements.in", "*constraints.txt", "pip.conf", "pip.ini", "uv.toml", "uv.lock", "Pipfile", "Pipfile.lock",
	"pyproject.toml", "poetry.toml", "poetry.lock", "setup.py", "setup.cfg", "environment.yml", "environment.yaml", ".condarc", ".gitmodules", "Dockerfile"}

// loginFiles hold passwords and nothing else.
var loginFiles = []string{".netrc", "_netrc", ".pypirc", ".git-credentials"}

const (
	maxIndexFiles = 200     // of one folder; far more than any project has
	maxIndexFile  = 4 << 20 // bytes that are read of each; a lock file has under 2 MiB
)

// NotePasswords adds a note to a plan's code for each file that is shipped with a password
// in an address, or that holds logins: the code is stored as it is, and every reader of
// the store can read it. It is a note and no refusal, because the password stands in the
// user's own files before drover sees it. A file that cannot be read here is refused
// where the code is packed.
func NotePasswords(code *bundle.List) {
	var notes []string
	read := 0
	for _, e := range code.Entries {
		base := path.Base(e.Name)
		switch {
		case isNamed(base, loginFiles):
			notes = append(notes, e.Name+" holds logins and is stored with the code, for every reader of the store: name it in .droverignore")
		case isNamed(base, indexFiles) || strings.HasPrefix(base, "requirements") && strings.HasSuffix(base, ".txt"):
			if read++; read > maxIndexFiles {
				continue
			}
			if line := passwordLine(e.Path()); line > 0 {
				notes = append(notes, fmt.Sprintf("%s line %d has a password in an address and is stored with the code, for every reader of the store: "+
					"take it out and set PIP_INDEX_URL, or use ~/.netrc or --secret NAME", e.Name, line))
			}
		}
	}
	code.Notes = append(notes, code.Notes...) // first: only the first notes are shown
}

func isNamed(base string, names []string) bool {
	for _, name := range names {
		if end, ok := strings.CutPrefix(name, "*"); ok && strings.HasSuffix(base, end) || base == name {
			return true
		}
	}
	return false
}

// passwordLine returns the number of the first line with a password in an address; 0: none.
func passwordLine(file string) int {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() { // a FIFO would block
		return 0
	}
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	in := bufio.NewReader(io.LimitReader(f, maxIndexFile))
	for n := 1; ; n++ {
		line, err := in.ReadString('\n')
		if secret.PasswordInAddress(line) {
			return n
		}
		if err != nil {
			return 0
		}
	}
}
