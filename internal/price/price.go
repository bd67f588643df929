// Package price knows what the makers of stores ask for requests, and what a number of
// them comes to. It refuses to know which requests are made, networks and clocks: prices are a
// table in the code, each with its source and the day it was read, and are those of one
// region. Its tests prove the sums, and that docs/scale.md is what the simulator counted
// at these prices.
package price

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

// S3 is Amazon's, the class Standard.
func S3() StorePrice {
	return StorePrice{Name: "S3", Region: "us-east-1", Writes: 0.005, Lists: 0.005, Reads: 0.0004,
		Source: "https://aws.amazon.com/s3/pricing/", Day: "2026-11-22"}
}

// GCS is Google's, the class Standard in one region: its operations of class A and B.
func GCS() StorePrice {
	return StorePrice{Name: "GCS", Region: "us-east1", Writes: 0.005, Lists: 0.005, Reads: 0.0004,
		Source: "https://cloud.google.com/storage/pricing", Day: "2026-11-22"}
}

// Of is the one that keeps what a URL names; ok is false for a folder. What is
// compatible with S3 is taken to cost as much.
func Of(url string) (s StorePrice, ok bool) {
	switch {
	case strings.HasPrefix(url, "s3://"):
		return S3(), true
	case strings.HasPrefix(url, "gs://"):
		return GCS(), true
	}
	return StorePrice{}, false
}

// Requests is what so many of them come to.
func (s StorePrice) Requests(writes, lists, reads int) Dollars {
	return (s.Writes*Dollars(writes) + s.Lists*Dollars(lists) + s.Reads*Dollars(reads)) / 1000
}
