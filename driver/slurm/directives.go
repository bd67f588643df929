package slurm

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/fault"
)

// mark is what a line for sbatch begins with.
const mark = "#SBATCH"

// Directives reads the #SBATCH lines at a script's head, up to its first command, with sbatch's own
// rules of quoting. It gives options in their long form, each in one word. Options that n has
// already, and those for things that drover itself decides, are not used: both are in Left. It
// refuses what sbatch would refuse, and what no job of drover's can be.
func Directives(head []byte, n driver.Needs) (driver.Said, error) {
	said := driver.Said{Mark: mark}
	words, err := marked(head)
	if err != nil {
		return said, err
	}
	asked, err := options(words)
	if err != nil {
		return said, err
	}
	own := needArgs(n)
	if typed, err := options(longArgs(n.Args)); err == nil { // Offer reports an error in it
		own = append(own, typed...)
	}
	var whys []string
	left := map[string]string{}
	leave := func(o, why string) {
		if left[why] == "" {
			whys = append(whys, why)
		}
		left[why] += o + " "
	}
	for _, o := range asked {
		name, value, _ := strings.Cut(o, "=")
		switch {
		case name == "--array":
			said.Many = many(value)
			leave(o, "drover map has its items from --from.")
		case slices.Contains(impossible, name):
			return said, fault.New(fault.Invalid, hintOf(name), "read %s %s: drover cannot do that", mark, o)
		case name == "--nodes":
			if said.Nodes, err = nodes(value); err != nil {
				return said, err
			}
			if value != strconv.Itoa(said.Nodes) {
				leave(o, "A job has a fixed number of nodes, here the least.")
			}
		case slices.Contains(byItself, name):
			leave(o, "drover does this itself.")
		case hintOf(name) != "":
			leave(o, hintOf(name))
		case slices.Contains(own, o):
		case slices.ContainsFunc(own, func(have string) bool { return kin(have) == kin(o) }):
			leave(o, "The command or the config says otherwise.")
		default:
			said.Args = append(said.Args, o)
		}
	}
	for _, why := range whys {
		said.Left = append(said.Left, strings.TrimSpace(left[why])+": "+why)
	}
	return said, nil
}

var (
	// impossible are options without which a job would be another one.
	impossible = []string{"--dependency", "--hold"}
	// byItself are options for things that drover always decides.
	byItself = []string{"--requeue", "--no-requeue", "--comment"}
	// kins are options that say one thing in several ways: one of them in the command replaces
	// all of them in the script.
	kins = [][]string{{"--mem", "--mem-per-cpu", "--mem-per-gpu"}, {"--gres", "--gpus", "--gpus-per-node", "--gpus-per-task", "--gpus-per-socket"}}
)

// kin is the group that an option belongs to.
func kin(option string) string {
	name, _, _ := strings.Cut(option, "=")
	for _, k := range kins {
		if slices.Contains(k, name) {
			return k[0]
		}
	}
	return name
}

// hintOf is the option of drover's to use in place of an option; "": sbatch gets the option.
func hintOf(name string) string {
	for _, t := range taken {
		if slices.Contains(t.names, name) {
			return t.hint
		}
	}
	return ""
}

