package verify

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/drover-run/drover/internal/ledger/protocol"
)

var seeds = flag.Int("seeds", 1000, "how many changes TestOneChangeIsNoticed makes; of the ledger's own worlds there is one for each forty")

// harmless are changes that nothing else in the store could contradict, or that
// cannot matter: by story, object and field. What is not listed must give a doubt, or
// be told of.
var harmless = []struct{ what, why string }{
	{`\.(nonce|at): `, "who knows his own entry by it, and when it was written, nobody else can say"},
	{` (job|task)\.by: `, "anyone may write into these logs"},
	{` (job|task): deleted`, "of the newest entry: the log is what it was before"},
	{` task: said again`, "an ended job may be submitted again"},
	{` snapshot: deleted`, "an index may go"},
	{`\.(reason|hint|drain|to|wait): `, "for people, or for those who work then"},
	{` job\.(placed|gone)\b`, "what was asked of the engine, and what it said"},
	{` job: said again`, "an engine may say it again"},
	{` job\.failing\.code: `, "the exit status is the settled entry's"},
	{` job\.settled\.(attempt|rank): `, "a map has none"},
	{` job\.settled\.code: changed`, "of those that are not 0 each may be"},
	{` job\.reopened\.states: `, "it selects the same"},
	{` job\.extended\.size: `, "it makes the same chunks"},
	{` job\.json\.(chunk_size|spec\.retries): `, "it makes the same chunks, and no item went by it"},
	{` job\.json\.(spec\.(program|nodes|out(\[\])?)|manifest\.(digest|format)): `, "what was asked for only job.json says"},
	{` chunk\.claimed\.risk: `, "it changes the bound that is printed"},
	{` chunk\.claimed\.why: changed`, "how an owner was lost the next one knows"},
	{` chunk\.(released\.(flight|stopped)|starting)(\[\])?: `, "what ran when it was given up, or was starting, only its owner knows"},
	{` chunk\.results\[\]\.c: `, "an exit status, of a failure"},
	{`(plain|declined) chunk\.results\[\]\.o: (left out|one less)`, "no item of these must leave an output"},
	{`(dismissed|reopened|stopped) chunk\.by: `, "whoever it was: anyone ends and reopens chunks"},
	{`worn job\.json\.manifest\.step: `, "of one item"},
	{`(snapshots|retried|handed) chunk\.results(: one less|\[\]\.i: )`, "whose a failure was, after which there was another try"},
	{`(stopped|failing|dismissed) chunk\.results\[\]\.i: `, "an item that had no result was cancelled"},
	{`(failing|dismissed) chunk\.(ended: left out|claim: )`, "ended by a stop a little later, or by anyone"},
	{`fenced chunk\.(claim|results|by)`, "in an entry that does not count"},
}

