package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// difference is one that we allow between what SageMaker's toolkit gives a script
// and what drover does. A cell that holds nothing but `values` is checked to the
// letter, and so is "not set"; other words are for people.
type difference struct{ variable, sagemaker, drover, why string }

// differences are all there are. docs/how-to/sagemaker.md holds the same lines.
var differences = []difference{
	{"`SM_CURRENT_INSTANCE_TYPE`", "`ml.m5.xlarge` or what was rented", "`local`, or what `--machine` says", "nothing was rented"},
	{"`SM_NETWORK_INTERFACE_NAME`", "`eth0`", "the interface that reaches the other nodes", "machines differ; several nodes on one machine use loopback"},
	{"`SM_MODULE_DIR`", "the archive that the code came in", "`/opt/ml/code`", "the code comes without an archive; it lies there in both"},
	{"`SM_TRAINING_ENV`: job_name", "the name that was asked for", "project, task and job id", "`TRAINING_JOB_NAME` holds the same"},
	{"`SM_HP_*` of true, false", "`true`, `false`", "`True`, `False`", "drover reads the arguments, where they stand so"},
	{"`SM_HP_*` of a list with text", "`[\"a\",\"b c\"]`", "`['a', 'b c']`", "the same"},
	{"`SM_HP_*` of a dictionary", "`{\"a\":\"x\",\"b\":1}`", "`a=x,b=1`", "the same"},
	{"`SM_HPS` of null", "`null`", "`\"\"`", "the same; `SM_HP_*` is empty in both"},
	{"`SM_HPS` of text that is a number", "`\"10\"`", "`10`", "the same; `SM_HP_*` is 10 in both"},
	{"`SM_HP_*` of text that looks like a flag", "`--epochs`", "`true`", "the same: it is taken for the next flag"},
	{"`SM_HP_A-B`, `SM_CHANNEL_A-B`", "only so", "also `SM_HP_A_B`, `SM_CHANNEL_A_B`", "no shell can say a name with a dash"},
	{"`SM_CHECKPOINT_DIR`", "not set", "`/opt/ml/checkpoints`", "SageMaker has the folder and no variable"},
	{"`SM_OUTPUT_FAILURE`", "not set", "`/opt/ml/output/failure`", "set by version 3 of SageMaker's SDK"},
	{"`SM_SOURCE_DIR`", "not set", "`/opt/ml/code`", "the same"},
	{"`SM_ENTRY_SCRIPT`", "not set", "`train.py`", "the same"},
	{"`SM_HOST_COUNT`", "not set", "`1`, `2`", "the same"},
	{"`SM_CURRENT_HOST_RANK`", "not set", "`0`, `1`", "the same"},
	{"`SM_MASTER_ADDR`", "not set", "where node 0 is reached", "the same"},
	{"`SM_MASTER_PORT`", "not set", "a free port of node 0, with several nodes", "the same"},
}

// hyperparameters are what both get: names and text as they stand in SageMaker's
// hyperparameters.json, one of each kind there is. kind names the lines of
// differences about them, if there are any.
var hyperparameters = []struct{ name, text, kind string }{
	{"epochs", `3`, ""}, {"minus", `-3`, ""}, {"shift", `-0.5`, ""}, {"tiny", `1e-07`, ""}, {"huge", `1e+22`, ""}, {"x", `1`, ""},
	{"batch-size", `64`, ""}, {"learning_rate", `0.1`, ""}, {"dotted.name", `5`, ""}, {"Upper", `"Case"`, ""},
	{"name", `"adam"`, ""}, {"plain", `adam`, ""}, {"empty", `""`, ""}, {"digits", `"007"`, ""}, {"equals", `"a=b"`, ""},
	{"text", `"two words, \"quotes\" and 'more' $HOME; * <&>\nand a line"`, ""}, {"unicode", `"é ☃ 😀"`, ""}, {"layers", `[1, 2]`, ""},
	{"flag", `true`, "SM_HP_* of true, false"}, {"off", `false`, "SM_HP_* of true, false"},
	{"words", `["a", "b c"]`, "SM_HP_* of a list with text"},
	{"options", `{"b": 1, "a": "x"}`, "SM_HP_* of a dictionary"},
	{"none", `null`, "SM_HPS of null"},
	{"ten", `"10"`, "SM_HPS of text that is a number"},
	{"dash", `"--epochs"`, "SM_HP_* of text that looks like a flag"},
}

