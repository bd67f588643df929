package report

import (
	"fmt"
	"math"
	"strings"
)

// Dollars is an amount in US dollars.
type Dollars float64

// String has two digits behind the point, and of what is below a cent two that say
// something: $12.40, $0.01, $0.00032.
func (m Dollars) String() string {
	switch {
	case m < 0:
		return "-" + (-m).String()
	case m == 0:
		return "$0"
	case m >= 0.00995:
		return fmt.Sprintf("$%.2f", float64(m))
	}
	digits := 1 - int(math.Floor(math.Log10(float64(m))))
	return "$" + strings.TrimRight(fmt.Sprintf("%.*f", digits, float64(m)), "0")
}

// StorePrice is what one maker asks for requests, for each thousand. Deleting is free at
// both. What is kept, and what leaves the region, costs besides.
type StorePrice struct {
	Name   string // for people: "S3"
	Region string
	Writes Dollars // PUT, POST and COPY; what creates, and each part of a large object
	Lists  Dollars
	Reads  Dollars // GET and HEAD, of what is not there, too
	Source string
	Day    string // that the source was read, 2006-01-02
}

// Requests is what so many of them come to.
func (s StorePrice) Requests(writes, lists, reads int) Dollars {
	return (s.Writes*Dollars(writes) + s.Lists*Dollars(lists) + s.Reads*Dollars(reads)) / 1000
}
