package amazon

import "strings"

// TagText makes a text fit for a tag.
func TagText(s string, most int) string {
	runes := []rune(strings.Map(func(r rune) rune {
		if strings.ContainsRune(" _.:/=+-@", r) || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '_'
	}, s))
	return string(runes[:min(len(runes), most)])
}
