package ssm

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/google/go-cmp/cmp"
)

func read(t *testing.T, line string) Command {
	t.Helper()
	args, err := split(line)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Read(args, noEnv)
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return c
}

// What is read other than it may look is said.
func TestNotes(t *testing.T) {
	for line, want := range map[string][]string{
		"":                                     nil,
		"--lr 0.1 --wd 3 --epochs 5":           nil,
		"--model gpt2":                         {"--model is a hyperparameter; the flag is written out: --model_uri"},
		"--no_spto":                            {"--no_spto is a hyperparameter; it is close to the flag --no_spot"},
		"--max-run-min 5":                      {"--max-run-min is a hyperparameter; the flag is written out: --max_run_mins"},
		"--env A=1":                            {"--env is a hyperparameter; only ssm process has the flag"},
		"--lr 1 --lr 2":                        {"--lr is given twice: the last one counts"},
		"-i a -i b -i c":                       {"only the first -i counts, as always with ssm: left out is b, c; --iis NAME PATH adds data"},
		"-i a ShardedByS3Key --iis p s3://b/k": {"-i is FullyReplicated, not ShardedByS3Key: with ssm the last --iis, or else --iit, decides for -i too"},
		"-i a --iit m T state ShardedByS3Key":  {"-i is ShardedByS3Key, not FullyReplicated: with ssm the last --iis, or else --iit, decides for -i too"},
		"--iis p s3://b/k -i a ShardedByS3Key ShardedByS3Key --iis q s3://b/l ShardedByS3Key x": nil,
	} {
		if d := cmp.Diff(want, read(t, "run -p a -t b -e w.py "+line).Notes); d != "" {
			t.Errorf("%q:\n%s", line, d)
		}
	}
}

func TestTheLastInputDecidesForAll(t *testing.T) {
	for line, want := range map[string]string{
		"-i a":                  Replicated,
		"-i a ShardedByS3Key":   Sharded,
		"--iis p s3://b/k -i a": Replicated,
		"--iis p s3://b/k ShardedByS3Key --iit m T model -i a":         Sharded,
		"-i a ShardedByS3Key --iit m T model --iit n T2 model":         Replicated,
		"-i a --iit m T model --iit n T2 model ShardedByS3Key":         Sharded,
		"-i a --iis p s3://b/k ShardedByS3Key --iis q s3://b/l":        Replicated,
		"-i a --iis p s3://b/k --iit m T model ShardedByS3Key --x 1":   Replicated,
		"-i a ShardedByS3Key -i b FullyReplicated":                     Sharded,
		"--iit m T model ShardedByS3Key sub --iis p s3://b/k --ic 2 ":  Replicated,
		"--iit m T model ShardedByS3Key sub --no_spot --ic 2 --cs -ia": Sharded,
	} {
		if got := read(t, "run -p a -t b -e w.py "+line).DataDistribution(); got != want {
			t.Errorf("%q: %s, want %s", line, got, want)
		}
	}
}

// The words after -- come first, then the hyperparameters by name, as a script
// sees them under the tool.
func TestTheProgramsArguments(t *testing.T) {
	for line, want := range map[string][]string{
		`--msg "Hello, world!" -- arg1 -arg2 --arg3 "argument 4"`: {"arg1", "-arg2", "--arg3", "argument 4", "--msg", "Hello, world!"},
		"--wd=0.2 --lr=-0.1 --debug":                              {"--debug", "--lr", "-0.1", "--wd", "0.2"},
		"--k 5 --K 6":                                             {"-K", "6", "-k", "5"},
		"-- --":                                                   {"--"},
	} {
		c := read(t, "run -p a -t b -e w.py "+line)
		if d := cmp.Diff(want, c.ProgramArgs()); d != "" {
			t.Errorf("%q:\n%s", line, d)
		}
	}
	got := read(t, "run -p a -t b -e w.py --lr 0.10 --debug").HyperparameterText()
	if d := cmp.Diff(map[string]string{"lr": "0.10", "debug": "true"}, got); d != "" {
		t.Error(d)
	}
}