// mutant is one change of a story, and what it was.
func mutant(r *rand.Rand, s *story) (what string) {
	var keys []string
	for key := range s.objects {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	key := keys[r.IntN(len(keys))]
	name := kindOf(key)
	if strings.Contains(key, "/out/") || strings.Contains(key, "/items/part-") {
		s.objects[key] += "x"
		return name + ": longer"
	}
	switch r.IntN(8) {
	case 0:
		delete(s.objects, key)
		return name + ": deleted"
	case 1:
		if n := s.next[path.Dir(key)]; n > 0 {
			s.objects[at(path.Dir(key), n)] = s.objects[key]
			return name + ": said again"
		}
	}
	var tree any
	if err := json.Unmarshal([]byte(s.objects[key]), &tree); err != nil {
		panic(err)
	}
	var leaves []leaf
	collect(tree, "", &leaves)
	l := leaves[r.IntN(len(leaves))]
	tree, how := l.change(r, tree)
	b, err := json.Marshal(tree)
	if err != nil {
		panic(err)
	}
	s.objects[key] = string(b)
	return fmt.Sprintf("%s%s: %s", name, l.path, how)
}

// kindOf names what an object is.
func kindOf(key string) string {
	for _, kind := range []struct{ part, name string }{{jobDir + "/log/", "job"}, {taskLog, "task"}, {"/chunks/", "chunk"},
		{"/job.json", "job.json"}, {"ids/", "ids"}, {"/results/", "snapshot"}, {"/out/", "output"}, {"/items/part", "part"}, {"/items/", "index"}} {
		if strings.Contains(key, kind.part) {
			return kind.name
		}
	}
	panic(key)
}

// isSameEntry says whether two texts are of one entry of a log of that type.
func isSameEntry[E protocol.Entry](a, b string) bool {
	x, foreignA, errA := decode[E]([]byte(a))
	y, foreignB, errB := decode[E]([]byte(b))
	return errA == nil && errB == nil && !foreignA && !foreignB && reflect.DeepEqual(x, y)
}

// same says whether two texts of an object mean the same.
func same(a, b string) bool {
	if a == b {
		return true
	}
	if isSameEntry[protocol.TaskEntry](a, b) || isSameEntry[protocol.JobEntry](a, b) || isSameEntry[protocol.ChunkEntry](a, b) {
		return true
	}
	var v, w any
	return json.Unmarshal([]byte(a), &v) == nil && json.Unmarshal([]byte(b), &w) == nil && reflect.DeepEqual(v, w)
}

// leaf is a value in a tree of JSON: where it is, and in what.
type leaf struct {
	path  string
	in    map[string]any
	field string
	list  []any
	index int
}

func collect(v any, at string, leaves *[]leaf) {
	switch v := v.(type) {
	case map[string]any:
		var fields []string
		for f := range v {
			fields = append(fields, f)
		}
		slices.Sort(fields)
		for _, f := range fields {
			*leaves = append(*leaves, leaf{path: at + "." + f, in: v, field: f})
			collect(v[f], at+"."+f, leaves)
		}
	case []any:
		for i := range v {
			*leaves = append(*leaves, leaf{path: at + "[]", list: v, index: i})
			collect(v[i], at+"[]", leaves)
		}
	}
}

// change makes one change at a leaf.
func (l leaf) change(r *rand.Rand, tree any) (any, string) {
	if l.in == nil {
		l.list[l.index] = other(r, l.list[l.index])
		return tree, "changed"
	}
	if list, ok := l.in[l.field].([]any); ok && len(list) > 0 && r.IntN(2) == 0 {
		i := r.IntN(len(list))
		if r.IntN(2) == 0 {
			l.in[l.field] = slices.Insert(slices.Clone(list), i, list[i])
			return tree, "one twice"
		}
		l.in[l.field] = slices.Delete(slices.Clone(list), i, i+1)
		return tree, "one less"
	}
	if r.IntN(3) == 0 {
		delete(l.in, l.field)
		return tree, "left out"
	}
	l.in[l.field] = other(r, l.in[l.field])
	return tree, "changed"
}

// other is another value of the same kind, where there is one.
func other(r *rand.Rand, v any) any {
	switch v := v.(type) {
	case float64:
		return v + []float64{-1, 1, 2, 1000}[r.IntN(4)]
	case bool:
		return !v
	case string:
		return v + "x"
	}
	return v
}

func TestOneChangeIsNoticed(t *testing.T) {
	t.Parallel()
	var names []string
	told := map[string]int{}
	for name := range sound {
		if name != "live" && name != "ignored" { // of these, little is final
			names = append(names, name)
			told[name] = sound[name]().verify(t).Told
		}
	}
	slices.Sort(names)
	allowed := make([]*regexp.Regexp, len(harmless))
	for i, h := range harmless {
		allowed[i] = regexp.MustCompile(h.what)
	}
	missed := map[string]int{}
	for seed := range *seeds {
		r := rand.New(rand.NewPCG(uint64(seed), 6))
		name := names[r.IntN(len(names))]
		s := sound[name]()
		before := maps.Clone(s.objects)
		what := name + " " + mutant(r, s)
		after := s.verify(t)
		if !after.Sound() || after.Told != told[name] || maps.EqualFunc(before, s.objects, same) {
			continue
		}
		i := slices.IndexFunc(allowed, func(x *regexp.Regexp) bool { return x.MatchString(what) })
		if i < 0 {
			missed[what]++
		}
	}
	for what, n := range missed {
		t.Errorf("nobody noticed: %s (%d)", what, n)
	}
}
