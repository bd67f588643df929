package remote

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/store"
)

// FetchScript is a script for sh that makes path the program p: with the first of p.Downloads that
// works, and only after its digest was checked. It needs nothing but a tool for digests (sha256sum,
// shasum, openssl or python3) and what one of the downloads needs. It ends with a status other
// than 0, and one line for each download that failed, if there is no program then. Where path is
// the program already, it does nothing.
func FetchScript(p driver.Program, path string) string {
	var s strings.Builder
	s.WriteString(`# Fetches drover's program, and checks its digest.
set -u
path=` + store.Quote(path) + `
want=` + store.Quote(p.SHA256) + `
part="$path.part.$$" # others may fetch it at the same time
digest() {
	if command -v sha256sum >/dev/null 2>&1; then sha256sum <"$1"
	elif command -v shasum >/dev/null 2>&1; then shasum -a 256 <"$1"
	elif command -v openssl >/dev/null 2>&1; then openssl dgst -sha256 -r <"$1"
	elif command -v python3 >/dev/null 2>&1; then python3 -c 'import hashlib,sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())' <"$1"
	else echo "drover: this image has no sha256sum, shasum, openssl or python3, and a program is not run unchecked" >&2
	fi
}
is_it() { [ -f "$1" ] && case $(digest "$1") in "$want"*) true ;; *) false ;; esac; }
try() {
	if sh -c "$2" >"$part" 2>"$part.err" </dev/null && is_it "$part" && chmod 755 "$part" && mv -f "$part" "$path"; then
		rm -f "$part.err"
		return 0
	fi
	echo "drover: program not fetched with $1: $(tail -n 1 "$part.err" | cut -c 1-200)" >&2
	rm -f "$part" "$part.err"
	return 1
}
mkdir -p "$(dirname "$path")"
is_it "$path"`)
	for _, d := range p.Downloads {
		s.WriteString(" ||\n\ttry " + store.Quote(d.Tool) + " " + store.Quote(d.Command))
	}
	s.WriteString(` ||
	{ echo "drover: the program could not be fetched: the machine needs one of curl, wget, python3 or its cloud's own tool, and a way to the store" >&2; exit 1; }
`)
	return s.String()
}

// FetchScript stores the program for the system of the machines, "": linux/amd64, and gives
// the script that fetches it to path there (FetchScript) with what the machines themselves have: it
// holds no secret.
func (s Submission) FetchScript(ctx context.Context, system, path string) (string, error) {
	if s.Request.Run.Programs == nil {
		return "", fault.New(fault.Bug, "", "fetch program: the request says of none")
	}
	p, err := s.Request.Run.Programs(ctx, cmp.Or(system, "linux/amd64"))
	if err != nil {
		return "", err
	}
	p.Downloads = slices.DeleteFunc(slices.Clone(p.Downloads), func(d store.Download) bool { return d.Secret || d.Of == store.OfMachine })
	return FetchScript(p, path), nil
}

// StartScript is FetchScript, after which the machine's process becomes the first agent of the submission. before is what it does between the
// two, in lines of its own; "": nothing.
func (s Submission) StartScript(ctx context.Context, system, path, before string) (string, error) {
	script, err := s.FetchScript(ctx, system, path)
	if err != nil {
		return "", err
	}
	boot := s.Request.Run
	boot.Binary = path
	var words []string
	for _, w := range boot.Argv(s.Handle.Placement, 0) {
		words = append(words, store.Quote(w))
	}
	return script + before + "exec " + strings.Join(words, " "), nil
}
