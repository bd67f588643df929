package where

// matches says whether a glob of * (any letters, or none) and ? (one letter) is the
// whole text.
func matches(glob, text string) bool {
	g, t := []rune(glob), []rune(text)
	at, back, kept := 0, -1, 0 // back: where the last * stands; kept: the text it stands for ends here
	for i := 0; i < len(t); {
		switch {
		case at < len(g) && g[at] == '*':
			back, kept = at, i
			at++
		case at < len(g) && (g[at] == '?' || g[at] == t[i]):
			at++
			i++
		case back >= 0:
			kept++
			at, i = back+1, kept
		default:
			return false
		}
	}
	for at < len(g) && g[at] == '*' {
		at++
	}
	return at == len(g)
}

// overlap says whether there is a text that both globs match: it fills a table of whether
// the ends of both globs, from i and from j, have one.
func overlap(a, b string) bool {
	x, y := []rune(a), []rune(b)
	ends := make([]bool, (len(x)+1)*(len(y)+1))
	at := func(i, j int) int { return i*(len(y)+1) + j }
	for i := len(x); i >= 0; i-- {
		for j := len(y); j >= 0; j-- {
			inX, inY := i < len(x), j < len(y)
			switch {
			case !inX && !inY:
				ends[at(i, j)] = true
			case inX && x[i] == '*' || inY && y[j] == '*': // either stands for nothing, or for the other's next letter
				ends[at(i, j)] = inX && ends[at(i+1, j)] && (x[i] == '*' || inY && y[j] == '*') || inY && ends[at(i, j+1)] && (y[j] == '*' || inX && x[i] == '*')
			case inX && inY:
				ends[at(i, j)] = (x[i] == '?' || y[j] == '?' || x[i] == y[j]) && ends[at(i+1, j+1)]
			}
		}
	}
	return ends[0]
}
