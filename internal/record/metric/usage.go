package metric

import (
	"encoding/json"
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/drover-run/drover/internal/record"
)

// Sample is what a node's part of a job used at one moment, or since the sample
// before where it says per second.
type Sample struct {
	Time        time.Time   `json:"time,omitzero"`
	CPU         float64     `json:"cpu"`                    // cores in use
	Memory      int64       `json:"memory"`                 // bytes
	MemoryLimit int64       `json:"memory_limit,omitempty"` // bytes; 0: none
	DiskRead    int64       `json:"disk_read,omitempty"`    // bytes per second
	DiskWritten int64       `json:"disk_written,omitempty"` // bytes per second
	NetIn       int64       `json:"net_in,omitempty"`       // bytes per second
	NetOut      int64       `json:"net_out,omitempty"`      // bytes per second
	Disk        int64       `json:"disk,omitempty"`         // bytes in the job's folders
	GPU         []GPUSample `json:"gpu,omitempty"`
}

// GPUSample is what one GPU did.
type GPUSample struct {
	Index       int     `json:"index"`
	Util        float64 `json:"util"`   // percent
	Memory      int64   `json:"memory"` // bytes
	MemoryTotal int64   `json:"memory_total,omitempty"`
	Power       float64 `json:"power,omitempty"` // watts
}

// NodeSample is a sample and its node.
type NodeSample struct {
	Attempt, Rank int
	Writer        string
	Sample
}

// maxGPUs bounds what is believed of one sample.
const maxGPUs = 1024

// RecordSample has w record a sample; its time is that of w's clock. It never
// waits: false says that it was dropped, as the store is slow or w is closed.
// It suits a writer with a prefix for usage.
func RecordSample(w *record.Writer, s Sample) bool {
	s.Time = time.Time{} // the frame says it
	s.CPU = finite(s.CPU)
	gpus := s.GPU[:min(len(s.GPU), maxGPUs)]
	s.GPU = make([]GPUSample, len(gpus))
	for i, g := range gpus {
		g.Util, g.Power = finite(g.Util), finite(g.Power)
		s.GPU[i] = g
	}
	b, err := json.Marshal(s)
	return err == nil && len(b) <= record.MaxFrame && w.TryAdd(record.Usage, 0, b)
}

// finite makes a number of what a division by zero left.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// Samples gives the samples of frames, in their order. Frames of another stream
// are left out. Errors are passed on in their place; so is what no Writer made.
func Samples(frames iter.Seq2[record.Frame, error]) iter.Seq2[NodeSample, error] {
	return func(yield func(NodeSample, error) bool) {
		for f, err := range frames {
			if err == nil && f.Stream != record.Usage {
				continue
			}
			u := NodeSample{Attempt: f.Attempt, Rank: f.Rank, Writer: f.Writer}
			if err == nil {
				if err = json.Unmarshal(f.Data, &u.Sample); err != nil || len(u.GPU) > maxGPUs {
					err = fmt.Errorf("read usage of %s: %w", record.Origin{Attempt: f.Attempt, Rank: f.Rank, Writer: f.Writer}, record.NewDamagedError("a sample of %d bytes is not valid", len(f.Data)))
				}
			}
			if u.Time = f.Time; err != nil {
				u = NodeSample{}
			}
			if !yield(u, err) {
				return
			}
		}
	}
}
