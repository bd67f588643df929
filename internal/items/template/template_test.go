package template

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/items/fields"
	"github.com/drover-run/drover/internal/items/itemstest"
	"github.com/drover-run/drover/internal/items/manifest"
)

var fruit = []string{"name", "size", "file.path", "é b", ""}

func TestPlaceholdersAreFilled(t *testing.T) {
	it := manifest.Item{N: 42, Text: "/in/a b/pic.tar.gz", Fields: []string{"plum", "-rf $(x) 'y'", "d/f.x", "\n", "none"}}
	out := []string{"/stage/1", "/stage/2"}
	for arg, want := range map[string]string{
		"":                     "",
		"plain":                "plain",
		"{}":                   "/in/a b/pic.tar.gz",
		"{}{}":                 "/in/a b/pic.tar.gz/in/a b/pic.tar.gz",
		"--in={}":              "--in=/in/a b/pic.tar.gz",
		"{.name}":              "pic.tar.gz",
		"{.stem}":              "pic.tar",
		"{.ext}":               ".gz",
		"{.dir}":               "/in/a b",
		"{.dir}/{.stem}{.ext}": "/in/a b/pic.tar.gz",
		"{n}":                  "42",
		"x{n}y":                "x42y",
		"{name}":               "plum",
		"{size}":               "-rf $(x) 'y'",
		"{file.path}":          "d/f.x",
		"{file.path.stem}":     "f",
		"{file.path.dir}-{n}":  "d-42",
		"{é b}":                "\n",
		"{out}":                "/stage/1",
		"{out1}:{out2}":        "/stage/1:/stage/2",

		"{{}}":          "{}",
		"{{n}}":         "{n}",
		"{{name}}":      "{name}",
		"{{nmae}}":      "{nmae}",     // without the doubled braces it is refused
		"{{{}}}":        "{{}}",       // { and {{}} and }
		"{{.Names}}":    "{{.Names}}", // another program's
		"{{json .}}":    "{{json .}}",
		"{print $1}":    "{print $1}",
		"{print}":       "{print}",
		"{a,b} {1..3}":  "{a,b} {1..3}",
		`{"id":{n}}`:    `{"id":42}`,
		`{"a":{"b":1}}`: `{"a":{"b":1}}`,
		"{ }":           "{ }",
		"{":             "{",
		"}{":            "}{",
		"{{":            "{{",
		"${n}":          "${n}", // a shell's, or make's
		"${HOME}/{n}":   "${HOME}/42",
		"$n{n}":         "$n42",
		"${}":           "$/in/a b/pic.tar.gz",
		"{out3x}":       "{out3x}",
		"{2}":           "{2}",
		"a{2,3}":        "a{2,3}",
		"{n":            "{n",
	} {
		tmpl, err := Parse([]string{"prog", arg}, TemplateOptions{Fields: fruit, Out: []string{"{n}.a", "{n}.b"}})
		if err != nil {
			t.Errorf("%q: %v; %s", arg, err, fault.Hint(err))
			continue
		}
		got, err := tmpl.Fill(it, out)
		if diff := cmp.Diff([]string{"prog", want}, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", arg, err, diff)
		}
	}
}

