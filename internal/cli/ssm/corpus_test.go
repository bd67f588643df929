package ssm

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

// corpus is what the tool is asked: lines written by hand, in testdata/lines.txt,
// and generated ones.
func corpus(t *testing.T) [][]string {
	t.Helper()
	b, err := os.ReadFile("testdata/lines.txt")
	if err != nil {
		t.Fatal(err)
	}
	var all [][]string
	for text := range strings.Lines(string(b)) {
		text = strings.TrimSuffix(text, "\n")
		if text == "" || strings.HasPrefix(text, "# ") {
			continue
		}
		args, err := split(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		all = append(all, args)
	}
	return append(all, generate(rand.New(rand.NewPCG(8, 1)), 300)...)
}

// split reads a line as a shell would: blanks, quotes of both kinds.
func split(text string) (args []string, err error) {
	var word strings.Builder
	var quote rune
	in := false
	for _, r := range text {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, in = r, true
		case r == ' ' && in:
			args, in = append(args, word.String()), false
			word.Reset()
		case r == ' ':
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("a quote is open")
	}
	if in {
		args = append(args, word.String())
	}
	return args, nil
}

// generate makes n command lines of the table's flags and of hyperparameters,
// most of them sound.
func generate(r *rand.Rand, n int) (lines [][]string) {
	pick := func(words ...string) string { return words[r.IntN(len(words))] }
	for range n {
		verb := Verbs[r.IntN(len(Verbs))]
		args := []string{"-p", "proj", "-t", pick("train", "ex3-1", "task_2")}
		if verb == Run {
			args = append(args, pick("-e", "--entry_point"), "worker.py")
		}
		if r.IntN(12) == 0 {
			args = args[2:]
		}
		for range r.IntN(7) {
			if r.IntN(3) == 0 && verb != Data {
				args = append(args, "--"+pick("lr", "epochs", "msg", "x", "task_type", "alpha.beta", "9"), pick("0.1", "-0.1", "-3", "a b", "", "-", "relu", "x=y", "-.5"))
				continue
			}
			var of []*option
			for i := range options {
				if o := &options[i]; o.belongsTo(verb) && o.typedKey() != "help" {
					of = append(of, o)
				}
			}
			args = append(args, typed(r, of[r.IntN(len(of))], pick)...)
		}
		if r.IntN(5) == 0 && verb != Data {
			args = append(args, "--", "arg1", "-arg2", "--arg3", "argument 4")
		}
		lines = append(lines, append([]string{string(verb)}, args...))
	}
	return lines
}

// typed is a flag as a user could type it.
func typed(r *rand.Rand, o *option, pick func(...string) string) []string {
	name := pick(o.names...)
	var v []string
	dist := func() {
		switch r.IntN(5) {
		case 0:
			v = append(v, Sharded)
		case 1:
			v = append(v, Sharded, "sub/dir")
		case 2:
			v = append(v, Replicated, "train")
		}
	}
	switch o.typedKey() {
	case "instance_count", "volume_size", "max_wait_mins", "max_run_mins":
		v = []string{pick("1", "2", "15", "-1", " 7 ", "1_000", "+3", "two", "1.5")}
	case "framework":
		v = []string{pick("pytorch", "tensorflow", "sklearn")}
	case "distribution":
		v = []string{pick(`{"mpi": {"enabled": true}}`, `{}`, `{bad`)}
	case "input_path":
		v = []string{pick("./data", "s3://bucket/key", "/abs/data", "missing")}
		dist()
	case "input_s3":
		v = []string{pick("persons", "bucket"), "s3://b/k/persons.json"}
		dist()
	case "input_task":
		v = []string{"m", "ex3-1", pick("model", "state", "output", "source", "logs")}
		dist()
	case "metric_definitions", "tag":
		v = []string{pick("Score", "loss"), pick("Score=(.*?);", "-x y", "value", "-5")}[:2-r.IntN(12)/11]
	case "env":
		v = []string{"NAME", pick("value", "a b", "")}
	case "dependencies", "entrypoint", "command", "arguments":
		v = []string{"a", "b c", "d"}[:1+r.IntN(3)]
	case "help":
	default:
		if o.most == 1 {
			v = []string{pick("out", "./out", "a b", "-", "x=y", "", "-7")}
		}
	}
	if len(v) == 1 && r.IntN(6) == 0 {
		if strings.HasPrefix(name, "--") {
			return []string{name + "=" + v[0]}
		}
		if v[0] != "" {
			return []string{name + v[0]}
		}
	}
	return append([]string{name}, v...)
}