// many is the refusal of an array as one program.
func many(tasks string) error {
	tasks, most, _ := strings.Cut(tasks, "%")
	from := "0-99"
	if first, last, ok := strings.Cut(tasks, "-"); ok && digits(first) && digits(last) {
		from = tasks
	}
	typed := "drover map --from " + from
	if digits(most) {
		typed += " --workers " + most
	}
	return fault.New(fault.Invalid, "Use "+fault.Mark(typed+" -- SCRIPT {}")+": the script gets the number as an argument.", "read %s --array=%s: a run is one program, not an array", mark, tasks)
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// nodes is the least of --nodes=2 or --nodes=2-4.
func nodes(value string) (int, error) {
	least, _, _ := strings.Cut(value, "-")
	n, err := strconv.Atoi(least)
	if err != nil || n < 1 {
		return 0, fault.New(fault.Invalid, "Write it as `--nodes=2`.", "read %s --nodes=%s: it is not a number of nodes", mark, value)
	}
	return n, nil
}

// marked are the words of the #SBATCH lines.
func marked(head []byte) (words []string, err error) {
	for line := range strings.Lines(string(head)) {
		rest, ok := strings.CutPrefix(line, mark)
		if ok {
			if words, err = split(words, rest); err != nil {
				return nil, err
			}
		} else if text := strings.TrimSpace(line); text != "" && text[0] != '#' {
			break
		}
	}
	return words, nil
}

// split adds a line's words as sbatch sees them: \ stands before any character, also
// within quotes, but does not keep words together; # outside of quotes ends the line.
func split(words []string, line string) ([]string, error) {
	var word strings.Builder
	var quote rune
	begun, escaped := false, false
	end := func() {
		if begun {
			words = append(words, word.String())
		}
		word.Reset()
		begun = false
	}
scan:
	for _, c := range line {
		switch {
		case quote == 0 && unicode.IsSpace(c):
			end()
			escaped = false
		case escaped:
			word.WriteRune(c)
			escaped = false
		case c == '\\':
			begun, escaped = true, true
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && c == '#':
			break scan
		case quote == 0 && (c == '"' || c == '\''):
			quote, begun = c, true
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	end()
	if quote != 0 || strings.ContainsAny(strings.Join(words, ""), "\x00\n") {
		return nil, fault.New(fault.Invalid, "Close the quote on the same line.", "read %s%s: a quote is open at its end, or there is a NUL", mark, strings.TrimRight(line, "\r\n"))
	}
	return words, nil
}

// The options of sbatch that are no word and a value: those with none, those with
// a value behind = or not at all, and the letters.
var (
	bare = []string{"--contiguous", "--help", "--hold", "--ignore-pbs", "--no-requeue", "--overcommit", "--oversubscribe", "--share", "--parsable",
		"--quiet", "--reboot", "--requeue", "--spread-job", "--test-only", "--usage", "--use-min-nodes", "--verbose", "--version", "--wait"}
	maybe = []string{"--exclusive", "--get-user-env", "--nice", "--no-kill", "--propagate"}
	long  = map[byte]string{'A': "--account", 'a': "--array", 'B': "--extra-node-info", 'b': "--begin", 'C': "--constraint", 'c': "--cpus-per-task",
		'D': "--chdir", 'd': "--dependency", 'e': "--error", 'F': "--nodefile", 'G': "--gpus", 'H': "--hold", 'h': "--help", 'i': "--input",
		'J': "--job-name", 'k': "--no-kill", 'L': "--licenses", 'M': "--clusters", 'm': "--distribution", 'N': "--nodes", 'n': "--ntasks",
		'O': "--overcommit", 'o': "--output", 'p': "--partition", 'Q': "--quiet", 'q': "--qos", 'S': "--core-spec", 's': "--oversubscribe",
		't': "--time", 'u': "--usage", 'V': "--version", 'v': "--verbose", 'W': "--wait", 'w': "--nodelist", 'x': "--exclude"}
)

// whole is the full name of an option: sbatch accepts a beginning that only one option has, so --arr
// is --array. The name of an option that this package does not know is given back.
func whole(name string) string {
	known := slices.Concat(bare, maybe, slices.Collect(maps.Values(long)))
	for _, t := range taken {
		known = append(known, t.names...)
	}
	slices.Sort(known)
	known = slices.Compact(known)
	if len(name) < 4 || slices.Contains(known, name) {
		return name
	}
	known = slices.DeleteFunc(known, func(k string) bool { return !strings.HasPrefix(k, name) })
	if len(known) != 1 {
		return name
	}
	return known[0]
}

// options makes long options of words, each with its value after =.
func options(words []string) (all []string, err error) {
	for i := 0; i < len(words); i++ {
		name, value, valued := strings.Cut(words[i], "=")
		more := "" // letters behind one that has no value
		if len(words[i]) > 1 && words[i][0] == '-' && words[i][1] != '-' {
			name, value, valued = long[words[i][1]], words[i][2:], len(words[i]) > 2
			if slices.Contains(bare, name) && valued {
				more, valued = "-"+value, false
			}
		}
		name = whole(name)
		if len(name) < 3 || name[:2] != "--" {
			return nil, fault.New(fault.Invalid, "See man sbatch.", "read %s lines: %q is not an option of sbatch", mark, words[i])
		}
		switch {
		case slices.Contains(bare, name) || valued || slices.Contains(maybe, name):
		case i+1 == len(words):
			return nil, fault.New(fault.Invalid, "Write it as "+name+"=VALUE.", "read %s lines: %s lacks a value", mark, name)
		default:
			i++
			value, valued = words[i], true
		}
		if valued {
			name += "=" + value
		}
		all = append(all, name)
		if more != "" {
			words[i], i = more, i-1
		}
	}
	return all, nil
}
