package input

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/job"
)

// here says what exists, for Parse.
func here(paths ...string) func(string) bool {
	return func(p string) bool { return slices.Contains(paths, p) }
}

func TestWhatIsTypedIsUnderstood(t *testing.T) {
	t.Parallel()
	type in = job.Input
	for _, row := range []struct {
		text  string
		there []string
		want  job.Input
	}{
		{"data", nil, in{Path: "data"}},
		{"train=./data", nil, in{Name: "train", Path: "./data"}},
		{"train=a=b", nil, in{Name: "train", Path: "a=b"}},
		{"./a=b", nil, in{Path: "./a=b"}},
		{"x.csv=b", nil, in{Path: "x.csv=b"}},
		{"d=data:sharded", nil, in{Name: "d", Path: "data", Sharded: true}},
		{"data:sharded:train", []string{"data"}, in{Path: "data", Sharded: true, Subdir: "train"}},
		{"data:sharded:train", nil, in{Path: "data", Sharded: true, Subdir: "train"}},
		{"data:train", nil, in{Path: "data", Subdir: "train"}},
		{"data::train/a/", nil, in{Path: "data", Subdir: "train/a"}},
		{"data::sharded", []string{"data"}, in{Path: "data", Subdir: "sharded"}},
		{"data:ShardedByS3Key", nil, in{Path: "data", Sharded: true}},
		{"data:FullyReplicated:train", nil, in{Path: "data", Subdir: "train"}},
		{"data:fullyreplicated", nil, in{Path: "data"}},
		// what exists is not taken apart
		{"data:sharded", []string{"data:sharded", "data"}, in{Path: "data:sharded"}},
		{"a:b:c", []string{"a:b:c"}, in{Path: "a:b:c"}},
		{"a:b:train", []string{"a:b", "a"}, in{Path: "a:b", Subdir: "train"}},
		{"a:b:train", []string{"a"}, in{Path: "a", Subdir: "b:train"}},
		{"a:b:sharded:train", []string{"a:b"}, in{Path: "a:b", Sharded: true, Subdir: "train"}},
		{"a:", []string{"a:"}, in{Path: "a:"}},
		{":a", nil, in{Path: ":a"}},
		{"new\nline:train", []string{"new\nline"}, in{Path: "new\nline", Subdir: "train"}},
		// processing jobs
		{"r=raw:/opt/ml/processing/in", []string{"raw"}, in{Name: "r", Path: "raw", To: "/opt/ml/processing/in"}},
		{"raw:sharded:a:/opt/ml/processing/in", nil, in{Path: "raw", Sharded: true, Subdir: "a", To: "/opt/ml/processing/in"}},
		{"https://h/x:/opt/ml/processing/in", nil, in{Path: "https://h/x", To: "/opt/ml/processing/in"}},
		// globs
		{"data/*.csv", nil, in{Path: "data/*.csv"}},
		{"data/*.csv:sharded", nil, in{Path: "data/*.csv", Sharded: true}},
		{"data/[a:b]*", nil, in{Path: "data/[a:b]*"}},
		{"data/*:train", nil, in{Path: "data/*:train"}},
		{"data/*:train", []string{"data/*"}, in{Path: "data/*", Subdir: "train"}},
		// file://
		{"r=file:///d/x:sharded", nil, in{Name: "r", Path: "file:///d/x", Sharded: true}},
		{"file:///d/x:train", []string{"/d/x"}, in{Path: "file:///d/x", Subdir: "train"}},
		{"file:///d/x%20y:z:train", []string{"/d/x y:z"}, in{Path: "file:///d/x%20y:z", Subdir: "train"}},
		{"file:///d/x:z", []string{"/d/x:z"}, in{Path: "file:///d/x:z"}},
		{"file:///d", nil, in{Path: "file:///d"}},
		// the web
		{"https://host:8080/x", nil, in{Path: "https://host:8080/x"}},
		{"https://host:8080", nil, in{Path: "https://host:8080"}},
		{"https://[::1]:8080/x:sharded", nil, in{Path: "https://[::1]:8080/x", Sharded: true}},
		{"https://h/m:predict", nil, in{Path: "https://h/m:predict"}},
		{"https://h/File::Spec", nil, in{Path: "https://h/File::Spec"}},
		{"q=https://h/x?a=b:c&d=/e:ShardedByS3Key", nil, in{Name: "q", Path: "https://h/x?a=b:c&d=/e", Sharded: true}},
		{"https://h/x?a=b", nil, in{Path: "https://h/x?a=b"}},
		{"HTTPS://h/x", []string{"HTTPS://h/x:y"}, in{Path: "HTTPS://h/x"}},
		// tasks
		{"m=task:a/model", nil, in{Name: "m", Path: "task:a/model"}},
		{"task:p/a/state:sharded:rank-0", nil, in{Path: "task:p/a/state", Sharded: true, Subdir: "rank-0"}},
		{"task:a/output::logs", nil, in{Path: "task:a/output", Subdir: "logs"}},
		{"./task:x", []string{"./task:x"}, in{Path: "./task:x"}},
		{"task", nil, in{Path: "task"}},
		{"s3:b", []string{"s3:b"}, in{Path: "s3:b"}},
		// buckets
		{"s3://b", nil, in{Path: "s3://b"}},
		{"gs://b:sharded", nil, in{Path: "gs://b", Sharded: true}},
		{"d=s3://b/k/:ShardedByS3Key", nil, in{Name: "d", Path: "s3://b/k/", Sharded: true}},
		{"s3://b/k?endpoint=http://h:9000", nil, in{Path: "s3://b/k?endpoint=http://h:9000"}},
		{"s3://b/k?endpoint=http://h:9000:sharded", nil, in{Path: "s3://b/k?endpoint=http://h:9000", Sharded: true}},
		{"s3://b/a:b", []string{"s3://b/a"}, in{Path: "s3://b/a:b"}},
	} {
		got, err := Parse(row.text, here(row.there...))
		if err != nil {
			t.Errorf("%q: %v", row.text, err)
		} else if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%q with %q (-want +got):\n%s", row.text, row.there, diff)
		}
	}
}

