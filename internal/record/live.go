package record

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/private"
)

// On the socket the writer speaks first: greeting, attempt and rank as uvarints,
// the id's length in a byte, the id. The follower answers with 8 bytes, the
// first seq it lacks, big-endian. From then on only the writer speaks: frames,
// each led by its stream, and at last one of the two bytes below, which are no
// stream.
const (
	Greeting = "DRVLIVE\x01"
	saidEnd  = 0x00 // everything was said, and is stored
	saidGap  = 0x80 // your place is gone from the ring, but stored: read it there and come back
)

const (
	chunkSize = 128 << 10 // bytes of the ring's parts; above FrameRoom
	chunks    = 32        // 4 MiB in all
	// maxFollowers bounds memory: each takes a chunk's size.
	maxFollowers = 32
	// farewell is what a follower is given to take the end. One that is slower
	// reads it from the store.
	farewell = time.Second
	// answer is what a follower is given to say where it stands.
	answer = 10 * time.Second
)

// ring is the newest frames, encoded, in chunks that are reused. The zero ring
// keeps nothing until it is switched on.
type ring struct {
	on    bool
	parts [chunks]part
	old   uint64 // number of the oldest part; part n is parts[n%chunks]
	now   uint64 // number of the one being filled
}

type part struct {
	first uint64 // seq of its first frame
	buf   []byte // whole frames
}

// spot is where a follower stands in a ring.
type spot struct {
	part uint64
	off  int
}

func (r *ring) addFrame(frame []byte, seq uint64) {
	if !r.on {
		return
	}
	p := &r.parts[r.now%chunks]
	if len(p.buf)+len(frame) > chunkSize {
		r.now++
		p = &r.parts[r.now%chunks]
		p.buf = p.buf[:0]
		r.old = max(r.old, r.now-min(r.now, chunks-1))
	}
	if p.buf == nil {
		p.buf = make([]byte, 0, chunkSize)
	}
	if len(p.buf) == 0 {
		p.first = seq
	}
	p.buf = append(p.buf, frame...)
}

// findSpot gives the spot of the frame seq, or of the one to come when next is seq.
// It is false when seq is not in the ring.
func (r *ring) findSpot(seq, next uint64) (spot, bool) {
	if seq == next {
		return spot{r.now, len(r.parts[r.now%chunks].buf)}, true
	}
	for n := r.now; r.on; n-- {
		p := &r.parts[n%chunks]
		if len(p.buf) > 0 && p.first <= seq {
			rest := p.buf
			for at := p.first; at < seq && len(rest) > 0; at++ {
				_, rest, _ = takeFrame(rest) // our own bytes
			}
			return spot{n, len(p.buf) - len(rest)}, len(rest) > 0
		}
		if n == r.old {
			break
		}
	}
	return spot{}, false
}

// copyFrames copies what follows s, at most one chunk and only whole frames, into buf
// and gives the spot after it. It is false when that was overwritten.
func (r *ring) copyFrames(s spot, buf []byte) ([]byte, spot, bool) {
	if s.part < r.old {
		return nil, s, false
	}
	p := &r.parts[s.part%chunks]
	if s.off == len(p.buf) && s.part < r.now {
		s = spot{part: s.part + 1}
		p = &r.parts[s.part%chunks]
	}
	buf = append(buf[:0], p.buf[s.off:]...)
	s.off = len(p.buf)
	return buf, s, true
}

// live is a writer's other side: its followers. Guarded by Writer.mu, but for
// the two groups.
type live struct {
	ring      ring
	listener  net.Listener
	remove    func()            // the socket's file
	followers map[net.Conn]bool // counted in, perhaps still greeting
	accepting sync.WaitGroup    // accept
	serving   sync.WaitGroup    // serve, one a follower
}

