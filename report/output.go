package report

import "time"

// MetricOptions choose metrics and samples. The zero value is all.
type MetricOptions struct {
	Names    []string // of metrics; none: all
	Attempts []int    // none: all
	Nodes    []int    // none: all
}

// Series is one metric of one node in one attempt, by step and then by time.
type Series struct {
	Name    string  `json:"name"`
	Node    int     `json:"node"`
	Attempt int     `json:"attempt"`
	Points  []Point `json:"points"`
}

// Point is one value of a metric. A value that is no number, or infinite, is a gap.
type Point struct {
	Time  time.Time `json:"time"`
	Step  int64     `json:"step"` // what the program said of its step or epoch
	Value float64   `json:"value"`
	// Counted says that it said nothing: the values of that name are counted from 1.
	Counted bool `json:"counted,omitempty"`
}

// NodeUsage is what one node used in one attempt, in the order of time.
type NodeUsage struct {
	Node    int      `json:"node"`
	Attempt int      `json:"attempt"`
	Samples []Sample `json:"samples"`
}

// Sample is what a node's program used at one moment, or since the sample before
// where it is per second. Network and GPUs are those of the whole machine.
type Sample struct {
	Time        time.Time   `json:"time"`
	CPU         float64     `json:"cpu"`                    // cores in use
	Memory      int64       `json:"memory"`                 // bytes
	MemoryLimit int64       `json:"memory_limit,omitempty"` // bytes; 0: none
	Disk        int64       `json:"disk,omitempty"`         // bytes in the job's folders
	DiskRead    int64       `json:"disk_read,omitempty"`    // bytes per second
	DiskWritten int64       `json:"disk_written,omitempty"` // bytes per second
	NetIn       int64       `json:"net_in,omitempty"`       // bytes per second
	NetOut      int64       `json:"net_out,omitempty"`      // bytes per second
	GPU         []GPUSample `json:"gpu,omitempty"`
}

// GPUSample is what one GPU did.
type GPUSample struct {
	Index       int     `json:"index"`
	Util        float64 `json:"util"`   // percent of the time
	Memory      int64   `json:"memory"` // bytes
	MemoryTotal int64   `json:"memory_total,omitempty"`
	Power       float64 `json:"power,omitempty"` // watts
}

// LogOptions choose output. The zero value is everything the program printed.
type LogOptions struct {
	Attempts []int // none: all
	Nodes    []int // none: all
	Stdout   bool  // with Stderr and Agent all false: stdout and stderr
	Stderr   bool
	Agent    bool      // drover's own notes
	Since    time.Time // from this on
	Until    time.Time // before this; zero: to the end
	Tail     int       // Lines and Search: begin with the last so many lines; 0: with the first
	Follow   bool      // go on until the job has settled
	// Item is the number, from 1, of the one item of a map that is wanted, in all its tries; 0: all of
	// them. Nodes mean nothing in a map.
	Item int
	// Enough, when closed, ends a Follow before the job has settled: once all
	// that its agents have stored is given. nil: it is never enough.
	Enough <-chan struct{}
	// Settled, with Follow, is closed by a caller that itself waits for the job's end: then
	// the store is not asked whether it has come. nil: it is.
	Settled <-chan struct{}
}

// Output is a piece of what a program printed, exactly as it was read: it may
// hold half a line or many.
type Output struct {
	Item    int // of a map
	Attempt int
	Node    int
	Stream  string // stdout, stderr or agent
	Time    time.Time
	Data    []byte
}

// Line is one line of a program's output.
type Line struct {
	Item    int       `json:"item,omitempty"` // of a map
	V       int       `json:"v"`
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"`
	Node    int       `json:"node"`
	Stream  string    `json:"stream"`
	Text    string    `json:"text"`
	Match   bool      `json:"match,omitempty"` // Search: it matches; otherwise it is beside one
	Apart   bool      `json:"-"`               // Search: lines before it were left out
}

// PrintOptions are for PrintInOrder.
type PrintOptions struct {
	// Settled is closed when the job has ended, or when it has no agents any more: then
	// what is there is printed, and no more is waited for.
	Settled <-chan struct{}
	// Note is told what could not be printed whole. May be nil.
	Note func(text string)
}
