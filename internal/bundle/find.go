package bundle

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/internal/bundle/tree"
)

// listed is a file, or a link, that find has listed.
type listed struct {
	name            string // slash-separated, below the folder
	tracked, chosen bool   // as in Found
}

// lister lists what is below a folder, but for folders. What drover leaves out by itself
// counts neither for the folder at, relative to root, nor for those around it: the user
// stands there.
type lister func(ctx context.Context, root, at string, notes tree.Notes) (names []listed, how string, err error)

// findNamed lists all that is below a folder that a person has named, whatever git
// ignores; only what drover leaves out by itself and .droverignore counts.
func findNamed(ctx context.Context, root, at string, notes tree.Notes) ([]listed, string, error) {
	names, err := walkBy(ctx, root, at, newIgnorer(root, nil), ".", notes)
	return names, "walk", err
}

// find lists what is below root and not ignored: everything but folders. how is
// "git" or "walk".
func find(ctx context.Context, root, at string, notes tree.Notes) (names []listed, how string, err error) {
	top := ""
	if repository(root) != "" {
		names, err = gitFiles(ctx, root, "", at)
		switch {
		case ctx.Err() != nil:
			return nil, "", context.Cause(ctx)
		case err == nil && len(names) > 0:
			return names, "git", nil
		case err == nil:
			// Everything here is ignored, and yet it was named: so it is
			// wanted, and the rules of the folders above do not count.
			top = root
		case !errors.Is(err, exec.ErrNotFound):
			notes.AddNote("git refuses this repository, so .gitignore files alone decide what is shipped ("+err.Error()+")"+mayBeOwned(err), root)
		}
	}
	if top == "" {
		top = ownRepository(root, notes)
	}
	names, err = walk(ctx, root, at, top, notes)
	return names, "walk", err
}

// mayBeOwned is the way out where git refuses another user's repository.
func mayBeOwned(err error) string {
	if strings.Contains(err.Error(), "dubious ownership") {
		return "; git config --global --add safe.directory FOLDER has it trust"
	}
	return ""
}

// repository is the folder at or above dir that holds .git, or "".
func repository(dir string) string {
	for {
		if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
		dir = filepath.Dir(dir)
	}
}

// gitFiles asks git. Submodules and repositories inside are listed too, as
// plain files under prefix.
func gitFiles(ctx context.Context, dir, prefix, at string) ([]listed, error) {
	// -t tells tracked from not. A repository's own settings can name programs
	// to run; the one that a listing would start is turned off.
	cmd := exec.CommandContext(ctx, "git", "-c", "core.fsmonitor=false", "ls-files", "-z", "-t", "-c", "-o", "--exclude-standard")
	cmd.Dir, cmd.Env = dir, gitEnv(os.Environ())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if line, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n"); line != "" {
			return nil, fmt.Errorf("%q", line)
		}
		return nil, err
	}
	ours := newIgnorer(dir, parseIgnore([]byte(builtin)), ".droverignore")
	ours.marks = marks
	ours.keepFolder(at)
	chosen := newIgnorer(dir, nil, ".droverignore")
	var names []listed
	seen := map[string]bool{}
	for line := range strings.SplitSeq(out.String(), "\x00") {
		tag, name, ok := strings.Cut(line, " ")
		name = strings.TrimSuffix(name, "/")
		if !ok || name == "" || name == "." || seen[name] {
			continue
		}
		seen[name] = true
		sieve := chosen
		if tag == "?" {
			sieve = ours
		}
		fi, err := os.Lstat(filepath.Join(dir, name))
		folder := err == nil && fi.IsDir()
		switch {
		case err != nil || sieve.leavesOut(name, folder):
		case folder:
			inner, err := nested(ctx, filepath.Join(dir, name), path.Join(prefix, name))
			if err != nil {
				return nil, err
			}
			for _, n := range inner {
				if n.name = path.Join(name, n.name); !chosen.leavesOut(n.name, false) {
					n.chosen = n.chosen || chosen.bringsBack(n.name)
					names = append(names, n)
				}
			}
		default:
			names = append(names, listed{name, tag != "?", chosen.bringsBack(name)})
		}
	}
	return names, nil
}

// nested lists a submodule or a repository inside another. In a submodule's
// folder that is no repository git would answer for the outer one, which does
// not look in there; files may lie there all the same.
func nested(ctx context.Context, dir, prefix string) ([]listed, error) {
	if _, err := os.Lstat(filepath.Join(dir, ".git")); err != nil {
		return walk(ctx, dir, ".", dir, tree.Notes{})
	}
	names, err := gitFiles(ctx, dir, prefix, ".")
	if err != nil {
		return nil, fmt.Errorf("%q: %w", prefix, err)
	}
	return names, nil
}

// gitEnv drops what a surrounding git (a hook, an alias) says about its own
// repository, which need not be this one.
func gitEnv(env []string) []string {
	env = slices.DeleteFunc(slices.Clone(env), func(kv string) bool {
		name, _, _ := strings.Cut(kv, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_OBJECT_DIRECTORY":
			return true
		}
		return false
	})
	return append(env, "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C")
}

// walk lists the files below root by the rules of the .gitignore files from
// top, the repository's folder, downwards ("" or root: from root), and our own.
func walk(ctx context.Context, root, at, top string, notes tree.Notes) ([]listed, error) {
	if top == "" {
		top = root
	}
	gits := newIgnorer(top, nil, ".gitignore")
	above, err := filepath.Rel(top, root)
	if err != nil {
		return nil, err
	}
	above = filepath.ToSlash(above)
	gits.code, gits.notes = above, notes
	gits.base = parseIgnore(gits.readIgnoreFile(".", ".git/info/exclude"))
	// The folder itself was named, so no rule leaves it out, nor one above it.
	gits.keepFolder(above)
	return walkBy(ctx, root, at, gits, above, notes)
}

// walkBy lists the files below root that neither gits nor our own rules leave out. above
// is where root lies below the folder of gits.
func walkBy(ctx context.Context, root, at string, gits *ignorer, above string, notes tree.Notes) ([]listed, error) {
	ours := newIgnorer(root, parseIgnore([]byte(builtin)), ".droverignore")
	ours.marks = marks
	ours.keepFolder(at)

	var names []listed
	var into func(dir string) error
	into = func(dir string) error {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		entries, err := os.ReadDir(filepath.Join(root, dir))
		if err != nil {
			if dir == "." {
				return err
			}
			notes.Add("unreadable", dir)
		}
		for _, e := range entries {
			name := path.Join(dir, e.Name())
			switch {
			case len(names) >= hardStop:
				return nil
			case e.Name() == ".git" || gits.leavesOut(path.Join(above, name), e.IsDir()) || ours.leavesOut(name, e.IsDir()):
			case !e.IsDir():
				names = append(names, listed{name: name, chosen: ours.bringsBack(name)})
			default:
				if err := into(name); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return names, into(".")
}