func TestLookAlikesAreRefused(t *testing.T) {
	var said faulttest.Sayings
	for arg, hint := range map[string]string{
		"{nmae}":       "Did you mean {name}?",
		"{Name}":       "Did you mean {name}?",
		"{names}":      "Did you mean {name}?",
		"{SIZE}":       "Did you mean {size}?",
		"{file.pahts}": "Did you mean {file.path}?",
		"{size.stme}":  "Did you mean {size.stem}?",
		"{siez.stem}":  "Did you mean {size.stem}?",
		"{size.x}":     "Did you mean {size.stem}?",
		"{.Stem}":      "Did you mean {.stem}?",
		"{.nam}":       "Did you mean {.name}?",
		"{stem}":       "Did you mean {.stem}?",
		"{item}":       "Did you mean {}?",
		"{.}":          "Did you mean {.dir}/{.stem}?",
		"{/}":          "Did you mean {.name}?",
		"{//}":         "Did you mean {.dir}?",
		"{/.}":         "Did you mean {.stem}?",
		"{#}":          "Did you mean {n}?",
		"{out}":        "Declare it",
		"x{nmae}y":     "{{nmae}} writes the braces themselves",
	} {
		_, err := Parse([]string{"prog", arg}, TemplateOptions{Fields: fruit})
		said.Error(arg, err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), hint) || !strings.HasPrefix(err.Error(), "read command: {") {
			t.Errorf("%q: %v; %s", arg, err, fault.Hint(err))
		}
	}
	for arg, o := range map[string]TemplateOptions{
		"{out2}": {Out: []string{"{n}"}}, "{n}": {Fields: []string{"n"}}, "{out}": {Fields: []string{"out"}, Out: []string{"{}"}},
	} {
		_, err := Parse([]string{arg}, o)
		said.Error(fmt.Sprintf("%s of %+v", arg, o), err)
		if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%s of %+v: %v", arg, o, err)
		}
	}
	said.Compare(t, "look-alikes")
}

func TestBracesThatWereLeftAreNoted(t *testing.T) {
	tmpl, err := Parse([]string{"awk", "{print}", "{colour}", "{colour} {a b}"}, TemplateOptions{Fields: fruit})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"{print} is not a field of the items, and was left as it is", "{colour} is not a field of the items, and was left as it is"}
	if diff := cmp.Diff(want, tmpl.Notes()); diff != "" || tmpl.Uses() {
		t.Error(diff)
	}
	if tmpl, err = Parse([]string{"awk", "{print}"}, TemplateOptions{}); err != nil || len(tmpl.Notes()) != 0 {
		t.Errorf("%q, %v", tmpl.Notes(), err)
	}
}

func TestUses(t *testing.T) {
	for arg, want := range map[string]bool{
		"{}": true, "{.stem}": true, "{size}": true, "{n}": true, "a{n}": true, "{out}": false, "{{}}": false, "x": false, "{print}": false,
	} {
		tmpl, err := Parse([]string{"prog", arg, "x"}, TemplateOptions{Fields: fruit, Out: []string{"{}"}})
		if err != nil || tmpl.Uses() != want {
			t.Errorf("%q: %v", arg, err)
		}
	}
}