func TestWhatMakesNoSenseIsRefusedWithAHint(t *testing.T) {
	var said faulttest.Sayings
	t.Parallel()
	for text, want := range map[string]string{
		"":                                    "it has no path",
		"x=":                                  "it has no path",
		"=x":                                  "no name before =",
		"a\x00b":                              "NUL",
		"data:":                               "is not a folder inside",
		"data::":                              "is not a folder inside",
		"data:sharded:":                       "is not a folder inside",
		"data:..":                             `".." is not a folder inside`,
		"data:a/../..":                        "is not a folder inside",
		"data:/etc":                           "is not a folder inside",
		"data:sharded:../x":                   "is not a folder inside",
		"S3://b/k":                            "begins in lower case",
		"s3://b:9000/k":                       "the bucket's name is missing",
		"gs://":                               "the bucket's name is missing",
		"s3:///k":                             "the bucket's name is missing",
		"x=gs://b/k:sharded:a":                "a folder is a part of the name",
		"https://":                            "is not a web address",
		"https:///x":                          "is not a web address",
		"http://u:secret@h/x":                 "a user's name or password",
		"https://u@h/x:sharded":               "a user's name or password",
		"s3://b/x/https://u:secret@h":         "a user's name or password",
		"s3://b/p&endpoint=http://u:secret@h": "a user's name or password",
		"https://h/x:sharded:train":           "has no folders",
		"file://host/x":                       `the machine "host"`,
		"file:///x?y":                         "no query",
		"file:///x%2":                         "not percent-encoded",
		"file:///x%00":                        "not percent-encoded",
		"task:a":                              "is not something that a task leaves",
		"task:":                               "is not something that a task leaves",
		"task:a/modle":                        "is not something that a task leaves",
		"task:a/output/logs":                  "is not something that a task leaves",
		"task:p/q/a/model":                    "is not something that a task leaves",
		"task:A b/model":                      "is not something that a task leaves",
		"task:blobs/a/model":                  "is not something that a task leaves",
	} {
		in, err := Parse(text, here())
		if err == nil {
			t.Errorf("%q is read as %+v", text, in)
			continue
		}
		said.Error(strconv.Quote(text), err)
		if !strings.Contains(err.Error(), want) || fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%q: %v (%s), want %q and a hint", text, err, fault.Hint(err), want)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: the refusal tells the password: %v", text, err)
		}
	}
	_, err := Parse("data:train:sharded", here("data"))
	if err == nil || fault.Hint(err) != "Write it as data:sharded:train." {
		t.Errorf("the wrong order: %v (%s)", err, fault.Hint(err))
	}
	for text, want := range map[string]string{
		"task:a/output/logs": "For a folder of it write task:a/output::logs.",
		"task:a/modle":       "Did you mean model?",
		"task:a":             "Write it as task:NAME/model: state, model, output, source.",
		"task:-a/model":      "Write it as task:NAME/model: state, model, output, source.",
	} {
		if _, err := Parse(text, here()); fault.Hint(err) != want {
			t.Errorf("%s: the hint is %q, want %q", text, fault.Hint(err), want)
		}
	}
	said.Compare(t, "parse")
}

