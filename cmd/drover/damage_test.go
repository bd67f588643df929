package main_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/ledger/commitseed"
)

// mostMemory bounds the memory of a command that only shows what a small store holds, in
// bytes. A healthy one needs some 50 MB; what is planted is at least 400 MB.
const mostMemory = 300 << 20

// unprintable is what reaches no terminal and no file of a caller: control characters but
// line feeds and tabs, and the characters that change the direction of text.
var unprintable = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{200e}\x{200f}\x{202a}-\x{202e}\x{2066}-\x{2069}\x{feff}]`)

var (
	crash     = regexp.MustCompile(`(?m)^(panic: |fatal error: |goroutine \d+|runtime: |unexpected fault)`)
	complaint = regexp.MustCompile(`(?m)^drover: `)
)

// viewers are the commands that read a store and start nothing, by the name that a case
// lists them under. OUT is a folder for what is brought home.
var viewers = map[string]string{
	"status": "status", "status fails": "status fails", "status json": "status --json", "status mm": "status mm",
	"logs": "logs fails", "logs json": "logs fails --json", "logs mm": "logs mm", "why": "why fails", "why mm": "why mm", "verify": "verify tidy", "verify mm": "verify mm", "verify fails": "verify fails",
	"items": "items mm", "results": "results mm", "events": "events fails", "worker": "worker ls", "metrics": "metrics tidy",
	"data": "data", "data tidy": "data tidy", "get": "get tidy -o OUT", "get mm": "get mm -o OUT", "top": "top", "gc dry": "gc --dry-run --keep 1",
}

// lists are the viewers that meet every job; the others also meet what is planted in the
// job of tidy, of fails and of mm.
var (
	lists  = []string{"status", "status json", "top", "worker", "data", "gc dry"}
	ofTidy = append([]string{"verify", "metrics", "get", "data tidy"}, lists...)
	ofFail = append([]string{"status fails", "logs", "logs json", "why", "events", "verify fails"}, lists...)
	ofMap  = append([]string{"status mm", "logs mm", "why mm", "verify mm", "items", "results", "get mm"}, lists...)
)

// Whatever another writer leaves in a store, the commands that show it end by themselves
// and within bounded memory, print nothing that a terminal obeys, write to no other
// place, and list all jobs but the damaged ones; gc removes what may go, or says why not.
func TestADamagedStoreStopsNoViewer(t *testing.T) {
	base := newSmallStore(t)
	for i, c := range damages {
		t.Run(c.name, func(t *testing.T) {
			if !commitseed.Plays(i) {
				t.Skip("another commit plays it, and test-long")
			}
			t.Parallel()
			s := base.copy(t)
			c.plant(t, s)
			outside := s.outside(t)
			verbs := slices.Clone(c.verbs)
			if verbs == nil {
				verbs = slices.Concat(lists, ofTidy[:4], ofFail[:6], ofMap[:7])
			}
			for _, verb := range verbs {
				stdout, stderr, status := s.view(t, verb, viewers[verb])
				switch verb {
				case "status", "status json":
					s.listed(t, verb, stdout, stderr, status, c.hides)
				case "gc dry":
					saysItsStatus(t, verb, stderr, status)
				}
			}
			s.collect(t, c.keeps)
			if after := s.outside(t); after != outside {
				t.Errorf("outside of the store there was\n%sand is\n%s", outside, after)
			}
		})
	}
}

// smallStore is a store with a run, a map, a run that has failed, and a task of two jobs,
// of which gc may remove one.
type smallStore struct {
	dir             string // holds store and home, and all else that a command could write to by mistake
	tidy, fails, mm string // keys of the jobs
	old             string // key of the job that gc removes
}

func newSmallStore(t *testing.T) *smallStore {
	t.Helper()
	s := &smallStore{dir: t.TempDir()}
	code := filepath.Join(s.dir, "code")
	for _, dir := range []string{code, filepath.Join(s.dir, "tmp")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"tidy.py":  "import os\nos.mkdir('model')\nopen('model/weights', 'w').write('w' * 100)\nprint('trained loss=1', flush=True)\n",
		"fails.py": "print('before', flush=True)\nraise SystemExit('it fails')\n",
		"item.sh":  "echo said $1; test $1 != 3\n",
		"list.txt": "1\n2\n3\n4\n",
	} {
		if err := os.WriteFile(filepath.Join(code, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, made := range []struct {
		line   string
		status int
	}{
		{"run -q -t tidy -o ../made tidy.py", 0}, {"run -q -t fails fails.py", 1},
		{"map -q -t mm --from list.txt -- sh item.sh {}", 1},
		{"run -q -t old -o ../made tidy.py 1", 0}, {"run -q -t old -o ../made tidy.py 2", 0},
	} {
		cmd := s.command(t.Context(), code, made.line)
		if out, err := cmd.CombinedOutput(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != made.status {
			t.Fatalf("drover %s: %v\n%s", made.line, err, out)
		}
	}
	if err := os.RemoveAll(code); err != nil {
		t.Fatal(err)
	}
	job := func(task string) string {
		found, err := filepath.Glob(filepath.Join(s.dir, "store", "proj", task, "*", "job.json"))
		if err != nil || len(found) == 0 {
			t.Fatalf("no job of %s: %v", task, err)
		}
		oldest := slices.MinFunc(found, func(a, b string) int { return modified(t, a).Compare(modified(t, b)) })
		return "proj/" + task + "/" + filepath.Base(filepath.Dir(oldest))
	}
	s.tidy, s.fails, s.mm, s.old = job("tidy"), job("fails"), job("mm"), job("old")
	return s
}

func (s *smallStore) copy(t *testing.T) *smallStore {
	t.Helper()
	c := *s
	c.dir = t.TempDir()
	if err := os.CopyFS(filepath.Join(c.dir, "store"), os.DirFS(filepath.Join(s.dir, "store"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(c.dir, "tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	victim := filepath.Join(c.dir, "victim")
	if err := os.CopyFS(victim, os.DirFS(filepath.Join(s.dir, "store", filepath.FromSlash(s.fails)))); err != nil {
		t.Fatal(err) // it looks like a job, so that a command has a reason to read it, write to it and delete in it
	}
	return &c
}

// command is drover in a home and a store of its own. On Linux it may reserve no more
// than a few GB: what asks for memory without bound ends, and takes no machine with it.
func (s *smallStore) command(ctx context.Context, dir, line string) *exec.Cmd {
	args := append([]string{filepath.Join(built.dir, "drover")}, strings.Fields(strings.ReplaceAll(line, "OUT", filepath.Join(s.dir, "out")))...)
	if runtime.GOOS == "linux" {
		args = append([]string{"sh", "-c", `ulimit -v 6000000; exec "$0" "$@"`}, args...)
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = dir
	cmd.Env = []string{"HOME=" + filepath.Join(s.dir, "home"), "USER=tester", "TMPDIR=" + filepath.Join(s.dir, "tmp"),
		"DROVER_STORE=" + filepath.Join(s.dir, "store"), "DROVER_PROJECT=proj",
		"PATH=" + strings.Join([]string{built.dir, built.python, os.Getenv("PATH")}, string(os.PathListSeparator)), "PIP_NO_INDEX=1", "UV_OFFLINE=1"}
	return cmd
}

// measured runs the command that follows and writes its peak of memory to a file, as
// getrusage counts it. Not the test itself: the kernel counts to a child what its parent
// held at the fork, and with the race detector that is more than the bound.
const measured = `import os, sys
pid = os.fork()
if not pid: os.execvp(sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(pid, 0)
open(sys.argv[1], "w").write(str(usage.ru_maxrss))
sys.exit(os.waitstatus_to_exitcode(status))
`

// view runs a command and holds it against what every command promises.
func (s *smallStore) view(t *testing.T, verb, line string) (stdout, stderr string, status int) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	cmd := s.command(ctx, s.dir, line)
	peak := filepath.Join(t.TempDir(), "peak")
	cmd.Args = slices.Concat([]string{"python3", "-I", "-S", "-c", measured, peak}, cmd.Args)
	cmd.Path = filepath.Join(built.python, "python3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out, err bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &err
	if e := cmd.Run(); cmd.ProcessState == nil {
		t.Fatal(e)
	}
	stdout, stderr, status = out.String(), err.String(), cmd.ProcessState.ExitCode()
	if ctx.Err() != nil {
		t.Errorf("%s: it had not ended after %s", verb, patience)
	}
	for _, text := range []string{stdout, stderr} {
		if found := unprintable.FindString(strings.ToValidUTF8(text, "\x80")); found != "" {
			t.Errorf("%s prints %q:\n%.2000q", verb, found, text)
		}
		if crash.MatchString(text) {
			t.Errorf("%s:\n%.4000s", verb, text)
		}
	}
	text, e := os.ReadFile(peak)
	used, e2 := strconv.ParseInt(string(text), 10, 64)
	if runtime.GOOS == "linux" {
		used <<= 10
	}
	if ctx.Err() == nil && (e != nil || e2 != nil) || used > mostMemory {
		t.Errorf("%s took %d MB of memory (%v, %v)", verb, used>>20, e, e2)
	}
	if len(stderr) > 20_000 {
		t.Errorf("%s says %d bytes:\n%.1000s", verb, len(stderr), stderr)
	}
	return stdout, stderr, status
}

// saysItsStatus holds an exit status against what was printed: a complaint, or success.
func saysItsStatus(t *testing.T, verb, stderr string, status int) {
	t.Helper()
	if known := []int{fault.ExitOK, fault.ExitItems, fault.ExitUsage, fault.ExitDrover}; !slices.Contains(known, status) || (status != 0) != complaint.MatchString(stderr) {
		t.Errorf("%s ends with %d, and says:\n%.2000s", verb, status, stderr)
	}
}

// listed demands that a list shows all tasks but hidden ones, and names what it leaves out.
func (s *smallStore) listed(t *testing.T, verb, stdout, stderr string, status int, hidden string) {
	t.Helper()
	for _, task := range []string{"tidy", "fails", "mm", "old"} {
		named := strings.Contains(stdout, "proj/"+task+" ") || strings.Contains(stdout, `"task": "`+task+`"`) || strings.Contains(stdout, `"task":"`+task+`"`)
		if !named && !slices.Contains(strings.Fields(hidden), task) {
			t.Errorf("%s does not list %s:\n%.2000s\n%.2000s", verb, task, stdout, stderr)
		}
		if named && slices.Contains(strings.Fields(hidden), task) {
			t.Errorf("%s lists %s, which the case says it may hide", verb, task)
		}
		if !named && !strings.Contains(stderr, "/"+task+"/") {
			t.Errorf("%s leaves out %s, and does not say so:\n%.2000s", verb, task, stderr)
		}
	}
	saysItsStatus(t, verb, stderr, status)
}

// collect demands that gc removes the job that may go, or says that it stays if keeps.
func (s *smallStore) collect(t *testing.T, keeps bool) {
	t.Helper()
	_, stderr, status := s.view(t, "gc", "gc -y --keep 1")
	saysItsStatus(t, "gc", stderr, status)
	_, err := os.Lstat(s.path(s.old + "/job.json"))
	if gone := os.IsNotExist(err); gone == keeps {
		t.Errorf("gc has removed %s: %v; it says:\n%.2000s", s.old, gone, stderr)
	}
	for _, key := range []string{s.tidy, s.fails, s.mm} {
		if _, err := os.Lstat(s.path(key + "/log")); err != nil {
			t.Errorf("gc has removed %s: %v", key, err)
		}
	}
}

// outside lists all that lies beside the store, the home, and the folder that is brought.
func (s *smallStore) outside(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	err := filepath.WalkDir(s.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if e.IsDir() && slices.Contains([]string{"store", "home", "out", "tmp"}, e.Name()) && filepath.Dir(path) == s.dir {
			return filepath.SkipDir
		}
		var body []byte
		if e.Type().IsRegular() {
			if body, err = os.ReadFile(path); err != nil {
				return err
			}
		}
		if path != s.dir {
			fmt.Fprintf(&text, "%s %v %x\n", path, e.Type(), sha256.Sum256(body))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return text.String()
}

func (s *smallStore) path(key string) string {
	return filepath.Join(s.dir, "store", filepath.FromSlash(key))
}

func modified(t *testing.T, path string) time.Time {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// glob returns the keys of objects by a pattern that must match one or more.
func (s *smallStore) glob(t *testing.T, pattern string) (keys []string) {
	t.Helper()
	found, err := filepath.Glob(s.path(pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("no object is %s: %v", pattern, err)
	}
	for _, path := range found {
		key, err := filepath.Rel(filepath.Join(s.dir, "store"), path)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, filepath.ToSlash(key))
	}
	return keys
}

// write puts an object in place of what the key names.
func (s *smallStore) write(t *testing.T, key, text string) {
	t.Helper()
	s.clear(t, key)
	if err := os.WriteFile(s.path(key), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// clear removes what a key names, and makes the folder that it is in.
func (s *smallStore) clear(t *testing.T, key string) {
	t.Helper()
	if err := os.RemoveAll(s.path(key)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(s.path(key)), 0o700); err != nil {
		t.Fatal(err)
	}
}

// writeLarge puts an object of size bytes that begins with head: a file with a hole.
func (s *smallStore) writeLarge(t *testing.T, key, head string, size int64) {
	t.Helper()
	s.write(t, key, head)
	if err := os.Truncate(s.path(key), size); err != nil {
		t.Fatal(err)
	}
}

// link puts a symbolic link in place of what the key names.
func (s *smallStore) link(t *testing.T, key, to string) {
	t.Helper()
	s.clear(t, key)
	if err := os.Symlink(to, s.path(key)); err != nil {
		t.Fatal(err)
	}
}

// blob stores content under its digest, which it returns.
func (s *smallStore) blob(t *testing.T, content string) string {
	t.Helper()
	sum := sha256.Sum256([]byte(content))
	digest := hex.EncodeToString(sum[:])
	s.write(t, "blobs/"+digest, content)
	return digest
}

// record is an object in JSON.
type record = map[string]any

// at returns a record within r.
func at(t *testing.T, r record, path ...string) record {
	t.Helper()
	for _, name := range path {
		inner, ok := r[name].(record)
		if !ok {
			t.Fatalf("no record %q in %v", name, r)
		}
		r = inner
	}
	return r
}

// edit changes an object in JSON. The digest of a job.json in its task's log is changed
// with it, as another writer would.
func (s *smallStore) edit(t *testing.T, key string, change func(record)) {
	t.Helper()
	text, err := os.ReadFile(s.path(key))
	if err != nil {
		t.Fatal(err)
	}
	old := sha256.Sum256(text)
	r := record{}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&r); err != nil {
		t.Fatal(err)
	}
	change(r)
	text, err = json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, key, string(text))
	if !strings.HasSuffix(key, "/job.json") {
		return
	}
	now, bound := sha256.Sum256(text), false
	for _, entry := range s.glob(t, strings.Join(strings.Split(key, "/")[:2], "/")+"/log/*") {
		text, err := os.ReadFile(s.path(entry))
		if err != nil {
			t.Fatal(err)
		}
		if other := bytes.ReplaceAll(text, []byte(hex.EncodeToString(old[:])), []byte(hex.EncodeToString(now[:]))); !bytes.Equal(text, other) {
			bound = true
			s.write(t, entry, string(other))
		}
	}
	if !bound {
		t.Fatalf("no entry of the task's log names the digest of %s", key)
	}
}
