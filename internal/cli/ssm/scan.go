package ssm

import (
	"slices"
	"strings"
)

// scanner goes through the words of one command line, left to right.
type scanner struct {
	c     *Command
	env   func(string) (string, bool)
	left  []string
	known map[string]*option // by name, dashes and all, _ for - inside
}

func (s *scanner) scanAll() error {
	for len(s.left) > 0 && !s.c.Help {
		if err := s.scanNext(); err != nil {
			return err
		}
	}
	return nil
}

// scanNext takes one flag or hyperparameter with its values.
func (s *scanner) scanNext() error {
	word := s.left[0]
	if o, name, value, has := s.findFlag(word); o != nil {
		s.left = s.left[1:]
		return s.takeValues(o, name, value, has)
	}
	if s.isWord(word) && !assigns(word) {
		return refuse("Quote what belongs together; words for the program come after \"--\".", "%q belongs to no flag", word)
	}
	if !strings.HasPrefix(word, "--") {
		return refuse("ssm "+string(s.c.Verb)+" -h lists the flags; a word for the program comes after \"--\".", "ssm %s has no flag %q", s.c.Verb, word)
	}
	s.left = s.left[1:]
	return s.hyperparameter(word)
}

// hyperparameter takes what begins with -- and is no flag. Its value is what
// stands behind =, or the next word; a word of one dash that is no flag is a
// value too, so that "--name -foo" and "--lr -1e-3" say what they look like.
func (s *scanner) hyperparameter(word string) error {
	h := Hyperparameter{}
	var has bool
	h.Name, h.Value, has = strings.Cut(word[2:], "=")
	if h.Name == "" {
		return refuse("Write it as --NAME VALUE.", "%q names no hyperparameter", word)
	}
	switch {
	case has:
	case len(s.left) > 0 && s.isValue(s.left[0]):
		h.Value, s.left = s.left[0], s.left[1:]
	default:
		h.Bare = true
	}
	same := func(o Hyperparameter) bool { return o.Name == h.Name }
	if i := slices.IndexFunc(s.c.Hyperparameters, same); i >= 0 {
		s.c.addNote("--%s is given twice: the last one counts", h.Name)
		s.c.Hyperparameters[i] = h
		return nil
	}
	s.c.Hyperparameters = append(s.c.Hyperparameters, h)
	return nil
}

// isValue says whether a word can be the value of a hyperparameter.
func (s *scanner) isValue(word string) bool {
	if assigns(word) {
		return false
	}
	if s.isWord(word) {
		return true
	}
	o, _, _, attached := s.findFlag(word)
	return !strings.HasPrefix(word, "--") && (o == nil || attached && !strings.Contains(word[:3], "="))
}

// takeValues gives a flag its values.
func (s *scanner) takeValues(o *option, name, value string, has bool) error {
	s.c.Typed[o.typedKey()] = true
	var values []string
	switch {
	case has && o.most == 0:
		return refuse("Write "+name+" alone.", "%s takes no value", name)
	case has:
		values = []string{value}
	default:
		values = s.valueWords(o)
	}
	if len(values) < o.least || o.most > 0 && len(values) > o.most {
		return refuse("Write it as "+name+" "+o.args+".", "%s: %s", name, counted(len(values)))
	}
	return o.set(s, name, values)
}

// valueWords takes the words that belong to a flag: all up to the next flag where it
// takes a list, and else no more than it can have.
func (s *scanner) valueWords(o *option) []string {
	n := 0
	for n < len(s.left) && s.isWord(s.left[n]) {
		if o.greedy && assigns(s.left[n]) || !o.greedy && n == o.most {
			break
		}
		n++
	}
	if o.typedKey() == "env" && n == 2 && strings.Contains(s.left[0], "=") {
		n = 1
	}
	values := s.left[:n:n]
	s.left = s.left[n:]
	return values
}

// findFlag finds the flag that a word is: its exact name, NAME=VALUE, or the letter
// of a short one with its value behind. nil: none.
func (s *scanner) findFlag(word string) (o *option, name, value string, has bool) {
	if len(word) < 2 || word[0] != '-' {
		return nil, "", "", false
	}
	if o := s.known[canonical(word)]; o != nil {
		return o, word, "", false
	}
	if name, value, ok := strings.Cut(word, "="); ok {
		if o := s.known[canonical(name)]; o != nil {
			return o, name, value, true
		}
	}
	if word[1] != '-' {
		if o := s.known[word[:2]]; o != nil && o.most != 0 {
			return o, word[:2], word[2:], true
		}
	}
	return nil, "", "", false
}

// isWord says whether a word can be a flag's value: argparse's rule. What begins
// with a dash can when it is a number or holds a blank, and is no flag.
func (s *scanner) isWord(word string) bool {
	if word == "" || word == "-" || word[0] != '-' {
		return true
	}
	if o, _, _, _ := s.findFlag(word); o != nil {
		return false
	}
	return negative(word) || strings.Contains(word, " ")
}

// negative says whether a word is a number below zero, as -3, -0.1 and -.5 are.
func negative(word string) bool {
	whole, fraction, dot := strings.Cut(word[1:], ".")
	digits := func(t string) bool { return !strings.ContainsFunc(t, func(r rune) bool { return r < '0' || r > '9' }) }
	if !digits(whole) || !digits(fraction) {
		return false
	}
	return dot && fraction != "" || !dot && whole != ""
}

// assigns says whether a word is --name=value.
func assigns(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && len(name) > 2 && strings.HasPrefix(name, "--") && !strings.ContainsAny(name, " \t\n")
}

// canonical makes one spelling of --max_run_mins and --max-run-mins.
func canonical(name string) string {
	if !strings.HasPrefix(name, "--") {
		return name
	}
	return "--" + strings.ReplaceAll(name[2:], "-", "_")
}
