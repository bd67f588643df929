package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/private"
	"github.com/drover-run/drover/store"
)

// DeskVariable names the socket of the node's agent.
const CallsVariable = "DROVER_DESK"

// Calls are what an agent does for the programs in its tree. Its methods are
// called from many goroutines at once.
type Calls interface {
	// Call has another node run a command line with sh, and waits until it has
	// ended there. When ctx ends no caller waits for the answer any more. Of this
	// node itself it is ErrHere: the caller can run it.
	Call(ctx context.Context, host, line string) (status int, err error)
	// Serve says that this node runs what others ask for: run is to be called for
	// each line, at once if there are several, until ctx ends. Then it returns.
	Serve(ctx context.Context, run func(ctx context.Context, line string) (status int)) error
	// Alarm says that something of this node's program ended with status, and that
	// the rest may wait for it in vain. It returns at once.
	Alarm(status int)
}

// ErrHere says that a call is for the caller's own node.
var ErrHere = errors.New("it is this node")

// The words, one JSON value after another. A client begins with hello; then a
// caller gets one answer, and a server gets orders and answers each. An alarm
// gets none, and a rank the signals that its program is to have.
type hello struct {
	Rank  bool   `json:"rank,omitempty"` // is told of signals
	Alarm int    `json:"alarm,omitempty"`
	Serve bool   `json:"serve,omitempty"`
	Host  string `json:"host,omitempty"`
	Line  string `json:"line,omitempty"`
}

type order struct {
	N    int    `json:"n"`
	Line string `json:"line"`
}

type ending struct {
	Signal int `json:"signal"`
}

type answer struct {
	N      int    `json:"n,omitempty"`
	Status int    `json:"status"`
	Here   bool   `json:"here,omitempty"`
	Error  string `json:"error,omitempty"`
}

// Open is an open call server.
type Open struct {
	calls  Calls
	socket net.Listener
	remove func()
	quit   context.CancelFunc
	all    sync.WaitGroup

	mu    sync.Mutex
	ranks map[net.Conn]bool // processes of the program on this node
	empty func()            // called once none is left; nil: not asked for
}

// Listen opens a call server at path, of any length, in a folder that only its user may
// enter. addr is what the programs find in DeskVariable. Close hangs up on every
// client and waits until d has let go of them.
func Listen(path string, d Calls) (l *Open, addr string, err error) {
	_ = os.Remove(path) // of an attempt before
	l = &Open{calls: d, ranks: map[net.Conn]bool{}}
	if l.socket, addr, l.remove, err = private.Listen(path); err != nil {
		return nil, "", fault.Wrap(err, fault.Full, "", "open folder of calls %s", path)
	}
	ctx, quit := context.WithCancel(context.Background())
	l.quit = quit
	l.all.Go(func() {
		for {
			conn, err := l.socket.Accept()
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil { // out of files, perhaps
				if store.System.Sleep(ctx, 100*time.Millisecond) != nil {
					return
				}
				continue
			}
			l.all.Go(func() { l.serveClient(ctx, conn) })
		}
	})
	return l, addr, nil
}

// StopRanks sends sig to the program's processes on this node, and to nothing else. It
// gives how many were told; once all have ended, empty is called.
func (l *Open) StopRanks(sig syscall.Signal, empty func()) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for conn := range l.ranks {
		if json.NewEncoder(conn).Encode(ending{Signal: int(sig)}) == nil {
			n++
		}
	}
	if n > 0 {
		l.empty = empty
	}
	return n
}

// keepRankConnection keeps the connection of one process until it ends.
func (l *Open) keepRankConnection(conn net.Conn, in *json.Decoder) {
	l.mu.Lock()
	l.ranks[conn] = true
	l.mu.Unlock()
	var none any
	_ = in.Decode(&none) // it says nothing: this is its end
	l.mu.Lock()
	delete(l.ranks, conn)
	empty := l.empty
	if len(l.ranks) > 0 {
		empty = nil
	}
	l.mu.Unlock()
	if empty != nil {
		empty()
	}
}

func (l *Open) Close() error {
	l.quit()
	err := l.socket.Close()
	l.all.Wait()
	l.remove()
	return err
}

// serveClient serves one client until it hangs up or the call server closes.
func (l *Open) serveClient(ctx context.Context, conn net.Conn) {
	ctx, gone := context.WithCancel(ctx)
	defer gone()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	if uid, err := private.PeerUser(conn); err != nil || uid != os.Geteuid() {
		conn.Close()
		return
	}
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var h hello
	if in.Decode(&h) == nil {
		switch {
		case h.Alarm != 0:
			l.calls.Alarm(h.Alarm)
		case h.Rank:
			l.keepRankConnection(conn, in)
		case h.Serve:
			l.serveRank(ctx, gone, in, out)
		default:
			l.serveCall(ctx, gone, in, out, h)
		}
	}
	conn.Close()
}

func (l *Open) serveCall(ctx context.Context, gone context.CancelFunc, in *json.Decoder, out *json.Encoder, h hello) {
	l.all.Go(func() { // ends with the connection
		var none any
		_ = in.Decode(&none) // a caller says nothing more: this is its end
		gone()
	})
	var a answer
	var err error
	a.Status, err = l.calls.Call(ctx, h.Host, h.Line)
	if a.Here = errors.Is(err, ErrHere); err != nil && !a.Here {
		a.Error = err.Error()
	}
	_ = out.Encode(a) // a caller that is gone hears nothing
}

func (l *Open) serveRank(ctx context.Context, gone context.CancelFunc, in *json.Decoder, out *json.Encoder) {
	var mu sync.Mutex // guards out, next and waiting
	next, waiting := 0, map[int]chan int{}
	l.all.Go(func() { // ends with the connection
		defer gone()
		for {
			var a answer
			if in.Decode(&a) != nil {
				return
			}
			mu.Lock()
			if w := waiting[a.N]; w != nil {
				w <- a.Status // has room for one
				delete(waiting, a.N)
			}
			mu.Unlock()
		}
	})
	_ = l.calls.Serve(ctx, func(asked context.Context, line string) int {
		answered := make(chan int, 1)
		mu.Lock()
		next++
		waiting[next] = answered
		err := out.Encode(order{N: next, Line: line})
		mu.Unlock()
		if err != nil {
			gone()
		}
		select {
		case status := <-answered:
			return status
		case <-asked.Done(): // no client waits
		case <-ctx.Done(): // the server is gone
		}
		return fault.ExitDrover
	}) // what went wrong shows as the end of the connection
}

func errNoCalls() error {
	return fault.New(fault.Invalid, "It works inside a job of several nodes with `--launcher mpi`.", "reach the agent: %s is not set", CallsVariable)
}

// dial reaches the call server of this node.
func dial() (net.Conn, error) {
	addr := os.Getenv(CallsVariable)
	if addr == "" {
		return nil, errNoCalls()
	}
	conn, err := private.Dial(context.Background(), addr)
	if err != nil {
		return nil, fmt.Errorf("reach the agent: %w", err)
	}
	return conn, nil
}

// call asks the call server to have another node run a line, and waits for its end.
func call(host, line string) (status int, err error) {
	conn, err := dial()
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var a answer
	if err = json.NewEncoder(conn).Encode(hello{Host: host, Line: line}); err == nil {
		err = json.NewDecoder(conn).Decode(&a)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("start on %s: the agent is gone: %w", host, err)
	case a.Error != "":
		return 0, errors.New(a.Error)
	case a.Here:
		return shell(context.Background(), line), nil
	}
	return a.Status, nil
}