// A refusal says what was typed, and its hint is in the tool's own words: no flag
// stands in it that ssm does not have.
func TestRefusalsAndTheirHints(t *testing.T) {
	var sayings faulttest.Sayings
	for line, want := range map[string]string{
		"":                                        "no verb is given|ssm run -h",
		"rum -p a":                                `"rum" is no verb|Did you mean ssm run?`,
		"-p a run":                                `"-p" is no verb|The verb comes first`,
		"run -p a -e x":                           "needs -t (--task_name)|Add -t NAME.",
		"run -p a -t b -e w -q":                   `ssm run has no flag "-q"|after "--"`,
		"run -p a -t b -e w -i data Sharded":      `"Sharded" is no distribution|Did you mean ShardedByS3Key?`,
		"run -p a -t b -e w -i data x":            `"x" is no distribution|Use FullyReplicated or ShardedByS3Key.`,
		"run -p a -t b -e w --iit a T1 bogus":     `"bogus" is nothing that a task leaves|Use state, model, source or output.`,
		"run -p a -t b -e w --iit a T1 modle":     `"modle" is nothing that a task leaves|Did you mean model?`,
		"run -p a -t b -e w --ic two":             `"two" is no whole number|--ic 2`,
		"run -p a -t b -e w --md":                 "nothing stands after it|--md NAME REGEX",
		"run -p a -t b -e w --md x y z":           `"z" belongs to no flag|Quote what belongs together`,
		"run -p a -t b -e w --=3":                 `"--=3" names no hyperparameter|Write it as --NAME VALUE.`,
		"run -p a -t b -e w -f jax":               `there is no framework "jax"|Use pytorch or tensorflow.`,
		"run -p a -t b -e w --distribution x":     `--distribution: "x" is no JSON|parameter_server`,
		"run -p a -t b -e w stray":                `stray|`,
		"run -p a -t b -e w --md x":               "one word stands after it|--md NAME REGEX",
		"run -p a -t b -e w -f tensorfow":         `no framework "tensorfow"|Did you mean -f tensorflow?`,
		"run -p a -t b -e w --no_spot=1":          "takes no value|Write --no_spot alone.",
		"process -p a -t b --env NOTMINE":         "NOTMINE is not set here|--env NOTMINE VALUE",
		"--strict run -p a -t b -e w --no_spto 1": `has no flag "--no_spto"|Did you mean --no_spot?`,
		"--strict run -p a -t b -e w --model 1":   `has no flag "--model"|Did you mean --model_uri?`,
	} {
		args, err := split(line)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Read(args, noEnv)
		said, hint, _ := strings.Cut(want, "|")
		sayings.Error(strconv.Quote(line), err)
		if err == nil || !strings.Contains(err.Error(), said) || !strings.Contains(fault.Hint(err), hint) || fault.Exit(err) != fault.ExitUsage {
			t.Errorf("%q: %v\n  %s", line, err, fault.Hint(err))
			continue
		}
		for _, w := range strings.Fields(fault.Hint(err)) {
			w = strings.Trim(w, `.,"'?:`)
			if strings.HasPrefix(w, "-") && w != "--" && w != "--NAME" && !slices.ContainsFunc(Flags(), func(n []string) bool { return slices.Contains(n, w) }) {
				t.Errorf("%q: the hint names %s: ssm has no such flag", line, w)
			}
		}
	}
	sayings.Compare(t, "refusals")
}

func TestHelpNamesEveryFlag(t *testing.T) {
	for _, v := range Verbs {
		page := Help(v)
		for name := range namesOf(v) {
			if !strings.Contains(page, name) {
				t.Errorf("ssm %s -h does not name %s", v, name)
			}
		}
		if !strings.Contains(Help(""), "ssm "+string(v)) {
			t.Errorf("ssm -h does not name %s", v)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add("run\x00-p\x00a\x00-t\x00b\x00-e\x00w.py\x00--lr\x00-0.1\x00--\x00x")
	f.Add("process\x00-p\x00a\x00-t\x00b\x00--env\x00K=V\x00-e\x00bash\x00-\x00-5\x00--x=\x00--=")
	f.Add("--strict\x00data\x00-pa\x00-t=b\x00--download_state\x00-i")
	f.Add("shell\x00-\x00--\x00")
	f.Fuzz(func(t *testing.T, joined string) {
		args := strings.Split(joined, "\x00")
		before := slices.Clone(args)
		c, err := Read(args, noEnv)
		if !slices.Equal(args, before) {
			t.Fatal("the arguments were changed")
		}
		if err != nil {
			if fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
				t.Fatalf("%q: %v has no hint, or is not the caller's mistake", args, err)
			}
			return
		}
		if c.Help {
			return
		}
		if i := slices.Index(args, "--"); i >= 0 && !slices.Equal(c.Words, args[i+1:]) {
			t.Fatalf("%q: the words after -- are %q", args, c.Words)
		}
		given := c.ProgramArgs()
		if !slices.Equal(given[:len(c.Words)], c.Words) {
			t.Fatalf("%q: the program gets %q first", args, given)
		}
		// No hyperparameter's name or value is made up.
		for _, h := range c.Hyperparameters {
			if h.Name == "" || !strings.Contains(joined, "--"+h.Name) || !strings.Contains(joined, h.Value) {
				t.Fatalf("%q: hyperparameter %+v", args, h)
			}
			if namesOf(c.Verb)[canonical("--"+h.Name)] != nil {
				t.Fatalf("%q: the flag --%s is taken for a hyperparameter", args, h.Name)
			}
		}
		again, err := Read(args, noEnv)
		if err != nil || !cmp.Equal(c, again) {
			t.Fatalf("%q is read in two ways", args)
		}
	})
}