var channels = []string{"train", "test", "my-data_v2"}

// sight is what testdata/toolkit/train.py saw.
type sight struct {
	Args      []string
	Folder    string
	Variables map[string]string
}

// TestRealTheSageMakerToolkitAgrees runs one script under SageMaker's own
// training toolkit and under drover, on one node and on two, and allows no
// difference but the ones that are named.
func TestRealTheSageMakerToolkitAgrees(t *testing.T) {
	onlyReal(t)
	train, met := toolkitProgram(t), map[string]bool{}
	for i, flags := range [][]string{nil, {"--nodes", "2", "--machine", "ml.m5.xlarge"}} {
		nodes := i + 1
		want := make([]sight, nodes)
		for rank := range want {
			want[rank] = underToolkit(t, train, nodes, rank)
		}
		got := underDrover(t, nodes, flags, want[0].Args[1:])
		for rank := range want {
			compare(t, fmt.Sprintf("node %d of %d", rank, nodes), want[rank], got[rank], met)
		}
	}
	for _, d := range differences {
		if !met[d.variable] {
			t.Errorf("%s: there is no such difference any more", d.variable)
		}
	}
}

func TestTheDifferencesFromSageMakerAreInItsPage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "sagemaker.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "| Variable | SageMaker | drover | Why |\n|---|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var want []string
	for _, d := range differences {
		want = append(want, "| "+strings.Join([]string{d.variable, d.sagemaker, d.drover, d.why}, " | ")+" |")
	}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSpace(table), "\n")); diff != "" {
		t.Errorf("the table of docs/how-to/sagemaker.md (-the test's +the page's):\n%s", diff)
	}
}

// compare notes in met the differences that it finds.
func compare(t *testing.T, where string, want, got sight, met map[string]bool) {
	t.Helper()
	if diff := cmp.Diff(want.Args, got.Args); diff != "" {
		t.Errorf("%s: arguments (-toolkit +drover):\n%s", where, diff)
	}
	if want.Folder != got.Folder {
		t.Errorf("%s: the folder is %s, want %s", where, got.Folder, want.Folder)
	}
	if len(want.Variables) < 30 {
		t.Fatalf("%s: the toolkit sets %d variables", where, len(want.Variables))
	}
	for name := range union(want.Variables, got.Variables) {
		w, g := leaves(t, name, want.Variables), leaves(t, name, got.Variables)
		same := true
		for leaf := range union(w, g) {
			if valueOf(w, leaf) == valueOf(g, leaf) {
				continue
			}
			same = false
			key := lineAbout(leaf, want.Variables)
			i := slices.IndexFunc(differences, func(d difference) bool { return strings.ReplaceAll(d.variable, "`", "") == key })
			if i < 0 || !allows(differences[i].sagemaker, valueOf(w, leaf)) || !allows(differences[i].drover, valueOf(g, leaf)) {
				t.Errorf("%s: %s is %s, and the toolkit's %s", where, leaf, valueOf(g, leaf), valueOf(w, leaf))
				continue
			}
			met[differences[i].variable] = true
		}
		if same && want.Variables[name] != got.Variables[name] {
			t.Errorf("%s: %s is written\n%s\nwant\n%s", where, name, got.Variables[name], want.Variables[name])
		}
	}
}

const notSet = "not set"

