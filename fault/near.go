package fault

// Distance is the number of letters to insert, delete, change or swap with a
// neighbour to make b of a: for telling people what they may have meant.
func Distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	d := make([][]int, len(x)+1)
	for i := range d {
		d[i] = make([]int, len(y)+1)
		d[i][0] = i
	}
	for j := range d[0] {
		d[0][j] = j
	}
	for i := 1; i <= len(x); i++ {
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			d[i][j] = min(d[i-1][j]+1, d[i][j-1]+1, d[i-1][j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				d[i][j] = min(d[i][j], d[i-2][j-2]+1)
			}
		}
	}
	return d[len(x)][len(y)]
}

// Nearest is the candidate closest to text, if at most two steps away; "" else.
func Nearest(text string, candidates []string) string {
	best, least := "", 3
	for _, c := range candidates {
		if n := Distance(text, c); n < least {
			best, least = c, n
		}
	}
	return best
}
