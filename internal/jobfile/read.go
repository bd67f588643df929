package jobfile

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job"
)

// The YAML library's own decoder is not used: it makes 2 of nodes: 2.7 and 0.1
// of an argument 0.10, and says "Go struct field" to people that know no Go.

// readValue reads node into v, which belongs to the field of that name.
func (p page) readValue(node ast.Node, v reflect.Value, field string) error {
	switch v.Addr().Interface().(type) {
	case *job.Duration:
		return p.readDuration(node, v, field)
	case *job.Bytes:
		return p.readSize(node, v, field)
	}
	switch v.Kind() {
	case reflect.String:
		return p.readText(node, v, field)
	case reflect.Int:
		return p.readNumber(node, v, field)
	case reflect.Float64:
		return p.readDecimal(node, v, field)
	case reflect.Bool:
		return p.readBool(node, v, field)
	case reflect.Struct:
		return p.readFields(node, v, field)
	case reflect.Slice:
		return p.readList(node, v, field)
	case reflect.Map:
		return p.readTable(node, v, field)
	}
	return fault.New(fault.Bug, "", "read job file: %s: field %q has an unsupported kind: %s", p.name, field, v.Type())
}

// readFields reads a table with the fields of a struct as keys. field is "" for
// the job itself.
func (p page) readFields(node ast.Node, v reflect.Value, field string) error {
	whole := "the job"
	if field != "" {
		whole = strconv.Quote(field)
	}
	pairs, ok := pairsOf(node)
	if !ok {
		return p.shapeError(node, whole, "fields such as "+fieldsOf(v.Type())[0].name+": value", "")
	}
	known := fieldsOf(v.Type())
	lines := map[string]int{}
	for _, pair := range pairs {
		key := pair.Key.GetToken()
		i := indexOf(known, key.Value)
		if i < 0 {
			return p.faultAt(key, namesHint(known, key.Value), "unknown field %q", clip(key.Value))
		}
		if first, ok := lines[key.Value]; ok {
			return p.duplicateKeyError(key, first)
		}
		lines[key.Value] = key.Position.Line
		if empty(pair.Value) {
			continue
		}
		known[i].given = true
		if err := p.readValue(pair.Value, v.FieldByIndex(known[i].index), key.Value); err != nil {
			return err
		}
	}
	for _, f := range known {
		if f.required && !f.given {
			return p.faultAt(beginning(node, pairs), fmt.Sprintf("Add the line %s: and what it is.", f.name), "%s has no %q", whole, f.name)
		}
	}
	return nil
}

// readList reads a sequence.
func (p page) readList(node ast.Node, v reflect.Value, field string) error {
	sequence, ok := node.(*ast.SequenceNode)
	if !ok {
		return p.shapeError(node, strconv.Quote(field), "a list", fmt.Sprintf("Write a list: %s: [a, b].", field))
	}
	v.Set(reflect.MakeSlice(v.Type(), len(sequence.Values), len(sequence.Values)))
	for i, one := range sequence.Values {
		if err := p.readElement(one, v.Index(i), field, sequence.GetToken()); err != nil {
			return err
		}
	}
	return nil
}

// readTable reads a mapping with keys that the person chooses.
func (p page) readTable(node ast.Node, v reflect.Value, field string) error {
	pairs, ok := pairsOf(node)
	if !ok {
		return p.shapeError(node, strconv.Quote(field), "names and values", fmt.Sprintf("Write one to a line below %s:, such as NAME: value.", field))
	}
	v.Set(reflect.MakeMapWithSize(v.Type(), len(pairs)))
	lines := map[string]int{}
	for _, pair := range pairs {
		key := pair.Key.GetToken()
		if first, ok := lines[key.Value]; ok {
			return p.duplicateKeyError(key, first)
		}
		lines[key.Value] = key.Position.Line
		one := reflect.New(v.Type().Elem()).Elem()
		if err := p.readElement(pair.Value, one, field, key); err != nil {
			return err
		}
		v.SetMapIndex(reflect.ValueOf(key.Value), one)
	}
	return nil
}

// readElement reads one value of a list or table. Text there is words of a command
// line: numbers and booleans are taken as they were typed, 0.10 as 0.10.
func (p page) readElement(node ast.Node, v reflect.Value, field string, at *token.Token) error {
	if empty(node) {
		if node != nil {
			at = node.GetToken()
		}
		return p.faultAt(at, `For empty text write "".`, "%q holds nothing here", field)
	}
	if v.Kind() == reflect.String {
		if typed, ok := plain(node); ok {
			v.SetString(typed)
			return nil
		}
	}
	return p.readValue(node, v, field)
}