func TestInputsWithoutANameGetOne(t *testing.T) {
	t.Parallel()
	var list []job.Input
	for _, text := range []string{"x/train", "Held_Out.csv", "v=w", "imgs/**/*.png", "logs/day-*", "https://h.org/f/data.tar.gz?k=v", "https://h.org/", "task:a/model", "file:///d/My%20Set", ".hidden"} {
		var err error
		if list, err = Add(list, text, here()); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for _, in := range list {
		got = append(got, in.Name)
	}
	want := []string{"data", "held-out", "v", "imgs", "day", "data-tar", "h", "model", "my-set", "hidden"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the names differ (-want +got):\n%s", diff)
	}
	if _, err := Add(list, "../..", here("../..")); err == nil || !strings.Contains(err.Error(), "gives no name") || fault.Hint(err) == "" {
		t.Errorf("a path without letters: %v", err)
	}
	if _, err := Add(nil, "x=", here()); err == nil {
		t.Error("what Parse refuses was added")
	}
}

func TestWebAddressesAreShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"https://u:p@h:1/x/y?sig=s#f": "https://...@h:1/x/y?...",
		"https://h":                   "https://h",
		"http://h/x?":                 "http://h/x",
		"file:///x?y":                 "file:///x?y",
		"s3://AKIA:a/b+c@bucket/x":    "s3://...@bucket/x",
		"gs://k:s@bucket/x":           "gs://...@bucket/x",
		"s3://bucket/a?profile=me":    "s3://bucket/a?profile=me",
		"s3://bucket/me@x/y":          "s3://bucket/me@x/y",
		"data?x":                      "data?x",
	} {
		if got := shown(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"a=b:sharded:c", "https://h:1/x:sharded", "file:///a%20b:c", "task:p/t/model::x", "a:b:c:/opt/ml/processing/x", "[a:b]*:sharded", "=", ":::", "data:sharded:"} {
		f.Add(s, "data")
	}
	f.Fuzz(func(t *testing.T, text, there string) {
		in, err := Parse(text, here(there))
		if err != nil {
			if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
				t.Fatalf("%q: %v without kind or hint", text, err)
			}
			return
		}
		if in.Path == "" || strings.ContainsRune(in.Path+in.Subdir, 0) || !strings.Contains(text, in.Path) {
			t.Fatalf("%q is read as %+v", text, in)
		}
		if in.Subdir != "" && (filepath.Clean(in.Subdir) != in.Subdir || !filepath.IsLocal(in.Subdir)) {
			t.Fatalf("%q: the subfolder %q leads outside", text, in.Subdir)
		}
		kind, err := KindOf(in.Path)
		if err != nil {
			t.Fatalf("%q gives %q, which is refused: %v", text, in.Path, err)
		}
		// What exists is never taken apart, but for a name in front of it.
		if kind == Local && there != "" && !strings.HasPrefix(strings.ToLower(there), "file:") && (text == there && !strings.Contains(text, "=") || text == "n="+there) {
			if in.Path != there || in.Sharded || in.Subdir != "" || in.To != "" {
				t.Fatalf("%q exists and is read as %+v", there, in)
			}
		}
		if _, err := Add([]job.Input{{Name: "data"}}, text, here(there)); err != nil && fault.Hint(err) == "" {
			t.Fatalf("%q: %v without a hint", text, err)
		}
	})
}

func TestShardsAreSageMakers(t *testing.T) {
	t.Parallel()
	keys := []string{"b", "a", "é", "Z", "a/b", "c", "a-b"}
	// by bytes: Z a a-b a/b b c é
	for _, row := range []struct {
		node, nodes int
		want        []int
	}{
		{0, 1, []int{3, 1, 6, 4, 0, 5, 2}},
		{0, 2, []int{3, 6, 0, 2}},
		{1, 2, []int{1, 4, 5}},
		{6, 7, []int{2}},
		{7, 9, nil},
		{-1, 2, nil},
	} {
		got := Shard(keys, row.node, row.nodes)
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("node %d of %d (-want +got):\n%s", row.node, row.nodes, diff)
		}
	}
	for n := 1; n < 12; n++ {
		var all []int
		for node := range n {
			all = append(all, Shard(keys, node, n)...)
		}
		slices.Sort(all)
		if diff := cmp.Diff([]int{0, 1, 2, 3, 4, 5, 6}, all); diff != "" {
			t.Errorf("%d nodes do not get each key once: %v", n, all)
		}
	}
	if got := Shard(nil, 0, 3); len(got) != 0 {
		t.Error(got)
	}
}
