package job

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
)

// Limits are what one node's program may use, all its processes together; zero
// fields are not limited. A job that names cores, memory or GPUs waits until the
// machine has them to spare; one that does not starts at once.
type Limits struct {
	CPUs      float64 `json:"cpus,omitempty" yaml:"cpus,omitempty" jsonschema:"minimum=0,description=Cores for each node: waited for\\, and no more than these are used. Default: no limit"`
	Memory    Bytes   `json:"memory,omitempty" yaml:"memory,omitempty" jsonschema:"description=Memory for each node\\, such as 512M or 16G: waited for\\, and above it the program is ended. Default: no limit"`
	Disk      Bytes   `json:"disk,omitempty" yaml:"disk,omitempty" jsonschema:"description=Disk that each node's folders may fill\\, such as 10G; of a map\\, what files that it fetches may take\\, and outputs that wait. Default: no limit\\, of a map 10G"`
	Processes int     `json:"processes,omitempty" yaml:"processes,omitempty" jsonschema:"minimum=0,description=Processes and threads of each node at once. Default: no limit"`
}

// IsZero says that nothing is limited.
func (l Limits) IsZero() bool { return l == Limits{} }

// Share is what the jobs of one queue may hold of a machine together; zero fields
// are not limited. A job of such a queue that says nothing asks for all of it.
type Share struct {
	CPUs   float64 `json:"cpus,omitempty"`
	Memory Bytes   `json:"memory,omitempty"`
	GPUs   int     `json:"gpus,omitempty"`
}

// Bytes is a size that reads and writes as "512M" in YAML and JSON. Units are
// those of docker and Slurm: K, M, G and T are powers of 1,024; a bare number
// means bytes.
type Bytes int64

const byteUnits = "KMGT"

// String is the shortest exact form: "64M", "1536K", "1000".
func (b Bytes) String() string {
	n, unit := int64(b), ""
	for i := 0; i < len(byteUnits) && n != 0 && n%1024 == 0; i++ {
		n, unit = n/1024, byteUnits[i:i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}

// Words is the size for people: "64 MB", "1.5 GB".
func (b Bytes) Words() string {
	v, unit := float64(b), " B"
	for i := 0; i < len(byteUnits) && math.Abs(v) >= 1024; i++ {
		v, unit = v/1024, " "+byteUnits[i:i+1]+"B"
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + unit
}

// MarshalText writes "64M".
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what ParseBytes reads.
func (b *Bytes) UnmarshalText(text []byte) error {
	v, err := ParseBytes(string(text))
	*b = v
	return err
}

// UnmarshalJSON reads what UnmarshalText reads, and a JSON number of bytes; null
// changes nothing.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if s, err := strconv.Unquote(text); err == nil {
		text = s
	}
	return b.UnmarshalText([]byte(text))
}

// ParseBytes reads "64M", "1.5G", "16GiB", "16 GB" or a bare number of bytes, up
// to 8,000,000 TB.
func ParseBytes(text string) (Bytes, error) {
	body := strings.ToUpper(strings.TrimSpace(text))
	body = strings.TrimSuffix(strings.TrimSuffix(body, "B"), "I")
	scale := 1.0
	if i := strings.IndexByte(byteUnits, last(body)); i >= 0 {
		scale, body = math.Pow(1024, float64(i+1)), body[:len(body)-1]
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(body), 64)
	v = math.Round(v * scale)
	if err != nil || !(v >= 0 && v < 1<<63) || strings.ContainsAny(body, "NIXP_") { // no NaN, no Inf, no hexadecimal
		return 0, fault.New(fault.Invalid, "Write it as 512M, 1.5G or 2T.", "%q is not a size", text)
	}
	return Bytes(v), nil
}

func last(s string) byte {
	if s == "" {
		return ' '
	}
	return s[len(s)-1]
}

// DefaultQueue is the queue of a job that names none.
const DefaultQueue = "default"

func checkLimits(s Spec) error {
	switch {
	case !(s.CPUs >= 0 && s.CPUs <= 10000):
		return fault.New(fault.Invalid, "Use --cpus 0.5 to 10000.", "check job: %v cores", s.CPUs)
	case s.CPUs > 0 && s.CPUs < 0.01:
		return fault.New(fault.Invalid, "Use --cpus 0.1 or more.", "check job: %v cores are less than a hundredth of one", s.CPUs)
	case s.Memory < 0 || s.Disk < 0:
		return fault.New(fault.Invalid, "Use a size such as 512M.", "check job: a limit below zero")
	case s.Memory > 0 && s.Memory < 1<<20:
		return fault.New(fault.Invalid, "Write the unit: --memory "+strconv.FormatInt(int64(s.Memory), 10)+"G.", "check job: a memory limit of %d bytes", int64(s.Memory))
	case s.Disk > 0 && s.Disk < 1<<20:
		return fault.New(fault.Invalid, "Write the unit: --disk "+strconv.FormatInt(int64(s.Disk), 10)+"G.", "check job: a disk limit of %d bytes", int64(s.Disk))
	case s.Processes < 0:
		return fault.New(fault.Invalid, "Use --procs 1 or more.", "check job: %d processes", s.Processes)
	}
	return nil
}

func checkQueue(s Spec) error {
	if s.Priority < -1000 || s.Priority > 1000 {
		return fault.New(fault.Invalid, "Use --priority -1000 to 1000.", "check job: priority %d", s.Priority)
	}
	if err := ValidName("queue", s.Queue); err != nil || s.Now {
		return err
	}
	nodes, share := float64(s.Nodes), s.Share
	switch {
	case share.CPUs > 0 && s.CPUs*nodes > share.CPUs*1.0001:
		return beyondShare(s.Queue, fmt.Sprintf("%g cores", share.CPUs), fmt.Sprintf("%g", s.CPUs*nodes), "cpus")
	case share.Memory > 0 && float64(s.Memory)*nodes > float64(share.Memory):
		return beyondShare(s.Queue, share.Memory.Words()+" of memory", (s.Memory * Bytes(s.Nodes)).Words(), "memory")
	case share.GPUs > 0 && s.GPUs*s.Nodes > share.GPUs:
		return beyondShare(s.Queue, fmt.Sprintf("%d GPUs", share.GPUs), strconv.Itoa(s.GPUs*s.Nodes), "gpus")
	}
	return nil
}

// beyondShare refuses a job that its queue could never let start.
func beyondShare(queue, has, asked, key string) error {
	return fault.New(fault.Invalid, "Ask for less, use another --queue, or raise targets.local.queues."+queue+"."+key+" in the config.",
		"check job: queue %s may use %s in all, and this job asks for %s", queue, has, asked)
}