// readText reads text.
func (p page) readText(node ast.Node, v reflect.Value, field string) error {
	text, ok := textOf(node)
	if !ok {
		hint := ""
		if typed, ok := plain(node); ok {
			hint = fmt.Sprintf("Put quotes around it: %s: %q.", field, clip(typed))
		}
		return p.shapeError(node, strconv.Quote(field), "text", hint)
	}
	v.SetString(text)
	return nil
}

// readNumber reads a whole number in decimal digits.
func (p page) readNumber(node ast.Node, v reflect.Value, field string) error {
	if integer, ok := node.(*ast.IntegerNode); ok && integer.Token.Type == token.IntegerType {
		if n, err := strconv.Atoi(integer.Token.Value); err == nil {
			v.SetInt(int64(n))
			return nil
		}
	}
	return p.shapeError(node, strconv.Quote(field), "a whole number", fmt.Sprintf("Write it in digits: %s: 2.", field))
}

// readDecimal reads a number that may have a fraction.
func (p page) readDecimal(node ast.Node, v reflect.Value, field string) error {
	if typed, ok := plain(node); ok {
		if f, err := strconv.ParseFloat(typed, 64); err == nil && !strings.ContainsAny(typed, "xXpP_iInN") {
			v.SetFloat(f)
			return nil
		}
	}
	return p.shapeError(node, strconv.Quote(field), "a number", fmt.Sprintf("Write it in digits: %s: 0.5.", field))
}

// readBool reads true or false.
func (p page) readBool(node ast.Node, v reflect.Value, field string) error {
	b, ok := node.(*ast.BoolNode)
	if !ok {
		return p.shapeError(node, strconv.Quote(field), "true or false", fmt.Sprintf("Write %s: true.", field))
	}
	v.SetBool(b.Value)
	return nil
}

// readDuration reads a length of time: text such as 90s, or a number of seconds.
func (p page) readDuration(node ast.Node, v reflect.Value, field string) error {
	d, err := job.ParseDuration(typed(node))
	if err != nil {
		return p.shapeError(node, strconv.Quote(field), "a length of time", "Write it as 90s, 15m, 2h or 1d.")
	}
	v.SetInt(int64(d))
	return nil
}

// readSize reads a number of bytes, such as 512M.
func (p page) readSize(node ast.Node, v reflect.Value, field string) error {
	b, err := job.ParseBytes(typed(node))
	if err != nil {
		return p.shapeError(node, strconv.Quote(field), "a size", "Write it as 512M, 1.5G or 2T.")
	}
	v.SetInt(int64(b))
	return nil
}

// typed gives a scalar as it was typed, "" for what is none.
func typed(node ast.Node) string {
	if text, ok := textOf(node); ok {
		return text
	}
	text, _ := plain(node)
	return text
}

// shapeError refuses a value of the wrong shape.
func (p page) shapeError(node ast.Node, whole, want, hint string) error {
	return p.faultAt(node.GetToken(), hint, "%s wants %s, got %s", whole, want, shape(node))
}

// duplicateKeyError refuses a key that was there before.
func (p page) duplicateKeyError(key *token.Token, first int) error {
	return p.faultAt(key, "Keep one of them.", "%q stands here again, after line %d", clip(key.Value), first)
}

// shape names a value as its author would.
func shape(node ast.Node) string {
	switch node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "fields"
	case *ast.SequenceNode:
		return "a list"
	}
	if text, ok := textOf(node); ok {
		return strconv.Quote(clip(strings.TrimSuffix(text, "\n")))
	}
	if typed, ok := plain(node); ok {
		return clip(typed)
	}
	return "nothing"
}

// textOf gives the text of a scalar that YAML takes for text.
func textOf(node ast.Node) (string, bool) {
	switch n := node.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	}
	return "", false
}

// plain gives a number or boolean as it was typed.
func plain(node ast.Node) (string, bool) {
	switch node.(type) {
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return node.GetToken().Value, true
	}
	return "", false
}

// empty says whether nothing was written: the same as leaving the field out.
func empty(node ast.Node) bool {
	if node == nil {
		return true
	}
	_, null := node.(*ast.NullNode)
	return null
}

// pairsOf gives the keys and values of a table in the order written.
func pairsOf(node ast.Node) ([]*ast.MappingValueNode, bool) {
	switch n := node.(type) {
	case *ast.MappingNode:
		return n.Values, true
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}, true
	}
	return nil, false
}

// beginning is where a table starts: at its first key, for the token of a block
// is the colon behind it.
func beginning(node ast.Node, pairs []*ast.MappingValueNode) *token.Token {
	if len(pairs) > 0 {
		return pairs[0].Key.GetToken()
	}
	return node.GetToken()
}
