package proc

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/internal/proc/spawner/frame"
	"github.com/drover-run/drover/internal/proc/wire"
)

// bootTime counts while the machine sleeps and while a process is stopped, and is
// one for all processes.
func bootTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) // cannot fail for these arguments
	return time.Duration(ts.Nano())
}

// remote is a spawner as its agent knows it.
type remote struct {
	post       *post
	order      wire.Order
	supervisor *os.Process
	conn       *net.UnixConn
	gone       chan struct{} // closed when the tree is gone

	mu    sync.Mutex // guards the writing side of conn
	frame []byte     // reused

	sessions map[uint64]int // of a tree by subreaper: by command, the session of what has begun and not ended. The reader's
}

var _ executor = (*remote)(nil)

func openExecutor(ctx context.Context, c SpawnerConfig, p *post) (executor, error) {
	o, err := c.buildOrder()
	if err != nil {
		return nil, err
	}
	var m *remote
	err = Command{View: c.View, subreaper: c.subreaper}.tryEachWay(o, spawnerName, func(o wire.Order) (err error) {
		m, err = openRemote(ctx, o, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return m, nil
}

// openRemote starts a spawner in one way.
func openRemote(ctx context.Context, o wire.Order, post *post) (*remote, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("start a spawner: %w", context.Cause(ctx))
	}
	ours, theirs, err := wire.NewPair(false)
	if err != nil {
		return nil, fmt.Errorf("start a spawner: connect it: %w", err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, fmt.Errorf("start a spawner: %w", err)
	}
	m := &remote{post: post, order: o, conn: ours.UnixConn, gone: make(chan struct{})}
	if !o.Namespace {
		m.sessions = map[uint64]int{}
	}
	started := make(chan error, 1)
	go func() { // ends with the spawner and the reader of its events; close, and every failing path below, waits for the former
		p := &Process{token: o.Token, name: spawnerName, wire: wire.NewConn(ours)}
		err := p.launchSupervisor(o, []*os.File{null, null, null, theirs})
		defer runtime.UnlockOSThread()
		theirs.Close()
		null.Close()
		if err == nil {
			err = p.sendOrder(o, ours)
		}
		if err == nil {
			if err = p.wire.SkipNewline(ours); err != nil {
				err = fmt.Errorf("start a spawner: read from it: %w", err)
			}
		}
		m.supervisor = p.supervisor
		started <- err
		m.readSpawner(err == nil)
	}()
	select {
	case err = <-started:
	case <-ctx.Done():
		ours.Close() // the spawner sees its agent gone, and ends
		err = fmt.Errorf("start a spawner: %w", context.Cause(ctx))
	}
	if err != nil {
		<-m.gone
		return nil, err
	}
	return m, nil
}

// readSpawner reads what the spawner says until it is gone.
func (m *remote) readSpawner(running bool) {
	clean := running && m.readEvents()
	m.conn.Close()
	if m.supervisor != nil {
		if !clean {
			_ = m.supervisor.Kill() // it may have lost its wits, not its life
		}
		_, _ = m.supervisor.Wait() // its own end says nothing that its reports did not
	}
	if running && !clean {
		m.killStrays()
	}
	close(m.gone)
	switch {
	case clean:
		m.post.deliverLast(nil)
	case running:
		m.post.deliverLast(ErrSpawnerLost)
	}
}

// chunk is what events share: large, as each is one allocation, and larger than
// any frame. roomToRead of it is left at least for each read.
const (
	chunk      = 256 << 10
	roomToRead = 96 << 10
)

// readEvents delivers events. It says whether the spawner took its leave.
func (m *remote) readEvents() (clean bool) {
	var buf []byte
	for {
		if cap(buf)-len(buf) < roomToRead {
			buf = append(make([]byte, 0, chunk), buf...)
		}
		n, err := m.conn.Read(buf[len(buf):cap(buf)])
		if err != nil {
			return false
		}
		var batch []Spawned
		rest := buf[:len(buf)+n]
		for {
			kind, body, next, ok := frame.NextFrame(rest)
			if !ok {
				break
			}
			rest = next
			if kind == frame.FrameGone {
				m.post.deliverBatch(batch)
				return true
			}
			s, ok := parseSpawned(&m.order, kind, body)
			if !ok {
				return false
			}
			m.noteSession(kind, &s, &body)
			batch = append(batch, s)
		}
		buf = rest
		m.post.deliverBatch(batch)
	}
}

// noteSession remembers the sessions of a tree by subreaper, for sweep.
func (m *remote) noteSession(kind byte, s *Spawned, began *frame.Cut) {
	if m.sessions == nil {
		return
	}
	switch kind {
	case frame.FrameBegan:
		began.NextBytes(16)
		m.sessions[s.ID] = int(began.U32())
	case frame.FrameEnded:
		delete(m.sessions, s.ID)
	}
}

// killStrays ends what outlived its spawner. A namespace went with it; the programs of
// a tree by subreaper, too; their strays are found by session and by mark.
func (m *remote) killStrays() {
	in := make(map[int]bool, len(m.sessions))
	for _, session := range m.sessions {
		in[session] = true
	}
	for pause := process.FirstPause; len(in) > 0; pause = min(2*pause, process.LastPause) {
		killed, _, err := process.StopAndKill(func() ([]process.Entry, error) {
			all, err := process.List()
			return process.Descendants(all, func(p process.Entry) bool { return in[p.Session] }), err
		})
		if err != nil || len(killed) == 0 {
			break
		}
		time.Sleep(pause)
	}
	_, _, _ = sweep(m.order.Token, 0, nil) // what is left may not be killed, and no agent is there to be told
}

func (m *remote) sendFrame(frame func([]byte) []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.frame = frame(m.frame[:0])
	_, err := m.conn.Write(m.frame)
	if cap(m.frame) > 1<<20 {
		m.frame = nil
	}
	if err != nil {
		return ErrSpawnerLost
	}
	return nil
}

func (m *remote) send(commands []SpawnCommand) error {
	return m.sendFrame(func(b []byte) []byte {
		for i := range commands {
			e := &commands[i]
			b = frame.AppendCommand(b, &frame.FrameCommand{ID: e.ID, Timeout: e.Timeout, Path: e.Path, Args: e.Args, Env: e.Env, Stdin: e.Stdin})
		}
		return b
	})
}

// until, drop and kill are not told when the spawner is gone: then all is over.

func (m *remote) until(boot time.Duration) {
	m.continueSpawner()
	_ = m.sendFrame(func(b []byte) []byte { return frame.AppendID(b, frame.FrameUntil, uint64(boot)) })
}

func (m *remote) drop() {
	_ = m.sendFrame(func(b []byte) []byte { return frame.AppendID(b, frame.FrameDrop, 0) })
}

func (m *remote) kill(sig syscall.Signal, ids []uint64) {
	m.continueSpawner()
	_ = m.sendFrame(func(b []byte) []byte { return frame.AppendKill(b, sig, ids) })
}

// continueSpawner continues a spawner that one of its commands has stopped: a tree by subreaper is of the
// same user, so that can be. It comes before the telling, which may wait for it.
func (m *remote) continueSpawner() {
	if !m.order.Namespace {
		_ = m.supervisor.Signal(syscall.SIGCONT)
	}
}

func (m *remote) close() {
	m.post.stopWaiting()
	_ = m.conn.CloseWrite() // does not wait for a send; where it fails all is over already
	again := time.NewTicker(process.LastPause)
	defer again.Stop()
	for {
		m.continueSpawner()
		select {
		case <-m.gone:
			return
		case <-again.C:
		}
	}
}
