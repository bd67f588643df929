package metric

import (
	"bytes"
	"math"
	"strconv"
)

// maxNumber is the longest number, in bytes: a float64 needs 24.
const maxNumber = 64

// number reads the number that b begins with: digits with a point, an exponent
// and a sign, or nan, inf, infinity in any case. n is its length, 0 if there is
// none; whole is true when it is written as an integer.
func number(b []byte) (v float64, n int, whole bool) {
	b = b[:min(len(b), maxNumber+1)]
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		n++
	}
	if n < len(b) && b[n]|0x20 >= 'i' && b[n]|0x20 <= 'n' {
		v, n = word(b, n)
		return v, n, false
	}
	from := n
	n = run(b, n)
	figures := n - from
	whole = true
	if n < len(b) && b[n] == '.' {
		if to := run(b, n+1); to > n+1 || figures > 0 && exponent(b, to) > to {
			figures += to - n - 1
			n, whole = to, false
		}
	}
	if figures == 0 {
		return 0, 0, false
	}
	if to := exponent(b, n); to > n {
		n, whole = to, false
	}
	if n > maxNumber {
		return 0, 0, false
	}
	v, _ = strconv.ParseFloat(string(b[:n]), 64) // out of range: infinite, which is a gap
	return v, n, whole
}

// run is where the digits that begin at n end.
func run(b []byte, n int) int {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		n++
	}
	return n
}

// exponent is where the exponent that begins at n ends; n if there is none.
func exponent(b []byte, n int) int {
	at := n
	if at < len(b) && b[at]|0x20 == 'e' {
		at++
		if at < len(b) && (b[at] == '+' || b[at] == '-') {
			at++
		}
		if to := run(b, at); to > at {
			return to
		}
	}
	return n
}

var infinities = [][]byte{[]byte("infinity"), []byte("inf")}

// word reads nan or inf, behind a sign that ends at n; a length of 0 is neither.
func word(b []byte, n int) (float64, int) {
	if to := n + len("nan"); len(b) >= to && bytes.EqualFold(b[n:to], []byte("nan")) {
		return math.NaN(), to
	}
	for _, w := range infinities {
		if to := n + len(w); len(b) >= to && bytes.EqualFold(b[n:to], w) {
			sign := 1
			if b[0] == '-' {
				sign = -1
			}
			return math.Inf(sign), to
		}
	}
	return 0, 0
}

// digits reads an unsigned number of at most 15 digits.
func digits(b []byte) (v int64, n int, ok bool) {
	for n < len(b) && b[n] >= '0' && b[n] <= '9' {
		if n == 15 {
			return 0, 0, false
		}
		v, n = 10*v+int64(b[n]-'0'), n+1
	}
	return v, n, n > 0
}

// ended is true when a number may end before rest: 1.2.3, 12:30, 3s, 0x1f,
// 2024-01-02, 1,000 and 3/4 are no numbers.
func ended(rest []byte) bool {
	if len(rest) == 0 {
		return true
	}
	next := byte(' ')
	if len(rest) > 1 {
		next = rest[1]
	}
	switch rest[0] {
	case ' ', '\t', ';', ')', ']', '}', '|', '"', '\'':
		return true
	case ',':
		return next < '0' || next > '9'
	case '.':
		return next == ' ' || next == '\t'
	}
	return false
}
