package report

import (
	"cmp"
	"math"
	"slices"
)

// Spread is how a figure differs between the items of a map: how many have it, its
// ends, and counts in narrow buckets, from which Quantile tells the rest within 2 %.
// It takes a few kilobytes, whatever the number of items, and two of them merge.
type Spread struct {
	Count int     `json:"count"`
	Sum   float64 `json:"sum"`
	Min   float64 `json:"min"`
	Max   float64 `json:"max"`
	// MaxItem is the item that has Max; of several the first.
	MaxItem int `json:"max_item"`
	// Buckets count values by their logarithm: v is in the one that bucket names.
	Buckets map[int]int `json:"buckets"`
}

const (
	// bucketGrowth is from a bucket's lower end to its upper one: 700 of them reach
	// from a microsecond to a week.
	bucketGrowth = 1.04
	leastValue   = 1e-9 // what is smaller is as good as nothing
)

func bucket(v float64) int {
	return int(math.Floor(math.Log(max(v, leastValue)) / math.Log(bucketGrowth)))
}

// middle is the value that stands for those of a bucket.
func middle(bucket int) float64 { return math.Pow(bucketGrowth, float64(bucket)+0.5) }

// AddValue takes the value of an item in.
func (s *Spread) AddValue(v float64, item int) {
	if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return
	}
	s.MergeSpread(Spread{Count: 1, Sum: v, Min: v, Max: v, MaxItem: item})
	if s.Buckets == nil {
		s.Buckets = map[int]int{}
	}
	s.Buckets[bucket(v)]++
}

// MergeSpread takes the values of other items in.
func (s *Spread) MergeSpread(o Spread) {
	if o.Count == 0 {
		return
	}
	if s.Count == 0 || o.Min < s.Min {
		s.Min = o.Min
	}
	if s.Count == 0 || o.Max > s.Max || o.Max == s.Max && o.MaxItem < s.MaxItem {
		s.Max, s.MaxItem = o.Max, o.MaxItem
	}
	s.Count, s.Sum = s.Count+o.Count, s.Sum+o.Sum
	if s.Buckets == nil && len(o.Buckets) > 0 {
		s.Buckets = map[int]int{}
	}
	for b, n := range o.Buckets {
		s.Buckets[b] += n
	}
}

// Quantile is the value that a share of the items do not exceed: 0.5 is the median.
// 0 without items.
func (s Spread) Quantile(share float64) float64 {
	rank, seen := int(math.Ceil(share*float64(s.Count))), 0
	for _, b := range s.sortedBuckets() {
		if seen += s.Buckets[b]; seen >= max(rank, 1) {
			return min(max(middle(b), s.Min), s.Max)
		}
	}
	return s.Max
}

func (s Spread) sortedBuckets() []int {
	all := make([]int, 0, len(s.Buckets))
	for b := range s.Buckets {
		all = append(all, b)
	}
	slices.SortFunc(all, cmp.Compare[int])
	return all
}

// Bar is a part of a histogram: the items with a value up to UpTo, and above the bar
// before.
type Bar struct {
	UpTo  float64 `json:"up_to"`
	Items int     `json:"items"`
}

// Histogram is at most n bars from the least value to the greatest, each reaching as
// many times further than the one before it. All items alike are one bar.
func (s Spread) Histogram(n int) []Bar {
	if s.Count == 0 || n < 1 {
		return nil
	}
	lo := math.Log(max(s.Min, leastValue))
	width := math.Log(max(s.Max, leastValue)) - lo
	if n = min(n, int(math.Ceil(width/math.Log(bucketGrowth)))); n <= 1 {
		return []Bar{{s.Max, s.Count}}
	}
	bars := make([]Bar, n)
	for i := range bars {
		bars[i].UpTo = math.Exp(lo + width*float64(i+1)/float64(n))
	}
	bars[n-1].UpTo = s.Max
	for b, items := range s.Buckets {
		at := int((math.Log(middle(b)) - lo) / width * float64(n))
		bars[min(max(at, 0), n-1)].Items += items
	}
	return bars
}
