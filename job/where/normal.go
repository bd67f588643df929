package where

import (
	"math"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
)

// Clause are terms that must all be true.
type Clause []Term

// String is the clause as it is typed.
func (c Clause) String() string {
	parts := make([]string, len(c))
	for i, t := range c {
		parts[i] = t.String()
	}
	return strings.Join(parts, " and ")
}

// Normal is the expression as clauses of which one must be true: what most engines have,
// such as the terms of Kubernetes' node affinity. Clauses that no machine can meet are
// left out. The zero Expr is one clause without terms.
func (e Expr) Normal() []Clause {
	all := e.listClauses()
	return slices.DeleteFunc(all, func(c Clause) bool { return c.contradiction() != nil })
}

// listClauses are the disjunctive normal form.
func (e Expr) listClauses() []Clause {
	switch {
	case e.IsZero():
		return []Clause{nil}
	case e.join == single:
		return []Clause{{e.term}}
	}
	var all []Clause
	if e.join == or {
		for _, part := range e.of {
			all = append(all, part.listClauses()...)
		}
		return distinct(all)
	}
	all = []Clause{nil}
	for _, part := range e.of {
		var longer []Clause
		for _, c := range all {
			for _, more := range part.listClauses() {
				longer = append(longer, merged(c, more))
			}
		}
		all = distinct(longer)
	}
	return all
}

// merged are the terms of two clauses, sorted, none twice.
func merged(a, b Clause) Clause {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b Term) int { return strings.Compare(a.String(), b.String()) })
	return slices.CompactFunc(all, func(a, b Term) bool { return a.String() == b.String() })
}

// distinct leaves out clauses that are there already.
func distinct(all []Clause) []Clause {
	seen := map[string]bool{}
	return slices.DeleteFunc(all, func(c Clause) bool {
		text := c.String()
		again := seen[text]
		seen[text] = true
		return again
	})
}

// countClauses is how many clauses the normal form has at most.
func (e Expr) countClauses() int {
	n := 1
	for i, part := range e.of {
		switch {
		case i == 0:
			n = part.countClauses()
		case e.join == or:
			n += part.countClauses()
		default:
			n *= part.countClauses()
		}
		if n > maxClauses {
			return n // not multiplied further
		}
	}
	return n
}

// checkClauses refuses an expression with too many clauses, and one that no machine can meet.
func (e Expr) checkClauses(typed string) error {
	if e.countClauses() > maxClauses {
		return fault.New(fault.Invalid, "Use in and globs in place of or.", "it stands for more than %d alternatives", maxClauses)
	}
	var first []Term
	for _, c := range e.listClauses() {
		against := c.contradiction()
		if against == nil {
			return nil
		}
		if first == nil {
			first = against
		}
	}
	hint := "Leave one of them out."
	if len(first) == 2 && first[0].Op == Equal && first[1].Op == Equal {
		hint = "For one of several, use in: " + (Term{first[0].Name, In, []string{first[0].Values[0], first[1].Values[0]}}).String() + "."
	}
	return fault.New(fault.Invalid, hint, "no machine can be that: %s", Clause(first))
}

// contradiction is terms of the clause that no machine can meet together; nil if none was
// found. Not every one is: two globs with exclusions may leave nothing.
func (c Clause) contradiction() []Term {
	for _, name := range names {
		var own []Term
		for _, t := range c {
			if t.Name == name {
				own = append(own, t)
			}
		}
		if len(own) == 0 {
			continue
		}
		for i := range own { // two that exclude each other say it shortest
			for j := range i {
				if impossible(name, []Term{own[j], own[i]}) {
					return []Term{own[j], own[i]}
				}
			}
		}
		if impossible(name, own) {
			return own
		}
	}
	return nil
}

// impossible says whether no value of a name meets all terms.
func impossible(name Name, terms []Term) bool {
	switch a := abouts[name]; a.kind {
	case text:
		return noText(terms, a.values)
	case texts:
		return noTexts(terms)
	}
	return noNumber(terms)
}

// noText says whether no text meets all terms. all are the values that there are; nil:
// any.
func noText(terms []Term, all []string) bool {
	candidates := all
	for _, t := range terms {
		if t.Op == Equal || t.Op == In {
			candidates = t.Values
		}
	}
	if candidates != nil {
		return !slices.ContainsFunc(candidates, func(v string) bool { return meets(terms, v) })
	}
	for i, t := range terms {
		for _, o := range terms[:i] {
			same := t.Values[0] == o.Values[0]
			switch {
			case t.Op == Match && o.Op == Match && !overlap(t.Values[0], o.Values[0]):
				return true
			case same && (t.Op == Match && o.Op == NotMatch || t.Op == NotMatch && o.Op == Match):
				return true
			}
		}
	}
	return false
}

// meets says whether one text meets all terms.
func meets(terms []Term, value string) bool {
	return !slices.ContainsFunc(terms, func(t Term) bool { return !t.Holds(value) })
}

// noTexts says whether no set of texts meets all terms: one of them wants a text, and the
// others exclude each that it accepts.
func noTexts(terms []Term) bool {
	excluded := slices.DeleteFunc(slices.Clone(terms), func(t Term) bool { return t.Op == Equal || t.Op == In || t.Op == Match })
	for _, t := range terms {
		switch t.Op {
		case Equal, In:
			if !slices.ContainsFunc(t.Values, func(v string) bool { return meets(excluded, v) }) {
				return true
			}
		case Match:
			if slices.ContainsFunc(excluded, func(o Term) bool { return o.Op == NotMatch && o.Values[0] == t.Values[0] }) {
				return true
			}
		}
	}
	return false
}

// noNumber says whether no number of 0 or more meets all terms.
func noNumber(terms []Term) bool {
	least, most := 0.0, math.Inf(1)
	above, below := false, false // whether the bounds themselves are excluded
	var candidates []string
	for _, t := range terms {
		v, _ := t.Name.parseNumber(t.Values[0], 1) // canonical: it is a number
		switch t.Op {
		case Equal, In:
			candidates = t.Values
		case More, AtLeast:
			if strict := t.Op == More; v > least || v == least && strict {
				least, above = v, strict
			}
		case Less, AtMost:
			if strict := t.Op == Less; v < most || v == most && strict {
				most, below = v, strict
			}
		}
	}
	if candidates != nil {
		return !slices.ContainsFunc(candidates, func(v string) bool { return meets(terms, v) })
	}
	return least > most || least == most && (above || below)
}
