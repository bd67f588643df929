// Package where is the placement expression of --where: on which machines agents may
// run, in one language for all targets.
//
//	type =~ p3.* and zone != us-east-1a
//	gpu.name in (a100, h100) and not (purchase == spot or memory < 256G)
//
// An expression compares names with values, by == != =~ !~ in < <= > and >=, and joins
// comparisons with and, or, not and parentheses. The value of =~ is a glob for the whole
// text. Some names have other spellings, those of Amazon ECS and of Kubernetes.
//
// A driver either evaluates an expression against what it knows of a machine (Eval), or
// maps its normal form (Normal) to what its engine understands.
//
// The package does no I/O and knows no target. Tables, properties and fuzzing prove it.
package where

import (
	"slices"
	"strings"
)

// Expr is an expression in canonical form: without not, operands sorted, no operand
// twice. The zero Expr accepts every machine. An Expr is never changed.
type Expr struct {
	join join
	of   []Expr // of a join: two or more
	term Term   // without a join
}

// join says how the parts of an expression are joined.
type join int

const (
	single join = iota // one term, or none
	and
	or
)

// Name is what a term compares.
type Name string

// The names. Those of sizes (memory, gpu.memory, disk.local) are in bytes, network is in
// Gbit/s.
const (
	Type      Name = "type"     // of machine, such as p3.2xlarge
	Family    Name = "family"   // of machine types, such as p3
	Zone      Name = "zone"     // such as us-east-1a
	Region    Name = "region"   // such as us-east-1
	Arch      Name = "arch"     // amd64, arm64 ...: Go's names
	CPUs      Name = "cpus"     // of the whole machine, as all numbers and sizes
	Memory    Name = "memory"   //
	GPUName   Name = "gpu.name" // in lower case, without the maker: a100-sxm4-80gb
	GPUCount  Name = "gpu.count"
	GPUMemory Name = "gpu.memory" // of one GPU
	DiskLocal Name = "disk.local" // that only this machine has
	Network   Name = "network"
	Purchase  Name = "purchase" // on-demand, spot or reserved
	Feature   Name = "feature"  // what an administrator says of a machine; a machine has several
	Node      Name = "node"     // the machine's own name
)

// Op is a comparison.
type Op string

// The comparisons. Each has one that is true where it is false.
const (
	Equal    Op = "=="
	NotEqual Op = "!="
	Match    Op = "=~" // the whole text, by a glob of * and ?
	NotMatch Op = "!~"
	In       Op = "in"
	NotIn    Op = "not " + In
	Less     Op = "<"
	AtMost   Op = "<="
	More     Op = ">"
	AtLeast  Op = ">="
)

// opposite is the comparison that is true where another is false.
var opposite = map[Op]Op{Equal: NotEqual, NotEqual: Equal, Match: NotMatch, NotMatch: Match, In: NotIn, NotIn: In,
	Less: AtLeast, AtLeast: Less, More: AtMost, AtMost: More}

// Term is one comparison. It has one value, or two and more with In and NotIn.
type Term struct {
	Name   Name
	Op     Op
	Values []string // in canonical form: sizes as 64G, numbers without zeros that mean nothing
}

// String is the term as it is typed.
func (t Term) String() string {
	text := string(t.Name) + " " + string(t.Op) + " "
	if t.Op != In && t.Op != NotIn {
		return text + quoted(t.Values[0])
	}
	words := make([]string, len(t.Values))
	for i, v := range t.Values {
		words[i] = quoted(v)
	}
	return text + "(" + strings.Join(words, ", ") + ")"
}

// IsZero says whether the expression accepts every machine.
func (e Expr) IsZero() bool { return e.join == single && e.term.Name == "" }

// String is the canonical text, which Parse reads as the same expression.
func (e Expr) String() string {
	switch {
	case e.IsZero():
		return ""
	case e.join == single:
		return e.term.String()
	}
	word := map[join]string{and: " and ", or: " or "}[e.join]
	parts := make([]string, len(e.of))
	for i, part := range e.of {
		parts[i] = part.String()
		if part.join == or {
			parts[i] = "(" + parts[i] + ")"
		}
	}
	return strings.Join(parts, word)
}

// MarshalText writes the canonical text.
func (e Expr) MarshalText() ([]byte, error) { return []byte(e.String()), nil }

// UnmarshalText reads what Parse reads.
func (e *Expr) UnmarshalText(text []byte) (err error) {
	*e, err = Parse(string(text))
	return err
}

// All is the expression that is true where all of these are, or a refusal of a
// contradiction.
func All(exprs ...Expr) (Expr, error) {
	e := joined(and, exprs)
	if err := e.checkClauses(e.String()); err != nil {
		return Expr{}, err
	}
	return e, nil
}

// Conjuncts are the parts that must all be true: the operands of the outermost and, or
// the expression itself. The zero Expr has none.
func (e Expr) Conjuncts() []Expr {
	switch {
	case e.IsZero():
		return nil
	case e.join == and:
		return slices.Clone(e.of)
	}
	return []Expr{e}
}

// Names are the names that the expression compares, sorted.
func (e Expr) Names() (names []Name) {
	if e.join == single && e.term.Name != "" {
		return []Name{e.term.Name}
	}
	for _, part := range e.of {
		names = append(names, part.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// joined is the canonical form of a join: nested joins of the same kind are opened, zero
// operands of and are left out, and one operand alone is itself.
func joined(by join, parts []Expr) Expr {
	var flat []Expr
	for _, part := range parts {
		switch {
		case part.IsZero() && by == and:
		case part.IsZero():
			return Expr{}
		case part.join == by:
			flat = append(flat, part.of...)
		default:
			flat = append(flat, part)
		}
	}
	slices.SortFunc(flat, func(a, b Expr) int { return strings.Compare(a.String(), b.String()) })
	flat = slices.CompactFunc(flat, func(a, b Expr) bool { return a.String() == b.String() })
	switch len(flat) {
	case 0:
		return Expr{}
	case 1:
		return flat[0]
	}
	return Expr{join: by, of: flat}
}

// negated is the expression that is true where e is false.
func negated(e Expr) Expr {
	if e.join == single {
		e.term.Op = opposite[e.term.Op]
		return e
	}
	parts := make([]Expr, len(e.of))
	for i, part := range e.of {
		parts[i] = negated(part)
	}
	return joined(map[join]join{and: or, or: and}[e.join], parts)
}

// quoted is a value as it must be typed: in quotes where it would be read otherwise.
func quoted(v string) string {
	if v != "" && !strings.ContainsFunc(v, func(r rune) bool { return !isWord(r) }) && !isKeyword(v) {
		return v
	}
	if strings.Contains(v, `"`) {
		return "'" + v + "'"
	}
	return `"` + v + `"`
}

// Equal says whether two expressions are the same: their canonical texts are.
func (e Expr) Equal(o Expr) bool { return e.String() == o.String() }
