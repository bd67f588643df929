package module_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/contract"
)

// part is one node's go at a part of examples/ssm, without drover: what the contract
// says, and inputs laid out by hand.
type part struct {
	number string
	rank   int
	files  map[string]string // by their paths below "/"
	shards map[string]bool
	change func(f *contract.Facts)
}

// tabulate stands for the package of that name, which tests without a network lack.
const tabulate = "def tabulate(rows, headers):\n    return ' '.join(headers) + '\\n' + '\\n'.join('%s %s' % row for row in rows)\n"

// run gives the exit status, what was said, and the files below root that it left.
func (p part) run(t *testing.T, toolkit string) (status int, said string, left map[string]string) {
	t.Helper()
	root := t.TempDir()
	f := contract.Facts{Job: "ssm-ex-7fk2", Program: "worker.py", Hosts: contract.Hosts(2), Rank: p.rank, Root: root, CPUs: 1, Shards: p.shards,
		SSM: true, Hyperparameters: map[string]string{"task_type": p.number}, Args: []string{"--task_type", p.number}, Inputs: map[string]string{}}
	for path := range p.files {
		if rest, ok := strings.CutPrefix(path, "opt/ml/input/data/"); ok {
			name, _, _ := strings.Cut(rest, "/")
			f.Inputs[name] = filepath.Join(root, "opt/ml/input/data", name)
		}
	}
	if p.change != nil {
		p.change(&f)
	}
	if err := f.Write(""); err != nil {
		t.Fatal(err)
	}
	for path, text := range p.files {
		put(t, filepath.Join(root, path), text)
	}
	code := f.Paths().Code
	example := os.DirFS(filepath.Join("..", "..", "..", "examples", "ssm"))
	for to, from := range map[string]string{"": "code", "external_dependency": "external_dependency"} {
		copyTree(t, example, from, filepath.Join(code, to))
	}
	put(t, filepath.Join(root, "lib", "tabulate.py"), tabulate)
	c := exec.CommandContext(t.Context(), "python3", append([]string{"-B", "worker.py"}, f.Args...)...)
	c.Dir = code
	c.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + root, "PYTHONPATH=" + filepath.Join(root, "lib") + ":" + toolkit}, f.Environ()...)
	out, err := c.CombinedOutput()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	left = map[string]string{}
	for _, folder := range []string{"state", "opt/ml/model", "opt/ml/output/data"} {
		maps.Copy(left, readTree(t, root, folder))
	}
	return status, string(out), left
}

func TestTheExamplesWorkerDoesBothParts(t *testing.T) {
	t.Parallel()
	toolkit := ours(t)
	data := map[string]string{
		"opt/ml/input/data/data/north.txt": "Agnes 4\nBertha 3\nClara 5\n", "opt/ml/input/data/data/south.txt": "Dora 2\nEmma 6\n",
		"opt/ml/input/data/persons/persons.json": `[{"name": "Ada Shepherd"}, {"name": "Ben Drover"}]`,
	}
	model, all := map[string]string{}, map[string]string{}
	for rank := range 2 {
		files := maps.Clone(data)
		files["state/algo-1/runs"], files["state/algo-2/runs"] = "1", "4"
		status, said, left := part{number: "1", rank: rank, files: files}.run(t, toolkit)
		own, run := fmt.Sprintf("algo-%d", rank+1), []string{"2", "5"}[rank]
		want := map[string]string{"state/" + own + "/runs": run, "opt/ml/output/data/output_" + own: "run " + run,
			"opt/ml/model/north.txt_by_" + own: "12\n", "opt/ml/model/south.txt_by_" + own: "8\n"}
		if diff := cmp.Diff(want, left); status != 0 || diff != "" {
			t.Fatalf("rank %d: status %d\n%s\n(-want +got)%s", rank, status, said, diff)
		}
		maps.Copy(all, left)
	}
	for path, text := range all {
		if name, ok := strings.CutPrefix(path, "opt/ml/model/"); ok {
			model[name] = text
		}
	}
	for name, channel := range map[string]map[string]string{"packed": {"model.tar.gz": pack(t, model)}, "unpacked": model} {
		files := map[string]string{"opt/ml/input/data/ex3_1_state/algo-2/runs": "5"}
		for file, text := range channel {
			files["opt/ml/input/data/ex3_1_model/"+file] = text
		}
		status, said, left := part{number: "2", rank: 1, files: files, shards: map[string]bool{"ex3_1_state": true}}.run(t, toolkit)
		want := map[string]string{"state/algo-2/algo-2_runs": "5"}
		if diff := cmp.Diff(want, left); status != 0 || diff != "" || !strings.Contains(said, "Score=60;") || !strings.Contains(said, "Score=100;") {
			t.Errorf("model %s: status %d\n%s\n(-want +got)%s", name, status, said, diff)
		}
	}
}