func valueOf(set map[string]string, name string) string {
	if v, ok := set[name]; ok {
		return v
	}
	return notSet
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

var literals = regexp.MustCompile("^`[^`]*`(, `[^`]*`)*$")

// allows says whether a cell of the table is about value. Text in JSON documents
// has its quotes in value.
func allows(cell, value string) bool {
	switch {
	case cell == notSet:
		return value == notSet
	case !literals.MatchString(cell):
		return true
	}
	var text string
	_ = json.Unmarshal([]byte(value), &text) // no text, and it stays as it is
	for literal := range strings.SplitSeq(strings.Trim(cell, "`"), "`, `") {
		if literal == value || literal == text {
			return true
		}
	}
	return false
}

// leaves takes a variable that holds a JSON object apart: NAME.key.key, with
// values as JSON, by which 10 and "10" differ. Others have one leaf.
func leaves(t *testing.T, name string, set map[string]string) map[string]string {
	t.Helper()
	found := map[string]string{}
	text, ok := set[name]
	if !ok {
		return found
	}
	var object map[string]any
	if strings.HasPrefix(name, "SM_HP_") || !decodes(text, &object) {
		found[name] = text
		return found
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		// A dictionary among the hyperparameters is one value.
		inside := strings.HasPrefix(at, "SM_HPS.") || strings.HasPrefix(at, "SM_TRAINING_ENV.hyperparameters.")
		switch v := v.(type) {
		case map[string]any:
			if inside {
				break
			}
			for key, value := range v {
				walk(at+"."+key, value)
			}
			return
		case []any:
			if inside || len(v) == 0 {
				break
			}
			for i, value := range v {
				walk(fmt.Sprint(at, ".", i), value)
			}
			return
		}
		b := &bytes.Buffer{}
		e := json.NewEncoder(b)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		found[at] = strings.TrimSpace(b.String())
	}
	walk(name, object)
	return found
}

func decodes(text string, object *map[string]any) bool {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	return d.Decode(object) == nil
}

// lineAbout names the line of the table that a leaf belongs to: what stands in a
// document is about the variable of the same name.
func lineAbout(leaf string, toolkit map[string]string) string {
	for _, h := range hyperparameters {
		for _, at := range []string{"SM_HP_" + strings.ToUpper(h.name), "SM_HPS." + h.name, "SM_TRAINING_ENV.hyperparameters." + h.name} {
			if leaf == at {
				return h.kind
			}
		}
	}
	for name := range toolkit {
		if name != leaf && strings.ReplaceAll(name, "-", "_") == leaf {
			return "SM_HP_A-B, SM_CHANNEL_A-B"
		}
	}
	if !strings.Contains(leaf, ".") {
		return leaf
	}
	switch key := leaf[strings.LastIndex(leaf, ".")+1:]; key {
	case "job_name":
		return "SM_TRAINING_ENV: " + key
	case "instance_type":
		return "SM_CURRENT_INSTANCE_TYPE"
	default:
		return "SM_" + strings.ToUpper(key)
	}
}

// toolkitProgram is the "train" of a sagemaker-training image. It is installed
// once, beside the user's other caches.
func toolkitProgram(t *testing.T) string {
	t.Helper()
	const toolkit = "sagemaker-training==5.1.4"
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(cache, "drover-test", strings.ReplaceAll(toolkit, "==", "-"))
	if err := os.MkdirAll(at, 0o755); err != nil {
		t.Fatal(err)
	}
	lock, err := os.OpenFile(filepath.Join(at, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	complete, python := filepath.Join(at, "complete"), filepath.Join(at, "venv", "bin", "python")
	if _, err := os.Stat(complete); err != nil {
		for _, line := range [][]string{
			{filepath.Join(built.python, "python3"), "-m", "venv", "--clear", filepath.Join(at, "venv")},
			{python, "-m", "pip", "install", "--quiet", "uv"},
			{python, "-m", "uv", "pip", "install", "--quiet", "--python", python, toolkit}, // it has a part in C
		} {
			if out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", strings.Join(line, " "), err, out)
			}
		}
		if err := os.WriteFile(complete, nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(at, "venv", "bin", "train")
}

// underToolkit has the toolkit start the script on one host of a job, as the
// service would.
func underToolkit(t *testing.T, train string, nodes, rank int) sight {
	t.Helper()
	dir, hosts, inputs := t.TempDir(), []string{}, map[string]any{}
	names, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Fatal(err)
	}
	for i := range nodes {
		hosts = append(hosts, fmt.Sprintf("algo-%d", i+1))
		names = fmt.Appendf(names, "\n127.0.0.1 %s\n", hosts[i])
	}
	for _, name := range channels {
		inputs[name] = map[string]string{"TrainingInputMode": "File", "S3DistributionType": "FullyReplicated", "RecordWrapperType": "None"}
	}
	// What the SDK adds to the user's own.
	given := map[string]string{
		"sagemaker_program": `"train.py"`, "sagemaker_submit_directory": `"/opt/ml/sourcedir.tar.gz"`,
		"sagemaker_container_log_level": `20`, "sagemaker_job_name": `"digits-2026"`, "sagemaker_region": `"eu-west-1"`,
	}
	for _, h := range hyperparameters {
		given[h.name] = h.text
	}
	group := map[string]any{"instance_group_name": "homogeneousCluster", "instance_type": "ml.m5.xlarge", "hosts": hosts}
	for name, v := range map[string]any{"hyperparameters": given, "inputdataconfig": inputs, "resourceconfig": map[string]any{
		"current_host": hosts[rank], "current_instance_type": "ml.m5.xlarge", "current_group_name": "homogeneousCluster",
		"hosts": hosts, "instance_groups": []any{group}, "network_interface_name": "eth0",
	}} {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "ml/input/config", name+".json"), b)
	}
	put(t, filepath.Join(dir, "hosts"), names)
	for _, folder := range append([]string{"model", "output/data", "checkpoints"}, channels...) {
		if slices.Contains(channels, folder) {
			folder = "input/data/" + folder
		}
		if err := os.MkdirAll(filepath.Join(dir, "ml", folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range [][]string{
		{"tar", "-czf", filepath.Join(dir, "ml/sourcedir.tar.gz"), "-C", "testdata/toolkit", "train.py"},
		{"unshare", "--mount", "--map-root-user", "--propagation", "private", "sh", "testdata/toolkit/service.sh", dir, train,
			"AWS_REGION=eu-west-1", "TRAINING_JOB_NAME=digits-2026", "TRAINING_JOB_ARN=arn:aws:sagemaker:eu-west-1:123456789012:training-job/digits-2026"},
	} {
		if out, err := exec.CommandContext(t.Context(), line[0], line[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	return seenBy(t, filepath.Join(dir, "ml/model"), hosts[rank])
}

// underDrover has drover start it, with these arguments.
func underDrover(t *testing.T, nodes int, flags, args []string) []sight {
	t.Helper()
	h := newHome(t)
	line := append([]string{"run", "-q", "-o", "out"}, flags...)
	for _, name := range channels {
		put(t, filepath.Join(h.work, name, "x"), nil)
		line = append(line, "-i", name+"="+name)
	}
	script, err := os.ReadFile("testdata/toolkit/train.py")
	if err != nil {
		t.Fatal(err)
	}
	put(t, filepath.Join(h.work, "train.py"), script)
	h.drover(t, 0, append(append(line, "train.py"), args...)...)
	var all []sight
	for i := range nodes {
		all = append(all, seenBy(t, filepath.Join(h.work, "out/model"), fmt.Sprintf("algo-%d", i+1)))
	}
	return all
}

func seenBy(t *testing.T, dir, host string) sight {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "seen-"+host+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var s sight
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	return s
}
