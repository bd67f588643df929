package written_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"

	"github.com/drover-run/drover/internal/proc/written"
)

// When asked to, this program prints what it finds behind its stdout to stderr, once
// its stdin ends.
func TestMain(m *testing.M) {
	if os.Getenv("WRITTEN_TEST") == "" {
		os.Exit(m.Run())
	}
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	s := written.Outputs(os.Stdout)
	for _, f := range s.Direct {
		fmt.Fprintln(os.Stderr, "direct", filepath.Base(f.Path))
	}
	for _, f := range s.Piped {
		fmt.Fprintln(os.Stderr, "piped", filepath.Base(f.Path))
	}
}

func TestAProgramFindsTheFilesThatItPrintsInto(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files are seen in /proc")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// The program looks when its input ends, and that ends when the other end of the
	// pipe has its file open: the FIFO's reader opens it only then.
	for line, want := range map[string]string{
		`exec "$SELF" > a.log < /dev/null`:                                                         "direct a.log\n",
		`echo >> b.log; "$SELF" < go | { exec 3>> b.log; : > go; cat > /dev/null; }`:               "piped b.log\n",
		`"$SELF" < go | cat | { exec 3>> c.log; : > go; cat > /dev/null; }`:                        "piped c.log\n",
		`exec "$SELF" < /dev/null > /dev/null`:                                                     "",
		`rm -f d.log; exec 4> d.log; rm d.log; exec "$SELF" < /dev/null >&4 4>&-`:                  "direct .\n",
		`exec 3>> e.log; { "$SELF" < /dev/null 3>&-; } 2>&1 >/dev/null | { exec 3>&-; cat; } 1>&2`: "",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("sh", "-c", "mkfifo go; "+line)
			cmd.Dir, cmd.Env = t.TempDir(), append(os.Environ(), "WRITTEN_TEST=1", "SELF="+self)
			read, write, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer read.Close()
			cmd.Stderr = write
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			write.Close()
			said := make([]byte, 0, 100)
			for b := bufio.NewReader(read); ; {
				c, err := b.ReadByte()
				if err != nil {
					break
				}
				said = append(said, c)
			}
			if err := cmd.Wait(); err != nil || string(said) != want {
				t.Errorf("it found %q (%v), want %q", said, err, want)
			}
		})
	}
}

func TestAFileThatAnotherProcessWritesIsFound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("open files are seen in /proc")
	}
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c", "exec 3> busy 4< still; echo; read line")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "still"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it has them open
		t.Fatal(err)
	}
	all := written.Writers()
	for name, want := range map[string]bool{"busy": true, "still": false} {
		f, ok := written.FileAt(filepath.Join(dir, name))
		if !ok {
			t.Fatalf("there is no %s", name)
		}
		p, found := all[f.ID()]
		if found != want || found && (p.PID != cmd.Process.Pid || p.Name != "sh") {
			t.Errorf("%s: %v, %+v", name, found, p)
		}
		if want && written.Unwritten(f.Path) {
			t.Errorf("%s is said not to be written", name)
		}
	}
	in.Close()
	_ = cmd.Wait() // read has failed
}

func TestWhatCommandsPrintedIntoIsRememberedUntilItIsAnotherFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := written.Memory{Path: filepath.Join(t.TempDir(), "state", written.MemoryName)}
	make := func(name string) written.File {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		f, _ := written.FileAt(path)
		return f
	}
	known := func(name string) bool {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		_, found := m.Known().Find(filepath.Join(dir, name), info)
		return found
	}
	log := make("map.log")
	make("code.txt")
	var all sync.WaitGroup
	for i := range 8 { // many commands at once
		f := make(fmt.Sprint("log", i))
		all.Go(func() {
			if err := m.Add(log, f); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, name := range []string{"map.log", "log0", "log7"} {
		if !known(name) {
			t.Errorf("%s is forgotten", name)
		}
	}
	if known("code.txt") {
		t.Error("what no command printed into is known")
	}
	if err := os.Rename(filepath.Join(dir, "map.log"), filepath.Join(dir, "map.log.1")); err != nil {
		t.Fatal(err)
	}
	if log.Born != 0 && !known("map.log.1") {
		t.Error("a renamed log is forgotten")
	}
	// Another file of that name, which has another inode while the old one is there.
	if make("map.log"); known("map.log") {
		t.Error("another program's file is taken for ours")
	}
	// One that is gone is dropped from the list with the next one that comes.
	if err := os.Remove(filepath.Join(dir, "log0")); err != nil {
		t.Fatal(err)
	}
	if err := m.Add(make("new")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	if slices.Contains(splitNames(string(text)), "log0") {
		t.Errorf("it still holds log0: %s", text)
	}
}

func splitNames(text string) (names []string) {
	var word []rune
	for _, r := range text + "/" {
		if r == '/' || r == '"' {
			names, word = append(names, string(word)), nil
			continue
		}
		word = append(word, r)
	}
	return names
}
