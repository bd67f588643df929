package contract

import (
	"bytes"
	"encoding/json"
	"io"
	"strconv"
	"strings"
)

// Hyperparameters reads a script's arguments the way most scripts do, best
// effort: "--epochs 3", "--lr=.1", "-x 1", and "--verbose" alone, which is true.
// A value is what its JSON says, or else the text: as SageMaker's toolkit types
// them. Numbers are json.Number, written as Python writes them: 1.0 stays 1.0, and
// 1e-3 is 0.001. The last of two wins. What is no flag is passed over, and
// everything behind "--". Never nil.
//
// Names that SageMaker's SDK keeps for itself (sagemaker_...) are like any other:
// there no user types them, here a user that does means the script.
func Hyperparameters(args []string) map[string]any {
	values := map[string]any{}
	for name, text := range flags(args) {
		values[name] = decode(text)
	}
	return values
}

// hasHyperparameters says whether the hyperparameters were given apart from the arguments. In a
// job of simple-sagemaker they always are: what it hands on behind "--" is none.
func (f Facts) hasHyperparameters() bool { return f.Hyperparameters != nil || f.SSM }

// hyperparameterValues are the hyperparameters as a script finds them in SM_HPS.
func (f Facts) hyperparameterValues() map[string]any {
	if !f.hasHyperparameters() {
		return Hyperparameters(f.Args)
	}
	values := map[string]any{}
	for name, text := range f.Hyperparameters {
		values[name] = text
	}
	return values
}

// StoredHyperparameters are the hyperparameters as SageMaker stores them. A user that gives them by name has
// its SDK send each as JSON: the text 1 is "\"1\"" there, so that the toolkit reads
// text again and not a number.
func (f Facts) StoredHyperparameters() map[string]string {
	if !f.hasHyperparameters() {
		return flags(f.Args)
	}
	texts := map[string]string{}
	for name, text := range f.Hyperparameters {
		texts[name] = compact(text)
	}
	return texts
}

// flags finds flags and the text of their values.
func flags(args []string) map[string]string {
	found := map[string]string{}
	for i := 0; i < len(args) && args[i] != "--"; i++ {
		name, value, ok := flag(args[i])
		switch {
		case !ok:
		case strings.Contains(args[i], "="):
			found[name] = value
		case i+1 < len(args) && isValue(args[i+1]):
			i++
			found[name] = args[i]
		default:
			found[name] = "true"
		}
	}
	return found
}

// flag splits "--name", "-name" and "--name=value". A number is none: -1 and
// -.5 are values.
func flag(arg string) (name, value string, ok bool) {
	body, ok := strings.CutPrefix(arg, "-")
	if !ok {
		return "", "", false
	}
	name, value, _ = strings.Cut(strings.TrimPrefix(body, "-"), "=")
	letters := "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if strings.Trim(name, letters+"0123456789.-") != "" || strings.IndexAny(name, letters) != 0 {
		return "", "", false
	}
	return name, value, true
}

func isValue(arg string) bool {
	_, _, ok := flag(arg)
	return !ok && arg != "--"
}

// decode reads text as JSON if it is some. Text that would hold a NUL stays as
// it is: no variable could carry it.
func decode(text string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return text
	}
	if _, err := d.Token(); err != io.EOF {
		return text
	}
	if s, ok := v.(string); ok && strings.ContainsRune(s, 0) {
		return text
	}
	return asPython(v)
}

// asPython writes the numbers in v as Python does that read them: the toolkit
// decodes all and writes them anew, so a script sees 0.001 for 1e-3. Those beyond
// a double stay as they are: Python's "Infinity" is no JSON.
func asPython(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name := range v {
			v[name] = asPython(v[name])
		}
	case []any:
		for i := range v {
			v[i] = asPython(v[i])
		}
	case json.Number:
		return number(v)
	}
	return v
}

func number(n json.Number) json.Number {
	if !strings.ContainsAny(n.String(), ".eE") { // an integer of any size
		if n == "-0" {
			return "0"
		}
		return n
	}
	value, err := n.Float64()
	if err != nil {
		return n
	}
	short := strconv.FormatFloat(value, 'e', -1, 64)
	_, exponent, _ := strings.Cut(short, "e")
	if e, err := strconv.Atoi(exponent); err != nil || e < -4 || e >= 16 { // where Python turns to exponents
		return json.Number(short)
	}
	plain := strconv.FormatFloat(value, 'f', -1, 64)
	if !strings.Contains(plain, ".") {
		plain += ".0"
	}
	return json.Number(plain)
}

// compact is v as JSON the way the toolkit writes it: no blanks, sorted keys,
// nothing but ASCII, so that no locale can spoil it.
func compact(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic("contract: " + err.Error()) // only our own shapes and decoded JSON come here
	}
	return ascii(strings.TrimSuffix(b.String(), "\n"))
}
