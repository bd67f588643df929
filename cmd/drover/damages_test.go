package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// controls moves the cursor, sets a title and a clipboard, and turns text around.
const controls = "\x1b]0;title\x07\x1b]52;c;cm0=\x07\x1b[2J\x1b[1;1H\u202eevil\u009b31m\r\nfake line\x08\x08"

// damages are what another writer, hostile or broken, may leave in a store.
var damages = []struct {
	name  string
	plant func(*testing.T, *smallStore)
	verbs []string // that meet it; nil: all
	hides string   // tasks that lists may leave out, by name
	keeps bool     // gc may not remove the old job either
}{
	{name: "nothing", plant: func(*testing.T, *smallStore) {}},
	{name: "control characters in job.json", plant: func(t *testing.T, s *smallStore) {
		for _, job := range []string{s.tidy, s.fails, s.mm} {
			s.edit(t, job+"/job.json", func(r record) {
				control(r, "user", "host", "folder", "drover", "interpreter")
				control(at(t, r, "spec"), "program", "on", "queue")
				at(t, r, "spec")["args"] = []any{controls}
				at(t, r, "spec")["env"] = record{"A" + controls: controls}
				control(at(t, r, "code"), "script")
			})
		}
	}},
	{name: "control characters in what job.json says of its submitter", plant: func(t *testing.T, s *smallStore) {
		for _, job := range []string{s.tidy, s.fails, s.mm} {
			s.edit(t, job+"/job.json", func(r record) {
				control(r, "user", "host", "folder", "drover", "interpreter")
				at(t, r, "spec")["args"] = []any{controls}
			})
		}
	}},
	{name: "control characters in a job's log", plant: func(t *testing.T, s *smallStore) {
		for _, key := range []string{s.tidy + "/log/00000002", s.fails + "/log/00000002", s.mm + "/log/00000001"} {
			s.edit(t, key, func(r record) {
				control(r, "by")
				control(at(t, r, "settled"), "reason")
			})
		}
		for _, key := range s.glob(t, "proj/*/*/log/00000000") {
			s.edit(t, key, func(r record) {
				control(r, "by")
				control(at(t, r, "placed"), "target")
			})
		}
	}},
	{name: "control characters in results", plant: func(t *testing.T, s *smallStore) {
		for _, key := range append(s.glob(t, s.mm+"/results/*"), s.glob(t, s.mm+"/chunks/*/*/*1")...) {
			s.edit(t, key, func(r record) {
				for _, result := range r["results"].([]any) {
					control(result.(record), "w", "h")
				}
			})
		}
	}, verbs: ofMap},
	{name: "control characters in what agents write", plant: func(t *testing.T, s *smallStore) {
		for pattern, fields := range map[string]string{
			"proj/*/*/agents/*": "name phase note", "proj/*/*/attempts/1/join/0": "name address", "proj/*/*/attempts/1/exit/0": "reason why trace last",
		} {
			for _, key := range s.glob(t, pattern) {
				s.edit(t, key, func(r record) { control(r, strings.Fields(fields)...) })
			}
		}
	}},
	{name: "control characters everywhere", plant: func(t *testing.T, s *smallStore) {
		for _, pattern := range []string{"proj/*/*/agents/*", "proj/*/*/attempts/1/*/0", "proj/*/*/log/*", s.mm + "/chunks/*/*/*", s.mm + "/results/*", "proj/*/state/0/*"} {
			for _, key := range s.glob(t, pattern) {
				if info, err := os.Stat(s.path(key)); err == nil && info.Mode().IsRegular() {
					s.edit(t, key, controlAll)
				}
			}
		}
	}, hides: "tidy fails mm old", keeps: true},
	{name: "control characters in a short id and in names", plant: func(t *testing.T, s *smallStore) {
		s.write(t, "ids/aaaa", `{"project":"../../..","task":"etc","job":"passwd"}`)
		text, err := json.Marshal(record{"project": "proj\n\x1b[2J", "task": controls, "job": strings.Repeat("x", 100_000)})
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, "ids/bbbb", string(text))
		s.write(t, "proj/new\nline\x1b[2J/log/00000000", "{}")
		for _, name := range []string{"UPPER", "has.dot", strings.Repeat("a", 200)} {
			if err := os.CopyFS(s.path("proj/"+name), os.DirFS(s.path("proj/fails"))); err != nil {
				t.Fatal(err)
			}
		}
	}},
	{name: "outputs that leave their folder", plant: func(t *testing.T, s *smallStore) {
		var tree string
		s.edit(t, s.tidy+"/attempts/1/exit/0", func(r record) {
			text, err := os.ReadFile(s.path("blobs/" + at(t, r, "outputs")["files"].(string)))
			if err != nil {
				t.Fatal(err)
			}
			tree = s.blob(t, strings.ReplaceAll(string(text), "weights", "../../../SLIP"))
			if n := strings.Count(string(text), "weights"); n == 0 {
				t.Fatalf("no list of files: %s", text)
			}
			at(t, r, "outputs")["files"] = tree
		})
		s.edit(t, s.tidy+"/attempts/1/out/0/00000000", func(r record) { at(t, r, "named", "outputs")["files"] = tree })
	}, verbs: ofTidy},
	{name: "outputs of items that leave their folder", plant: func(t *testing.T, s *smallStore) {
		s.edit(t, s.mm+"/job.json", func(r record) { at(t, r, "spec")["out"] = []any{"../../{}.txt"} })
	}, verbs: ofMap, hides: "mm"},
	{name: "outputs of items in an absolute place", plant: func(t *testing.T, s *smallStore) {
		s.edit(t, s.mm+"/job.json", func(r record) { at(t, r, "spec")["out"] = []any{filepath.Join(s.dir, "ABS{}.txt")} })
	}, verbs: ofMap, hides: "mm"},
	{name: "JSON that nests 200,000 deep", plant: func(t *testing.T, s *smallStore) {
		deep := `{"v":2,"x":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}"
		for _, key := range []string{s.tidy + "/job.json", s.fails + "/log/00000002", s.mm + "/log/00000001", s.mm + "/results/000009_00000001_0_0_1_1_0_0_0"} {
			s.write(t, key, deep)
		}
	}, hides: "tidy fails mm"},
	{name: "an entry of 400 MB", plant: func(t *testing.T, s *smallStore) {
		s.writeLarge(t, s.fails+"/log/00000002", `{"v":2,"settled":{"state":"FAILED","reason":"`, 400<<20)
	}, verbs: ofFail, hides: "fails"},
	{name: "a job.json of 400 MB", plant: func(t *testing.T, s *smallStore) {
		s.writeLarge(t, s.fails+"/job.json", `{"v":2,"id":"`, 400<<20)
	}, verbs: ofFail, hides: "fails"},
	{name: "30 jobs of 400 MB each", plant: func(t *testing.T, s *smallStore) {
		for i := range 30 {
			task := fmt.Sprintf("proj/large%d/", i)
			if err := os.CopyFS(s.path(task), os.DirFS(s.path("proj/fails"))); err != nil {
				t.Fatal(err)
			}
			s.writeLarge(t, task+filepath.Base(s.fails)+"/job.json", `{"v":2,"id":"`, 400<<20)
		}
	}, verbs: lists},
	{name: "everything else of 400 MB", plant: func(t *testing.T, s *smallStore) {
		for _, key := range append(s.glob(t, s.fails+"/agents/*"), s.fails+"/attempts/1/exit/0", s.fails+"/attempts/1/join/0", s.glob(t, s.fails+"/logs/000001*")[0],
			"proj/tidy/state/0/00000000", s.tidy+"/attempts/1/out/0/00000000", "ids/aaaa", s.glob(t, s.mm+"/results/*")[0], s.glob(t, s.mm+"/chunks/*/*/*1")[0], s.glob(t, s.mm+"/items/index*")[0]) {
			s.writeLarge(t, key, `{"v":2,"nonce":"`, 400<<20)
		}
	}, hides: "fails"},
	{name: "numbers at their ends", plant: func(t *testing.T, s *smallStore) {
		s.edit(t, s.mm+"/job.json", func(r record) {
			at(t, r, "manifest")["count"], at(t, r, "manifest")["to"], r["chunk_size"] = uint64(9223372036854775807), uint64(9223372036854775807), 1
		})
		s.edit(t, s.tidy+"/job.json", func(r record) { at(t, r, "spec")["nodes"] = 1 << 31 })
	}, hides: "mm tidy"},
	{name: "numbers below zero", plant: func(t *testing.T, s *smallStore) {
		s.edit(t, s.mm+"/job.json", func(r record) { at(t, r, "manifest")["count"], r["chunk_size"] = -5, 0 })
		s.edit(t, s.tidy+"/log/00000001", func(r record) { at(t, r, "attempt")["k"] = uint64(9223372036854775807) })
	}, hides: "mm tidy"},
	{name: "many agents", plant: func(t *testing.T, s *smallStore) {
		s.edit(t, s.tidy+"/log/00000000", func(r record) {
			at(t, r, "placed")["agents"], at(t, r, "placed")["placement"] = 1<<40, 1<<40
		})
		s.edit(t, s.mm+"/log/00000000", func(r record) { at(t, r, "placed")["agents"] = 1 << 31 })
	}, hides: "mm tidy"},
	{name: "a live map of four billion items", plant: func(t *testing.T, s *smallStore) {
		s.edit(t, s.mm+"/job.json", func(r record) {
			at(t, r, "manifest")["count"], at(t, r, "manifest")["to"] = uint64(4_000_000_000), uint64(4_000_000_000)
		})
		s.clear(t, s.mm+"/log/00000001")
		s.clear(t, "proj/mm/log/00000001")
	}, verbs: ofMap, hides: "mm"},
	{name: "names of results that say nonsense", plant: func(t *testing.T, s *smallStore) {
		for _, name := range []string{"999999_99999999_0_0_9223372036854775807_9223372036854775807_0_0_0", "zzz", "000001_00000001_0_0_-1_1_0_0_0"} {
			s.write(t, s.mm+"/results/"+name, `{"v":2,"id":"000001","n":1,"results":[{"i":99999999999,"t":-1}]}`)
		}
	}, verbs: ofMap},
	{name: "a log that inflates to 2 GB", plant: func(t *testing.T, s *smallStore) {
		key := s.glob(t, s.fails+"/logs/000001*")[0]
		text, err := os.ReadFile(s.path(key))
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, key, string(text[:8])+inflating(t))
	}, verbs: ofFail},
	{name: "code and outputs that inflate to 2 GB", plant: func(t *testing.T, s *smallStore) {
		digest := s.blob(t, inflating(t))
		s.edit(t, s.tidy+"/job.json", func(r record) { at(t, r, "code")["blob"] = digest })
		s.edit(t, s.tidy+"/attempts/1/exit/0", func(r record) { at(t, r, "outputs")["files"] = digest })
	}, verbs: ofTidy},
	{name: "folders that are links", plant: func(t *testing.T, s *smallStore) {
		victim := filepath.Join(s.dir, "victim")
		for _, name := range []string{"logs", "metrics", "usage", "agents", "attempts", "log"} {
			s.link(t, s.fails+"/"+name, filepath.Join(victim, name))
		}
		s.link(t, "proj/evil", victim)
		s.link(t, "evilproj", victim)
		s.link(t, "proj/old/state", victim)
	}, hides: "fails"},
	{name: "a job that is a link", plant: func(t *testing.T, s *smallStore) {
		s.link(t, s.fails, filepath.Join(s.dir, "victim"))
		s.link(t, s.old, filepath.Join(s.dir, "victim"))
	}, hides: "fails", keeps: true},
	{name: "files that are links", plant: func(t *testing.T, s *smallStore) {
		precious := filepath.Join(s.dir, "victim", "job.json")
		for _, key := range append(s.glob(t, s.fails+"/logs/*"), s.glob(t, s.fails+"/agents/*")...) {
			s.link(t, key, precious)
		}
		s.link(t, s.tidy+"/attempts/1/exit/0", precious)
		s.link(t, "ids/aaaa", "/dev/zero")
	}, hides: "tidy"},
	{name: "a job.json that is /dev/zero", plant: func(t *testing.T, s *smallStore) { s.link(t, s.fails+"/job.json", "/dev/zero") }, verbs: ofFail, hides: "fails"},
	{name: "a job.json that is a pipe", plant: func(t *testing.T, s *smallStore) { s.pipe(t, s.fails+"/job.json") }, verbs: ofFail, hides: "fails"},
	{name: "an entry that is a pipe", plant: func(t *testing.T, s *smallStore) { s.pipe(t, "proj/fails/log/00000002") }, verbs: ofFail},
	{name: "3,000 tasks without jobs", plant: func(t *testing.T, s *smallStore) {
		for i := range 3000 {
			s.write(t, fmt.Sprintf("proj/t%d/log/00000000", i), `{"v":2,"nonce":"x","by":"y","at":"2026-11-23T09:13:04Z","submitted":{"job":"`+filepath.Base(s.fails)+`"}}`)
		}
	}, verbs: lists},
	{name: "a task whose job is another's", plant: func(t *testing.T, s *smallStore) {
		s.write(t, "proj/fails/log/00000002", `{"v":2,"nonce":"x","by":"y","at":"2026-11-23T09:13:04Z","submitted":{"job":"../../`+s.tidy+`"}}`)
	}, verbs: ofFail},
	{name: "a job.json that was changed", plant: func(t *testing.T, s *smallStore) {
		text, err := os.ReadFile(s.path(s.fails + "/job.json"))
		if err != nil {
			t.Fatal(err)
		}
		s.write(t, s.fails+"/job.json", strings.Replace(string(text), `"fails.py"`, `"other.py"`, 1))
	}, verbs: ofFail},
}

// control puts control characters before the text of fields.
func control(r record, fields ...string) {
	for _, field := range fields {
		r[field] = controls + field
	}
}

// controlAll puts control characters before every text in a record.
func controlAll(r record) {
	for name, v := range r {
		r[name] = controlled(v)
	}
}

func controlled(v any) any {
	switch v := v.(type) {
	case string:
		return controls + v
	case record:
		controlAll(v)
	case []any:
		for i := range v {
			v[i] = controlled(v[i])
		}
	}
	return v
}

// inflating is a few kB of zstd, in many frames, that become 2 GB.
func inflating(t *testing.T) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	return strings.Repeat(string(w.EncodeAll(make([]byte, 16<<20), nil)), 128)
}

func (s *smallStore) pipe(t *testing.T, key string) {
	t.Helper()
	s.clear(t, key)
	if err := syscall.Mkfifo(s.path(key), 0o600); err != nil {
		t.Fatal(err)
	}
}
