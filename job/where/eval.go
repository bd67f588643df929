package where

import (
	"fmt"
	"slices"
	"strings"
)

// Truth is what an expression is for a machine of which not all is known.
type Truth int

// The truths, in this order: and is the least of its operands, or the greatest.
const (
	False Truth = iota - 1
	Unknown
	True
)

// String is the truth in lower case.
func (t Truth) String() string { return [...]string{"false", "unknown", "true"}[t+1] }

// Attributes are what is known of a machine: the values of a name. A name that is missing
// is not known; one without values is known to have none, and a number without values is
// 0. Only feature, gpu.name and, where an engine lets a machine have several, type have
// more than one value: == is then true if one of them is equal, and != if none is.
//
// Sizes may be written in bytes or as 64G, GPUs as they are reported.
type Attributes map[Name][]string

// Eval is the expression's truth for a machine. It is Unknown only if a value that is not
// known could make it true and another one false.
func (e Expr) Eval(a Attributes) Truth {
	if e.IsZero() {
		return True
	}
	if e.join == single {
		return e.term.evaluate(a)
	}
	truth := e.of[0].Eval(a)
	for _, part := range e.of[1:] {
		if e.join == and {
			truth = min(truth, part.Eval(a))
		} else {
			truth = max(truth, part.Eval(a))
		}
	}
	return truth
}

// Unmet says in words why the expression is not True for a machine: "cpus >= 64 is asked
// for, and cpus is 8"; "" if it is.
func (e Expr) Unmet(a Attributes) string {
	for _, part := range e.Conjuncts() {
		truth := part.Eval(a)
		if truth == True {
			continue
		}
		var known, unknown []string
		for _, name := range part.Names() {
			switch values, ok := a[name]; {
			case !ok:
				unknown = append(unknown, string(name))
			case len(values) == 0:
				known = append(known, fmt.Sprintf("%s has no value", name))
			default:
				known = append(known, fmt.Sprintf("%s is %s", name, strings.Join(shown(name, values), ", ")))
			}
		}
		if len(unknown) > 0 && truth == Unknown {
			known = []string{strings.Join(unknown, ", ") + " is not known"}
		}
		return fmt.Sprintf("%s is asked for, and %s", part, strings.Join(known, ", "))
	}
	return ""
}

// shown are values in canonical form, at most four of them.
func shown(name Name, values []string) (texts []string) {
	for i, v := range values {
		if i == 4 {
			return append(texts, "...")
		}
		if c, err := name.canonical(v, 1, true); err == nil {
			v = c
		}
		texts = append(texts, v)
	}
	return texts
}

// Holds says whether the term is true of a machine that has this one value under the name.
func (t Term) Holds(value string) bool { return t.evaluate(Attributes{t.Name: {value}}) == True }

// evaluate is a term's truth. A term and its opposite are never both true, nor both false.
func (t Term) evaluate(a Attributes) Truth {
	values, known := a[t.Name]
	if !known {
		return Unknown
	}
	positive, negate := t.Op, false
	if t.Op == NotEqual || t.Op == NotMatch || t.Op == NotIn {
		positive, negate = opposite[t.Op], true
	}
	holds := false
	switch abouts[t.Name].kind {
	case text, texts:
		holds = slices.ContainsFunc(values, func(v string) bool {
			if c, err := t.Name.canonical(v, 1, true); err == nil {
				v = c
			}
			return t.holdsForText(positive, v)
		})
	default:
		is := 0.0
		if len(values) > 0 {
			var ok bool
			if is, ok = t.Name.parseNumber(values[0], 1); !ok {
				return Unknown
			}
		}
		holds = slices.ContainsFunc(t.Values, func(v string) bool { return t.compareNumber(positive, is, v) })
	}
	if holds != negate {
		return True
	}
	return False
}

// holdsForText says whether a text is what the term wants, by a comparison that is ==, in or
// =~.
func (t Term) holdsForText(op Op, value string) bool {
	if op == Match {
		return matches(t.Values[0], value)
	}
	return slices.Contains(t.Values, value)
}

// compareNumber compares a machine's number with a value of the term.
func (t Term) compareNumber(op Op, is float64, value string) bool {
	wanted, _ := t.Name.parseNumber(value, 1) // canonical: it is a number
	switch op {
	case Less:
		return is < wanted
	case AtMost:
		return is <= wanted
	case More:
		return is > wanted
	case AtLeast:
		return is >= wanted
	}
	return is == wanted
}
