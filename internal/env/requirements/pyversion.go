package requirements

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-run/drover/internal/env/tools"
)

// Bound is which Pythons a file allows: "requires-python" and its like.
type Bound struct {
	Spec string // ">=3.9,<3.13"; "" allows all
	At   string // where it stands, for messages
}

// NewBound refuses what no interpreter could meet because it cannot be read.
func NewBound(spec, at string) (Bound, error) {
	b := Bound{strings.TrimSpace(spec), at}
	for _, one := range b.splitClauses() {
		if clauseIs().FindStringSubmatch(one) == nil {
			return b, fmt.Errorf("%q is not a range of the Python versions", one)
		}
	}
	return b, nil
}

func (b Bound) splitClauses() []string {
	return slices.DeleteFunc(strings.Split(strings.ReplaceAll(b.Spec, " ", ""), ","), func(s string) bool { return s == "" })
}

var clauseIs = tools.Compiled(`^(~=|===?|!=|<=?|>=?)v?(\d+(?:\.\d+)*)(\.\*)?(?:(?:a|b|rc|\.?dev|\.?post)\d*)*$`)

// AllowsVersion compares as PEP 440 does. An interpreter says no more of itself than
// 3.11.7, so what a bound says of release candidates is left out.
func (b Bound) AllowsVersion(version string) bool {
	have := Numbers(version)
	for _, one := range b.splitClauses() {
		m := clauseIs().FindStringSubmatch(one)
		if m == nil {
			return false
		}
		want := Numbers(m[2])
		order := CompareNumbers(have, want)
		prefix := CompareNumbers(have[:min(len(have), len(want))], want) == 0
		if m[3] != "" {
			order = map[bool]int{true: 0, false: 1}[prefix]
		}
		var ok bool
		switch m[1] {
		case ">=":
			ok = order >= 0
		case ">":
			ok = order > 0
		case "<=":
			ok = order <= 0
		case "<":
			ok = order < 0
		case "==", "===":
			ok = order == 0
		case "!=":
			ok = order != 0
		case "~=":
			family := want[:max(len(want)-1, 1)]
			ok = order >= 0 && CompareNumbers(have[:min(len(have), len(family))], family) == 0
		}
		if !ok {
			return false
		}
	}
	return true
}

func Numbers(version string) []int {
	var out []int
	for _, s := range strings.Split(version, ".") {
		n, err := strconv.Atoi(s)
		if err != nil {
			break
		}
		out = append(out, n)
	}
	return out
}

// CompareNumbers takes 3.11 and 3.11.0 for the same.
func CompareNumbers(a, b []int) int {
	for len(a) < len(b) {
		a = append(slices.Clip(a), 0)
	}
	for len(b) < len(a) {
		b = append(slices.Clip(b), 0)
	}
	return slices.Compare(a, b)
}
