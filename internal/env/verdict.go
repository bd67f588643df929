package env

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

//go:embed probe.py
var probe string

// identity is what an interpreter says about itself.
type identity struct {
	Executable     string `json:"executable"`     // absolute, never a shim
	Prefix         string `json:"prefix"`         // folder of the environment it belongs to
	Base           string `json:"base"`           // the interpreter that a virtual environment stands on
	Kind           string `json:"kind"`           // "venv", "conda" or ""
	Version        string `json:"version"`        // 3.11.7
	Implementation string `json:"implementation"` // cpython
	Platform       string `json:"platform"`       // linux-x86_64
	Tag            string `json:"tag"`            // names its ABI: cpython-311-x86_64-linux-gnu
	Old            bool   `json:"old"`            // before Python 3.8
}

// String is how a plan's sentence names an interpreter.
func (i identity) String() string {
	kind := ""
	if i.Kind != "" {
		kind = ", " + i.Kind
	}
	return fmt.Sprintf("active interpreter %s (%s%s)", i.Executable, i.Version, kind)
}

// lack is the first requirement that an interpreter does not meet.
type lack struct {
	Name   string `json:"name"`
	Have   string `json:"have"`   // the version that is there, "" for none
	Want   string `json:"want"`   // what it should be: "numpy>=2"
	By     string `json:"by"`     // the package that needs it, "" for the requirements themselves
	Direct bool   `json:"direct"` // it names a place, not a version
	Text   string `json:"text"`   // says all of it instead, "" mostly
}

// verdict is an interpreter's answer about a set of requirements.
type verdict struct {
	Self     identity          `json:"self"`
	Missing  *lack             `json:"missing"`
	Editable editable          `json:"editable"` // what it imports from outside of itself
	Unknown  string            `json:"unknown"`  // why it could not tell; "" when it could
	Watch    map[string]string `json:"watch"`    // path to stamp: while none changes, the verdict stands
	Key      string            `json:"key"`      // of everything else that it depends on
}

func (v verdict) satisfied() bool { return v.Missing == nil && v.Unknown == "" }

// whatIsMissing says what is missing, as the end of a sentence.
func (v verdict) whatIsMissing() string {
	m, python := v.Missing, v.Self.Executable
	switch {
	case v.Unknown != "":
		return fmt.Sprintf("%s may not do: %s", python, v.Unknown)
	case m.Text != "":
		return m.Text
	case m.Direct:
		return fmt.Sprintf("%s names a path or an address, which only a build can use", m.Name)
	case m.Have != "" && m.By != "":
		return fmt.Sprintf("%s has %s %s, %s needs %s", python, m.Name, m.Have, m.By, m.Want)
	case m.Have != "":
		return fmt.Sprintf("%s has %s %s, not %s", python, m.Name, m.Have, m.Want)
	case m.By != "":
		return fmt.Sprintf("%s, which %s needs, is not in %s", m.Name, m.By, python)
	}
	return fmt.Sprintf("%s is not in %s", m.Name, python)
}

// judge finds an interpreter that runs and its verdict about asked.
func judge(ctx context.Context, r requirements.Request, asked *requirements.Manifest) (verdict, error) {
	found, err := candidates(r)
	if err != nil {
		return verdict{}, err
	}
	return firstVerdict(ctx, r, found, asked)
}

func firstVerdict(ctx context.Context, r requirements.Request, found []string, asked *requirements.Manifest) (verdict, error) {
	var first error
	for _, python := range found {
		v, err := recall(ctx, r, python, asked)
		if err == nil {
			return v, nil
		}
		if ctx.Err() != nil {
			return verdict{}, context.Cause(ctx)
		}
		if first == nil {
			first = err
		}
	}
	return verdict{}, noPython(r, first)
}

// recall answers from the cache while nothing has changed, else asks the
// interpreter and remembers. A cache that cannot be read or written costs time,
// nothing else.
func recall(ctx context.Context, r requirements.Request, python string, asked *requirements.Manifest) (verdict, error) {
	key := hashOf(append([]string{probe, python, tools.Resolved(python)}, dependsOn(r, python, asked)...)...)
	// Named by what it rests on, not by the folder: an agent lays the same code
	// out in a new one each time.
	file := filepath.Join(r.Cache, "verdicts", key[:24]+".json")
	if v, ok := remembered(file, key); ok {
		return v, nil
	}
	launcher := requirements.Stamp(python)
	v, err := ask(ctx, r, python, asked)
	if err != nil {
		return verdict{}, err
	}
	if v.Watch == nil {
		v.Watch = map[string]string{}
	}
	v.Key, v.Watch[python] = key, launcher
	if data, err := json.Marshal(v); err == nil {
		remember(file, data)
	}
	return v, nil
}