func TestPartsOfPaths(t *testing.T) {
	for text, want := range map[string][4]string{ // name, stem, ext, dir
		"a/b.c":               {"b.c", "b", ".c", "a"},
		"b":                   {"b", "b", "", "."},
		"/b":                  {"b", "b", "", "/"},
		"//b.x":               {"b.x", "b", ".x", "/"},
		"/":                   {"", "", "", "/"},
		"":                    {"", "", "", "."},
		"a/b/":                {"b", "b", "", "a"},
		"a//b":                {"b", "b", "", "a"},
		".bashrc":             {".bashrc", ".bashrc", "", "."},
		"x/..a":               {"..a", "..a", "", "x"},
		"..":                  {"..", "..", "", "."},
		"a.tar.gz":            {"a.tar.gz", "a.tar", ".gz", "."},
		"a.":                  {"a.", "a", ".", "."},
		"../x.y":              {"x.y", "x", ".y", ".."},
		"s3://bucket/k/x.y":   {"x.y", "x", ".y", "s3://bucket/k"},
		"a.d/b":               {"b", "b", "", "a.d"},
		"with space/n\nl.ext": {"n\nl.ext", "n\nl", ".ext", "with space"},
	} {
		got := [4]string{partOf(text, theName), partOf(text, theStem), partOf(text, theExt), partOf(text, theDir)}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}

func TestWhatNoArgumentCanHoldIsRefusedByItsItem(t *testing.T) {
	for name, c := range map[string]struct {
		arg, why string
		it       manifest.Item
	}{
		"NUL from JSON":   {"x={size}", "item 7: a value holds a NUL byte", manifest.Item{N: 7, Fields: []string{"", "a\x00b"}}},
		"NUL alone":       {"{}", "item 7: a value holds a NUL byte", manifest.Item{N: 7, Text: "\x00"}},
		"absent":          {"{size}", "item 7: it has no field for {size}", manifest.Item{N: 7, Fields: []string{"", fields.Absent}}},
		"no fields":       {"{size.stem}", "item 7: it has no field for {size.stem}", manifest.Item{N: 7}},
		"128 KiB":         {"{}", "item 7: an argument would be 128 KiB", manifest.Item{N: 7, Text: strings.Repeat("x", 128<<10)}},
		"128 KiB in all":  {"--x={}", "item 7: an argument would be 128 KiB", manifest.Item{N: 7, Text: strings.Repeat("x", maxArg)}},
		"no staging path": {"{out}", "there is no --out", manifest.Item{N: 7}},
	} {
		for _, shell := range []bool{false, true} {
			tmpl, err := Parse([]string{c.arg}, TemplateOptions{Fields: fruit, Shell: shell, Out: []string{"{n}"}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := tmpl.Fill(c.it, nil); err == nil || !strings.Contains(err.Error(), c.why) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	tmpl, err := Parse([]string{"{}"}, TemplateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tmpl.Fill(manifest.Item{Text: strings.Repeat("x", maxArg)}, nil); err != nil {
		t.Errorf("the longest argument: %v", err)
	}
}

func TestOutputsAreCleanNames(t *testing.T) {
	it := manifest.Item{N: 3, Text: "/in/a/pic.jpg", Fields: []string{"x", "../../etc", "d/e.f"}}
	for pattern, want := range map[string]string{
		"{.stem}.png":           "pic.png",
		"{n}.txt":               "3.txt",
		"small/{.name}":         "small/pic.jpg",
		"{n}/":                  "3/",
		"a/{n}/out/":            "a/3/out/",
		"./{n}":                 "3",
		"{file.path}":           "d/e.f",
		"{file.path.dir}/./{n}": "d/3",
		"{name} {n}":            "x 3",
	} {
		tmpl, err := Parse([]string{"prog"}, TemplateOptions{Fields: fruit, Out: []string{pattern, "second-{n}"}})
		if err != nil {
			t.Errorf("%q: %v", pattern, err)
			continue
		}
		got, err := tmpl.Outputs(it)
		if diff := cmp.Diff([]string{want, "second-3"}, got); diff != "" || err != nil {
			t.Errorf("%q: %v %s", pattern, err, diff)
		}
	}
	if tmpl, err := Parse([]string{"prog"}, TemplateOptions{}); err != nil {
		t.Error(err)
	} else if got, err := tmpl.Outputs(it); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

func TestOutputsThatWouldLieElsewhereAreRefused(t *testing.T) {
	var said faulttest.Sayings
	for _, c := range []struct{ pattern, item, why string }{
		{"{}", "/abs/x", "is an absolute path"},
		{"{}/", "/", "is an absolute path"},
		{"x/{}", "..", "goes up"},
		{"{}/x", "..", "goes up"},
		{"a/{}.x", "b/../../../c", "goes up"},
		{"a/{}/b", "", "empty element"},
		{"{}{n}", "a//b", "empty element"},
		{"{}", "a/", "empty element"},
		{"{}/", ".", "names nothing"},
		{"{.stem}/", "..", "goes up"},
		{"{.dir}", "x", "names nothing"},
		{"{}.{n}", "\x00", "NUL"},
		{"d/{}", strings.Repeat("x", 256), "longer than 255"},
		{"d/{}{n}", strings.Repeat("x/", 500), "longer than 900"},
		{"{.ext}", "x", "empty element"},
		{"second-{}", "3", "would be the same"},
		{"{}/under", "second-3", "lie in each other"},
	} {
		tmpl, err := Parse([]string{"prog"}, TemplateOptions{Out: []string{c.pattern, "second-{n}"}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := tmpl.Outputs(manifest.Item{N: 3, Text: c.item})
		said.Error(fmt.Sprintf("%q of %.20q", c.pattern, c.item), err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(err.Error(), c.why) || !strings.HasPrefix(err.Error(), "name outputs: item 3: ") {
			t.Errorf("%q of %.20q: %q, %v", c.pattern, c.item, got, err)
		}
	}
	for pattern, hint := range map[string]string{
		"":            "{n}.txt",
		"/tmp/{n}":    "relative",
		"result.json": "--out 'result-{n}.json'",
		"results/":    "--out 'results-{n}/'",
		"{out}":       "Name it after the item",
		"{nmae}.x":    "Did you mean {name}?",
		"{.stme}.x":   "Did you mean {.stem}?",
	} {
		_, err := Parse([]string{"prog"}, TemplateOptions{Fields: fruit, Out: []string{pattern}})
		said.Error(strconv.Quote(pattern), err)
		if fault.KindOf(err) != fault.Invalid || !strings.Contains(fault.Hint(err), hint) || !strings.HasPrefix(err.Error(), "read --out") {
			t.Errorf("%q: %v; %s", pattern, err, fault.Hint(err))
		}
	}
	said.Compare(t, "outputs")
}

func FuzzTemplate(f *testing.F) {
	for _, s := range []string{"{}", "{{}}", "{name.stem}", "${x}{n}", "a 'b {}' \"$(c {})\" # {}", "{{{}}}", "{out}/{.dir}", "((1<<{n}))", "\\{}`{n}`"} {
		f.Add(s, "it's", true)
		f.Add(s, "a\nb", false)
	}
	f.Fuzz(func(t *testing.T, text, value string, shell bool) {
		tmpl, err := Parse([]string{text}, TemplateOptions{Fields: []string{"name", "a"}, Shell: shell, Out: []string{"{n}/" + text}})
		if err != nil {
			itemstest.CheckRefused(t, err)
			return
		}
		it := manifest.Item{N: 5, Text: value, Fields: []string{value, value}}
		args, err := tmpl.Fill(it, []string{"/stage"})
		if err == nil && (len(args) != 1 || strings.ContainsRune(args[0], 0) && !strings.ContainsRune(text, 0)) {
			t.Fatalf("%q of %q: %q", text, value, args)
		}
		if !strings.ContainsAny(text, "{}") && err == nil && args[0] != text {
			t.Fatalf("%q became %q", text, args[0])
		}
		names, err := tmpl.Outputs(it)
		if err != nil {
			return
		}
		for element := range strings.SplitSeq(strings.TrimSuffix(names[0], "/"), "/") {
			if element == "" || element == "." || element == ".." || strings.ContainsRune(element, 0) {
				t.Fatalf("%q of %q is written to %q", text, value, names[0])
			}
		}
	})
}

func BenchmarkFill(b *testing.B) {
	for _, arg := range []string{"{}", "--in={}", "{.stem}-{n}.png"} {
		for _, shell := range []bool{false, true} {
			tmpl, err := Parse([]string{"prog", arg}, TemplateOptions{Shell: shell})
			if err != nil {
				b.Fatal(err)
			}
			b.Run(fmt.Sprint(arg, shell), func(b *testing.B) {
				b.ReportAllocs()
				it := manifest.Item{N: 77, Text: "/some/folder/with a picture.jpg"}
				for b.Loop() {
					if _, err := tmpl.Fill(it, nil); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func TestFillingCostsOneCopy(t *testing.T) {
	it := manifest.Item{N: 77, Text: "/some/folder/with a picture.jpg"}
	for arg, most := range map[string]float64{"{}": 1, "--in={}": 2, "{.stem}.png": 2} {
		tmpl, err := Parse([]string{"prog", arg}, TemplateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if got := testing.AllocsPerRun(100, func() { tmpl.Fill(it, nil) }); got > most {
			t.Errorf("%s: %v allocations", arg, got)
		}
	}
}
