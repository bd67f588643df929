package amazon

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// stall is how long a connection may move no byte, in either direction. S3 itself ends a
// connection after 20 s without a byte from us, and keeps sending blanks while it assembles
// parts; other servers send nothing for as long as that takes.
const stall = 60 * time.Second

// idle is how long an unused connection is kept.
const idle = 30 * time.Second

// newClient makes the HTTP client of one Account: HTTP/1.1, which is what S3 speaks, with a
// connection for each request under way. It takes AWS_CA_BUNDLE and proxies from
// the environment.
func newClient() *awshttp.BuildableClient {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}
	return awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) {
		t.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &moving{Conn: c}, nil
		}
		t.ForceAttemptHTTP2 = false
		t.TLSHandshakeTimeout = 10 * time.Second
		t.MaxIdleConns = 0 // no limit over all hosts: there are few
		t.MaxIdleConnsPerHost = 64
		t.IdleConnTimeout = idle
		t.WriteBufferSize, t.ReadBufferSize = 64<<10, 64<<10
		t.DisableCompression = true // an object is sent as it is stored
	})
}

// moving is a connection that ends when no byte moves: a peer that vanished behind a router
// sends nothing, and a request would wait for ever.
type moving struct {
	net.Conn
	until atomic.Int64 // the deadline that is set, in unix nanoseconds
}

// postpone sets a later deadline, but not at every call: each one resets a timer in the runtime.
func (m *moving) postpone() {
	now := time.Now()
	if m.until.Load()-now.UnixNano() < int64(stall*3/4) {
		until := now.Add(stall)
		m.until.Store(until.UnixNano())
		_ = m.SetDeadline(until) // if the connection is closed, the next call says so
	}
}

func (m *moving) Read(p []byte) (int, error) {
	m.postpone()
	n, err := m.Conn.Read(p)
	if n > 0 {
		m.postpone()
	}
	return n, err
}

func (m *moving) Write(p []byte) (int, error) {
	m.postpone()
	return m.Conn.Write(p)
}