// Listen serves followers on a unix socket in folder, mode 0600, and gives its
// address for Follow: one that no other writer has, as a follower is done with an
// address when its writer is. It may be called once. Peers of another user are refused.
// A path longer than the system's limit is handled: on Linux it is opened by way
// of its folder, elsewhere the socket is put into a short folder of its own.
func (w *Writer) Listen(folder string) (addr string, err error) {
	path, err := filepath.Abs(filepath.Join(folder, fmt.Sprintf("log-%d-%d-%s.sock", w.at.Attempt, w.at.Rank, w.at.Writer)))
	if err != nil {
		return "", err
	}
	l, addr, remove, err := private.Listen(path)
	if err != nil {
		return "", fault.Wrap(err, fault.Bug, "", "serve live output in %s", folder)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.live.listener != nil || w.closing {
		l.Close()
		remove()
		return "", fault.New(fault.Bug, "", "serve live output in %s: the writer listens already, or is closed", folder)
	}
	w.live.listener, w.live.remove, w.live.ring.on = l, remove, true
	w.live.accepting.Go(func() { w.acceptFollowers(l, os.Geteuid()) })
	return addr, nil
}

// Sockets are the addresses of the writers that listen in folder, or once did.
func Sockets(folder string) []string {
	found, _ := filepath.Glob(filepath.Join(folder, "log-*.sock")) // only a bad pattern is an error
	return found
}

// acceptFollowers takes followers of the user uid until l is closed.
func (w *Writer) acceptFollowers(l net.Listener, uid int) {
	for {
		conn, err := l.Accept()
		if err != nil {
			w.mu.Lock()
			closing := w.closing
			w.mu.Unlock()
			// Out of files, perhaps; what was recorded is unharmed.
			if closing || w.o.Clock.Sleep(context.Background(), 100*time.Millisecond) != nil {
				return
			}
			continue
		}
		if peer, err := private.PeerUser(conn); err != nil || peer != uid {
			conn.Close()
			continue
		}
		w.live.serving.Go(func() { w.serveFollower(conn) })
	}
}

// serveFollower speaks with one follower until either of the two is done.
func (w *Writer) serveFollower(conn net.Conn) {
	defer conn.Close()
	if !w.addFollower(conn) {
		return
	}
	defer w.removeFollower(conn)
	hello := []byte(Greeting)
	hello = binary.AppendUvarint(hello, uint64(w.at.Attempt))
	hello = binary.AppendUvarint(hello, uint64(w.at.Rank))
	hello = append(hello, byte(len(w.at.Writer)))
	hello = append(hello, w.at.Writer...)
	if _, err := conn.Write(hello); err != nil {
		return
	}
	var from [8]byte
	if _, err := io.ReadFull(conn, from[:]); err != nil {
		return
	}
	w.mu.Lock()
	if !w.over {
		conn.SetDeadline(time.Time{})
	}
	w.mu.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	var listening sync.WaitGroup
	listening.Go(func() {
		io.Copy(io.Discard, conn) // a follower says nothing more, so this ends when it goes
		cancel()
		w.mu.Lock()
		w.changed.Broadcast()
		w.mu.Unlock()
	})
	w.sendFrames(ctx, conn, binary.BigEndian.Uint64(from[:]))
	conn.Close()
	listening.Wait()
}

// addFollower counts a follower in, unless there are too many. From here on close
// bounds how long it may take.
func (w *Writer) addFollower(conn net.Conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.live.followers) == maxFollowers {
		return false
	}
	if w.live.followers == nil {
		w.live.followers = map[net.Conn]bool{}
	}
	w.live.followers[conn] = true
	patience := answer
	if w.over {
		patience = farewell
	}
	conn.SetDeadline(time.Now().Add(patience))
	return true
}

func (w *Writer) removeFollower(conn net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.live.followers, conn)
}

// sendFrames sends a follower what it lacks. It copies out of the ring under the lock
// and writes without it, so a slow follower delays no other.
func (w *Writer) sendFrames(ctx context.Context, conn net.Conn, from uint64) {
	buf := make([]byte, 0, chunkSize)
	w.mu.Lock()
	at, ok := w.live.ring.findSpot(from, w.seq+1)
	for {
		if ok {
			buf, at, ok = w.live.ring.copyFrames(at, buf)
		}
		switch {
		case ctx.Err() != nil: // it went away
			w.mu.Unlock()
			return
		case !ok:
			w.mu.Unlock()
			if w.Flush(ctx) == nil { // else there is nowhere to send it to
				conn.Write([]byte{saidGap})
			}
			return
		case len(buf) > 0:
			w.mu.Unlock()
			if _, err := conn.Write(buf); err != nil {
				return
			}
			w.mu.Lock()
		case w.over:
			w.mu.Unlock()
			conn.Write([]byte{saidEnd})
			return
		default:
			w.changed.Wait()
		}
	}
}

// closeServer ends serving. All is stored, or given up, by now.
func (l *live) closeServer(w *Writer) {
	w.mu.Lock()
	if l.listener != nil {
		l.listener.Close()
		l.remove()
	}
	for conn := range l.followers {
		conn.SetDeadline(time.Now().Add(farewell))
	}
	w.changed.Broadcast()
	w.mu.Unlock()
	l.accepting.Wait()
	l.serving.Wait()
}
