package ssm

// Difference is one way in which a command line is read other than the tool reads
// it. There are no others: the test that holds the tool's own answers fails on one.
type Difference struct {
	Name   string // for the test
	Line   string // an example, behind the verb and what it needs
	Tool   string // what the tool makes of it
	Here   string
	Reason string
}

// Differences are all of them, in the order of docs/coming-from-ssm.md.
var Differences = []Difference{
	{"abbreviation", "--model gpt2", "sets --model_uri; --task 3 renames the task; --download x is ambiguous",
		"a hyperparameter, and a note", "a flag that is guessed from its beginning takes names from hyperparameters, and other ones with each release"},
	{"assignment", "--lr=0.1 --wd=0.2", "one hyperparameter named lr=0.1, with the value --wd=0.2",
		"two hyperparameters", "the first is never meant"},
	{"bare", "--flagonly", "an AssertionError; two of them are one with the other as its value",
		"a hyperparameter without a value, handed over as it is", "programs have switches"},
	{"dash-value", "--name -foo", "reads -foo as -f oo",
		"-foo is the value", "short flags count where they are typed by themselves"},
	{"torn", "--epochs -o out 3", "epochs is 3: what is no flag is gathered, wherever it stands",
		"an error: 3 belongs to no flag", "a value stands behind its name"},
	{"blank-name", "'--two words' 3", "a hyperparameter named \"two words\"",
		"an error: the word belongs to no flag", "it is a quotation mark in the wrong place"},
	{"dashes", "--task-name a", "a hyperparameter named task-name",
		"the flag --task_name", "_ and - are one letter in the names of flags"},
	{"distribution", "-i data Sharded", "accepted: only looked at when a SUBDIR follows",
		"an error that names the two there are", "the slip shows after the machines have started"},
	{"any-address", "--iis persons file:///data/persons.json", "an error: no s3 path",
		"read: a path, file://, http:// or https://", "data lies elsewhere too"},
	{"env", "--env NAME=VALUE, --env NAME", "an error: two words are expected (ssm process)",
		"read; NAME alone copies the caller's", "as docker does"},
	{"before-verb", "--strict run ...", "words before the verb are hyperparameters when they come out even",
		"an error; --strict alone is taken there", "a verb that is not the first word is a slip, and --strict takes no name behind the verb"},
}