// The example's worker is a test of what is around it: it says what is not as it
// should be.
func TestTheExamplesWorkerNoticesWhatIsWrong(t *testing.T) {
	t.Parallel()
	toolkit := ours(t)
	good := map[string]string{
		"opt/ml/input/data/data/north.txt": "A 12\n", "opt/ml/input/data/data/south.txt": "B 8\n",
		"opt/ml/input/data/persons/persons.json": `[{"name": "Ada Shepherd"}, {"name": "Ben Drover"}]`,
	}
	second := map[string]string{"opt/ml/input/data/ex3_1_model/north.txt_by_algo-1": "12", "opt/ml/input/data/ex3_1_model/south.txt_by_algo-2": "8",
		"opt/ml/input/data/ex3_1_state/algo-1/runs": "1"}
	shared := map[string]bool{"ex3_1_state": true}
	without := func(files map[string]string, more ...string) map[string]string {
		left := maps.Clone(files)
		for i := 0; i < len(more); i += 2 {
			if left[more[i]] = more[i+1]; more[i+1] == "" {
				delete(left, more[i])
			}
		}
		return left
	}
	for want, p := range map[string]part{
		"worker: data: 1 files, and not 2, which FullyReplicated means": {number: "1", files: without(good, "opt/ml/input/data/data/south.txt", "")},
		"worker: data: 2 files, and not 1, which ShardedByS3Key means":  {number: "1", files: good, shards: map[string]bool{"data": true}},
		"worker: north.txt adds up to 13, and not 12":                   {number: "1", files: without(good, "opt/ml/input/data/data/north.txt", "A 13")},
		"worker: the persons are []":                                    {number: "1", files: without(good, "opt/ml/input/data/persons/persons.json", "[]")},
		"worker: the channels are ['data']":                             {number: "1", files: without(good, "opt/ml/input/data/persons/persons.json", "")},
		"worker: no task_type in {'task_type': 1}":                      {number: "1", files: good, change: func(f *contract.Facts) { f.SSM, f.Hyperparameters = false, nil }},
		"worker: the hosts are ['algo-1']":                              {number: "1", files: good, change: func(f *contract.Facts) { f.Hosts = contract.Hosts(1) }},
		"worker: the arguments are []":                                  {number: "1", files: good, change: func(f *contract.Facts) { f.Args = nil }},
		"worker: the model of part 1 is {}":                             {number: "2", files: without(second, "opt/ml/input/data/ex3_1_model/north.txt_by_algo-1", "", "opt/ml/input/data/ex3_1_model/south.txt_by_algo-2", ""), shards: shared, change: withModel},
		"worker: ex3_1_state: 2 files, and not 1, which ShardedByS3Key": {number: "2", files: without(second, "opt/ml/input/data/ex3_1_state/algo-2/runs", "1"), shards: shared},
		"worker: the state of part 1 has algo-1/other with '1'":         {number: "2", files: without(second, "opt/ml/input/data/ex3_1_state/algo-1/runs", "", "opt/ml/input/data/ex3_1_state/algo-1/other", "1"), shards: shared},
		"worker: the channels are ['ex3_1_model']":                      {number: "2", files: without(second, "opt/ml/input/data/ex3_1_state/algo-1/runs", "")},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			status, said, _ := p.run(t, toolkit)
			if status != 1 || !strings.Contains(said, want) {
				t.Errorf("status %d: %s", status, said)
			}
		})
	}
}

// withModel adds the channel of a model in which nothing is.
func withModel(f *contract.Facts) {
	f.Inputs["ex3_1_model"] = filepath.Join(f.Root, "opt/ml/input/data/ex3_1_model")
}

func pack(t *testing.T, files map[string]string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := w.WriteHeader(&tar.Header{Name: "./" + name, Mode: 0o644, Size: int64(len(files[name]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(files[name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// copyTree copies the files below folder in from to a folder.
func copyTree(t *testing.T, from fs.FS, folder, to string) {
	t.Helper()
	err := fs.WalkDir(from, folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, path)
		put(t, filepath.Join(to, strings.TrimPrefix(path, folder)), string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// readTree gives the files below a folder of root, by their paths below root.
func readTree(t *testing.T, root, folder string) map[string]string {
	t.Helper()
	found, from := map[string]string{}, os.DirFS(root)
	err := fs.WalkDir(from, folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(from, path)
		found[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}
