package agent

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc/resource"
	"github.com/drover-run/drover/internal/record"
	"github.com/drover-run/drover/internal/record/metric"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
)

// programLimits are what the program's tree may use.
func (a *agent) programLimits() resource.Limits {
	spec := a.Job.Spec
	return resource.Limits{CPUs: spec.CPUs, Cores: a.ready.room.Cores, Memory: int64(spec.Memory), Processes: spec.Processes}
}

// meter finds the metrics in what a program prints and samples what it uses, and
// records both. Nothing that goes wrong here is the program's matter.
type meter struct {
	metrics *metric.MetricWriter // nil: none are looked for
	usage   *record.Writer       // nil: it could not be opened
	finder  *metric.Extractor    // of stdout; that of stderr is another of it
	first   sync.Once
	quit    context.CancelFunc
	gone    chan struct{}
	most    atomic.Int64 // bytes of memory that were seen in use at once
}

// The pace: a sample every 5 s shows an epoch, and the first after a second that of
// a program of a few seconds. A limit on disk is looked at between, too, but looking
// through the folders takes at most a share of the time.
const (
	lookEvery   = time.Second
	sampleEvery = 5 // of these looks
	diskShare   = 50
)

// startMeter makes the meter of a program that has just started.
func (a *agent) startMeter(ctx context.Context, p *program) *meter {
	m := &meter{gone: make(chan struct{})}
	var err error
	if m.finder, err = metric.NewExtractor(a.Job.Spec.Metrics); err != nil {
		a.LogNote("metrics: %v", err) // an older drover knew an expression that this one does not
	} else if w, err := a.NewWriter(ctx, protocol.MetricsPrefix(a.Path), p.attempt, p.rank); err == nil {
		m.metrics = metric.NewMetricWriter(w)
		m.finder.Redact(a.Redact)
	} else {
		a.Log.Warn("metrics are not recorded", "err", err)
	}
	if m.usage, err = a.NewWriter(ctx, protocol.UsagePrefix(a.Path), p.attempt, p.rank); err != nil {
		a.Log.Warn("usage is not recorded", "err", err)
	}
	ctx, quit := context.WithCancel(ctx)
	m.quit = quit
	go func() { // ends with finish
		defer close(m.gone)
		s := sampler{a: a, p: p, m: m}
		for n := 0; store.System.Sleep(ctx, lookEvery) == nil; n++ {
			if n%sampleEvery == 0 {
				s.recordSample(ctx)
			} else if a.Job.Spec.Disk > 0 {
				s.measureDisk(ctx, time.Now())
			}
		}
	}()
	return m
}

// scanMetrics passes a stream on and finds the metrics in it.
func (m *meter) scanMetrics(in io.Reader) io.Reader {
	if m.metrics == nil {
		return in
	}
	finder, second := m.finder, true
	m.first.Do(func() { second = false })
	if second {
		finder = m.finder.Another()
	}
	return &searched{in: in, m: m, finder: finder}
}

// searched is a stream in which metrics are looked for on its way.
type searched struct {
	in     io.Reader
	m      *meter
	finder *metric.Extractor
}

func (s *searched) Read(b []byte) (int, error) {
	n, err := s.in.Read(b)
	points := s.finder.Feed(time.Now(), b[:n])
	if len(points) > 0 {
		s.m.metrics.Add(0, points)
	}
	if err != nil {
		s.m.metrics.Add(0, s.finder.Rest(time.Now()))
	}
	return n, err
}

// peakMemory is the most memory that was seen in use at once; a nil meter saw none.
func (m *meter) peakMemory() int64 {
	if m == nil {
		return 0
	}
	return m.most.Load()
}

// storeMetrics stores what is left. The program has ended.
func (m *meter) storeMetrics(ctx context.Context, a *agent) {
	if m == nil {
		return
	}
	m.quit()
	<-m.gone
	if m.metrics != nil {
		if note := m.finder.Note(); note != "" {
			a.LogNote("metrics: %s", note)
		}
		if err := m.metrics.Close(ctx); err != nil {
			a.Log.Warn("metrics not stored", "err", err)
		}
		if n := m.metrics.Dropped(); n > 0 {
			a.LogNote("metrics: %d values were dropped, the store was too slow", n)
		}
	}
	if m.usage != nil {
		if err := m.usage.Close(ctx); err != nil {
			a.Log.Warn("usage not stored", "err", err)
		}
	}
}

// sampler keeps what the next sample is compared with.
type sampler struct {
	a *agent
	p *program
	m *meter

	at       time.Time
	was      resource.Usage
	in, out  int64
	disk     int64
	diskNext time.Time
}

// recordSample measures once and records it.
func (s *sampler) recordSample(ctx context.Context) {
	u, err := s.p.proc.Usage()
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		return // it has just ended
	}
	now, since := time.Now(), s.p.started
	if !s.at.IsZero() {
		since = s.at
	}
	span := now.Sub(since).Seconds()
	if span <= 0 {
		return
	}
	rate := func(is, was int64) int64 { return int64(float64(max(is-was, 0)) / span) }
	one := metric.Sample{Time: now.UTC(), CPU: max((u.CPU-s.was.CPU).Seconds(), 0) / span, Memory: u.Memory, MemoryLimit: int64(s.a.Job.Spec.Memory),
		DiskRead: rate(u.Read, s.was.Read), DiskWritten: rate(u.Written, s.was.Written)}
	if s.a.Machine.Traffic != nil {
		if in, out, err := s.a.Machine.Traffic(); err == nil {
			if !s.at.IsZero() {
				one.NetIn, one.NetOut = rate(in, s.in), rate(out, s.out)
			}
			s.in, s.out = in, out
		}
	}
	if s.a.Machine.GPUUse != nil && s.a.ready.room.GPUs > 0 {
		if one.GPU, err = s.a.Machine.GPUUse(ctx, s.a.ready.room.Pinned); err != nil {
			s.a.Log.Warn("GPUs not sampled", "err", err)
		}
	}
	s.measureDisk(ctx, now)
	one.Disk = s.disk
	s.m.most.Store(max(s.m.most.Load(), u.Memory, u.Peak))
	if s.m.usage != nil {
		metric.RecordSample(s.m.usage, one)
	}
	s.at, s.was = now, u
}

// measureDisk counts what is in the job's folders, as often as that is cheap, and
// ends a program that has filled more of them than it may.
func (s *sampler) measureDisk(ctx context.Context, now time.Time) {
	if now.Before(s.diskNext) {
		return
	}
	s.disk = s.a.UsedDisk(ctx)
	if ctx.Err() != nil {
		return // it was not all looked at
	}
	s.diskNext = now.Add(diskShare * time.Since(now))
	limit := int64(s.a.Job.Spec.Disk)
	if limit == 0 || s.disk <= limit || s.p.full.Load() > 0 {
		return
	}
	s.p.full.Store(s.disk)
	s.a.space.WriteNotice(fmt.Sprintf("disk limit of %s reached", job.Bytes(limit).Words()), 0)
	s.p.proc.Kill()
}
