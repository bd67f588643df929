package ssm

import (
	"fmt"
	"slices"
	"strings"
)

var about = map[Verb]string{
	Run:     "Run a Python or .sh script",
	Shell:   "Run a command line",
	Data:    "Download or clear what a task keeps",
	Process: "Run a processing job: a script, or a program",
}

var usage = map[Verb]string{
	Run:     "ssm run -p PROJECT -t TASK -e FILE [flags] [--NAME VALUE ...] [-- words for the program]",
	Shell:   "ssm shell -p PROJECT -t TASK --cmd_line 'LINE' [flags] [--NAME VALUE ...]",
	Data:    "ssm data -p PROJECT -t TASK [flags]",
	Process: "ssm process -p PROJECT -t TASK --code FILE|--entrypoint WORD... [flags] [-- words for the program]",
}

var examples = map[Verb]string{
	Run: `  ssm run -p vision -t train -e train.py -o ./out --ic 2 --epochs 3
  ssm run -p vision -t test -e test.py --iit m train model -- --verbose`,
	Shell:   `  ssm shell -p vision -t look -o ./out --cmd_line "cat /proc/cpuinfo && uname -a"`,
	Data:    `  ssm data -p vision -t train -o ./out --download_model --download_state`,
	Process: `  ssm process -p vision -t prepare --code prep.py -i ./raw -o ./out --download_output -- --fast`,
}

// Help is the page of a verb; "" gives the first one.
func Help(v Verb) string {
	var b strings.Builder
	if v == "" {
		b.WriteString("The command lines of simple-sagemaker " + Release + ", unchanged\n\n  drover ssm VERB ...   or, by a link to drover that is named ssm: ssm VERB ...\n\n")
		for _, v := range Verbs {
			fmt.Fprintf(&b, "  ssm %-8s %s\n", v, about[v])
		}
		b.WriteString(`
Flags and hyperparameters stand in any order. --NAME VALUE is a hyperparameter when --NAME is
no flag, and so is --NAME alone; what stands after "--" is the program's as it is. Names are
written out, with _ or -. The target is DROVER_ON's or the config's. Exit statuses: 0 completed,
1 failed, 2 the command line is wrong. ssm VERB -h lists the flags; ssm --strict VERB ... refuses
a hyperparameter whose name is nearly that of a flag.
`)
		return b.String()
	}
	fmt.Fprintf(&b, "%s\n\n  %s\n\nExamples\n%s\n", about[v], usage[v], examples[v])
	var groups []string
	for i := range options {
		if o := &options[i]; o.belongsTo(v) && !slices.Contains(groups, o.group) {
			groups = append(groups, o.group)
		}
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s\n", g)
		for i := range options {
			if o := &options[i]; o.group == g && o.belongsTo(v) {
				line := strings.Join(o.names, ", ")
				if o.args != "" {
					line += " " + o.args
				}
				note := ""
				if o.aws {
					note = " (AWS only)"
				}
				if len(line) > 38 {
					line += "\n  " + strings.Repeat(" ", 38)
				}
				fmt.Fprintf(&b, "  %-38s %s%s\n", line, o.text, note)
			}
		}
	}
	return b.String()
}

// Flags are the names of all flags, each group of names as it is typed, for the
// page that explains them.
func Flags() (names [][]string) {
	for i := range options {
		names = append(names, slices.Clone(options[i].names))
	}
	return names
}
