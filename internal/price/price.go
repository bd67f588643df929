// Package price knows what the makers of stores ask for requests, and what a number of
// them comes to. It refuses to know which requests are made, networks and clocks: prices are a
// table in the code, each with its source and the day it was read, and are those of one
// region. Its tests prove the sums, and that docs/scale.md is what the simulator counted
// at these prices.
package price

import (
	"strings"

	"github.com/drover-run/drover/report"
)

// S3 is Amazon's, the class Standard.
func S3() report.StorePrice {
	return report.StorePrice{Name: "S3", Region: "us-east-1", Writes: 0.005, Lists: 0.005, Reads: 0.0004,
		Source: "https://aws.amazon.com/s3/pricing/", Day: "2026-11-22"}
}

// GCS is Google's, the class Standard in one region: its operations of class A and B.
func GCS() report.StorePrice {
	return report.StorePrice{Name: "GCS", Region: "us-east1", Writes: 0.005, Lists: 0.005, Reads: 0.0004,
		Source: "https://cloud.google.com/storage/pricing", Day: "2026-11-22"}
}

// Of is the one that keeps what a URL names; ok is false for a folder. What is
// compatible with S3 is taken to cost as much.
func Of(url string) (s report.StorePrice, ok bool) {
	switch {
	case strings.HasPrefix(url, "s3://"):
		return S3(), true
	case strings.HasPrefix(url, "gs://"):
		return GCS(), true
	}
	return report.StorePrice{}, false
}