func remembered(file, key string) (verdict, bool) {
	var v verdict
	data, err := ownedAnswer(file)
	if err != nil || json.Unmarshal(data, &v) != nil || v.Key != key || v.Self.Executable == "" {
		return verdict{}, false
	}
	for path, was := range v.Watch {
		if requirements.Stamp(path) != was {
			return verdict{}, false
		}
	}
	return v, true
}

func remember(file string, data []byte) {
	if privateFolder(filepath.Dir(file)) != nil {
		return
	}
	f, err := os.CreateTemp(filepath.Dir(file), ".new-*")
	if err != nil {
		return
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	forget(filepath.Dir(file))
}

// forget removes verdicts that were made long ago: of requirements that were
// edited since. One that is still needed costs a question.
func forget(dir string) {
	const long = 30 * 24 * time.Hour
	files, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, d := range files {
		if info, err := d.Info(); err == nil && time.Since(info.ModTime()) > long {
			os.Remove(filepath.Join(dir, d.Name()))
		}
	}
}

// dependsOn lists what a verdict rests on, beside files.
func dependsOn(r requirements.Request, python string, asked *requirements.Manifest) []string {
	var out []string
	for _, name := range []string{"PYTHONPATH", "PYTHONHOME", "PYTHONNOUSERSITE", "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "HOME"} {
		out = append(out, name, tools.Variable(r.Environ, name))
	}
	if asked != nil {
		for _, e := range asked.Entries {
			out = append(out, tools.Mask(e.Text), fmt.Sprint(e.Option, e.Constraint, e.Place))
		}
		if c := asked.Conda; c != nil {
			out = append(out, fmt.Sprint(c.Needs, c.Unclear))
		}
	}
	if shim(python) {
		out = append(out, shimInputs(r)...)
	}
	return out
}

// probeLimit is for an interpreter that hangs: a cold start from a network
// folder takes seconds, never a minute.
const probeLimit = time.Minute

// ask runs the probe in an interpreter.
func ask(ctx context.Context, r requirements.Request, python string, asked *requirements.Manifest) (verdict, error) {
	ctx, cancel := context.WithTimeout(ctx, probeLimit)
	defer cancel()
	in, err := json.Marshal(questionOf(asked))
	if err != nil {
		return verdict{}, err
	}
	if python, err = behindShim(ctx, r, python); err != nil {
		return verdict{}, err
	}
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, python, "-c", probe)
	cmd.Dir, cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = r.Dir, r.Environ, bytes.NewReader(in), &out, &complaint
	cmd.WaitDelay = time.Second
	if err := cmd.Run(); err != nil {
		return verdict{}, fmt.Errorf("%s: %w%s", python, err, tools.LastLine(complaint.String()))
	}
	// A sitecustomize may print before us: the answer is the last line.
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	var v verdict
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &v); err != nil || !filepath.IsAbs(v.Self.Executable) {
		return verdict{}, fmt.Errorf("%s: is not a Python interpreter", python)
	}
	v.addUnknowable(asked)
	return v, nil
}

// question is what the probe is asked.
type question struct {
	Wanted []string    `json:"wanted"`
	Bounds []string    `json:"bounds"`
	Conda  [][2]string `json:"conda"` // name and version
}

func questionOf(m *requirements.Manifest) question {
	q := question{[]string{}, []string{}, [][2]string{}}
	if m == nil {
		return q
	}
	for _, e := range m.Entries {
		switch {
		case e.Option || e.Place || e.Name == "":
		case e.Constraint:
			q.Bounds = append(q.Bounds, e.Text)
		default:
			q.Wanted = append(q.Wanted, e.Text)
		}
	}
	if m.Conda != nil {
		q.Conda = append(q.Conda, m.Conda.Needs...)
	}
	return q
}

// addUnknowable adds to an answer what no interpreter can know.
func (v *verdict) addUnknowable(m *requirements.Manifest) {
	if m == nil {
		return
	}
	if m.Conda != nil && v.Self.Kind != "conda" {
		v.Unknown, v.Missing = "", &lack{Text: v.Self.Executable + " is not in a conda environment"}
		return
	}
	if m.Conda != nil && m.Conda.Unclear != "" && v.Missing == nil && v.Unknown == "" {
		v.Unknown = fmt.Sprintf("%q cannot be evaluated here", m.Conda.Unclear)
	}
	for _, e := range m.Entries {
		if v.Unknown == "" && !e.Option && !e.Constraint && (e.Name == "" || e.Place) {
			name := e.WhereItStands()
			if e.Place && e.Name != "" {
				name = e.Name
			}
			v.Missing = &lack{Name: name, Direct: true}
			return
		}
	}
}
