// Package logtail reads what containers printed last, from Amazon's CloudWatch Logs: it says why one never came up.
//
// It refuses to know which containers there are. The tests of packages batch and sagemaker prove it, over fakes.
package logtail

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/drover-run/drover/cloud/amazon"
	"github.com/drover-run/drover/cloud/amazon/awsjson"
	"github.com/drover-run/drover/fault"
)

// The end of what a container printed.
const (
	lines    = 10
	waitTime = 5 * time.Second // CloudWatch has to answer
	// most is how many a Budget has: a thousand containers that never came up say the same.
	most = 3
)

// Budget is how many tails one look may still ask for.
type Budget struct{ left int }

// NewBudget gives that of one look.
func NewBudget() *Budget { return &Budget{most} }

// Reader reads tails, each once.
type Reader struct {
	api  awsjson.Caller
	send amazon.Sender

	mu    sync.Mutex
	known map[string]string // by group and stream
}

// New makes a reader for an account in its region.
func New(send amazon.Sender) *Reader {
	return &Reader{api: awsjson.Caller{Service: awsjson.Service{Name: "logs", ID: "CLOUDWATCH_LOGS", Host: "logs", Target: "Logs_20140328"}, Account: send.Account}, send: send, known: map[string]string{}}
}

// Read reads the last lines of a stream. "": there is none yet, it cannot be read, or the budget is spent.
func (r *Reader) Read(ctx context.Context, b *Budget, group, stream string) string {
	return r.once(ctx, b, group+"\n"+stream, func(ctx context.Context) (string, error) { return r.read(ctx, group, stream) })
}

// ReadNewest is Read for the newest of the streams that begin with a prefix.
func (r *Reader) ReadNewest(ctx context.Context, b *Budget, group, prefix string) string {
	return r.once(ctx, b, group+"\n"+prefix, func(ctx context.Context) (string, error) {
		stream, err := r.newest(ctx, group, prefix)
		if err != nil || stream == "" {
			return "", err
		}
		return r.read(ctx, group, stream)
	})
}

// once reads a text that it has not read before. Of what can never be read the text is "".
func (r *Reader) once(ctx context.Context, b *Budget, key string, read func(context.Context) (string, error)) string {
	r.mu.Lock()
	text, known := r.known[key]
	r.mu.Unlock()
	if known || b.left == 0 {
		return text
	}
	b.left--
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	text, err := read(ctx)
	if ctx.Err() != nil { // it does not answer: the look goes on without
		b.left = 0
	}
	if err == nil && text != "" || fault.KindOf(err) == fault.Denied { // else a later look may find it
		r.mu.Lock()
		r.known[key] = text
		r.mu.Unlock()
	}
	return text
}

// newest is the newest stream of a group with a prefix; "": there is none.
func (r *Reader) newest(ctx context.Context, group, prefix string) (stream string, err error) {
	var out struct {
		LogStreams []struct {
			LogStreamName string `json:"logStreamName"`
			CreationTime  int64  `json:"creationTime"`
		} `json:"logStreams"`
	}
	err = r.send.Read(ctx, "DescribeLogStreams", func(ctx context.Context) error {
		return r.api.Call(ctx, "DescribeLogStreams", map[string]any{"logGroupName": group, "logStreamNamePrefix": prefix, "limit": 50}, &out)
	})
	created := int64(-1)
	for _, s := range out.LogStreams {
		if s.CreationTime > created {
			stream, created = s.LogStreamName, s.CreationTime
		}
	}
	return stream, err
}

func (r *Reader) read(ctx context.Context, group, stream string) (string, error) {
	var out struct {
		Events []struct {
			Message string `json:"message"`
		} `json:"events"`
	}
	err := r.send.Read(ctx, "GetLogEvents", func(ctx context.Context) error {
		return r.api.Call(ctx, "GetLogEvents", map[string]any{"logGroupName": group, "logStreamName": stream, "limit": lines, "startFromHead": false}, &out)
	})
	var last []string
	for _, e := range out.Events {
		last = append(last, e.Message)
	}
	return strings.Join(last, "\n"), err
}
