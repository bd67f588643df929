package remote

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/store"
)

// fetch runs the script for a program with these downloads, with the tools of path alone.
func fetch(t *testing.T, path string, downloads ...string) (out string, err error) {
	t.Helper()
	sum := sha256.Sum256([]byte(program))
	p := driver.Program{System: "linux/amd64", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(program))}
	for _, d := range downloads {
		tool, _, _ := strings.Cut(d, " ")
		p.Downloads = append(p.Downloads, store.Download{Tool: tool, Command: d})
	}
	script := FetchScript(p, path)
	if !strings.HasPrefix(script, "# Fetches drover's program, and checks its digest.\n") {
		t.Errorf("the script begins %.80q", script)
	}
	text, err := exec.Command("/bin/sh", "-c", script).CombinedOutput()
	return string(text), err
}

const program = "#!/bin/sh\necho it runs\n"

func TestAProgramIsFetchedByTheFirstWayThatWorks(t *testing.T) {
	source := filepath.Join(t.TempDir(), "it's here")
	if err := os.WriteFile(source, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "not there yet", "a drover")
	out, err := fetch(t, path, "no-such-tool x", "echo '#!/bin/sh'", "cat "+store.Quote(source), "touch /never")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if got, err := exec.Command(path).Output(); err != nil || string(got) != "it runs\n" {
		t.Errorf("it prints %q, %v", got, err)
	}
	if n := strings.Count(out, "drover: program not fetched with "); n != 2 || !strings.Contains(out, "fetched with no-such-tool: ") {
		t.Errorf("it says\n%s", out)
	}
	if all, err := os.ReadDir(filepath.Dir(path)); err != nil || len(all) != 1 {
		t.Errorf("%v is left, %v", all, err)
	}
	if out, err := fetch(t, path); err != nil || out != "" { // it is there
		t.Errorf("the second time it says %q, %v", out, err)
	}
}

// A program with another content never gets its name, whatever has sent it.
func TestAnotherProgramIsNotRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "drover")
	out, err := fetch(t, path, "echo another", "false")
	if err == nil || !strings.HasSuffix(out, "drover: the program could not be fetched: the machine needs one of curl, wget, python3 or its cloud's own tool, and a way to the store\n") {
		t.Errorf("%v: it says\n%s", err, out)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the program is there")
	}
}
