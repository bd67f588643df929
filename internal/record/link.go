package record

import (
	"bufio"
	"context"
	"encoding/binary"
	"io"
	"net"
	"sync"
)

// link is a follower's side of one socket.
type link struct {
	addr   string
	hangUp context.CancelFunc
	from   chan uint64 // the answer to greeted: the first seq that is lacked
	cursor *Cursor     // of the writer of its frames; nil until greeted
}

// news is what a link has to tell.
type news struct {
	link *link
	what told
	at   Origin // greeted
	f    Frame  // framed
}

type told int

const (
	greeted  told = iota // the writer's greeting; the link waits for from
	framed               // a frame
	finished             // that was all, and it is stored
	lost                 // the connection, after it was made; a gap too
	absent               // no writer is there
)

// readSocket speaks with the socket until it ends or ctx does, and tells out. The last
// news is one of the last three, unless ctx ended.
func (l *link) readSocket(ctx context.Context, dial func(context.Context, string) (net.Conn, error), out chan<- news) {
	tell := func(n news) bool {
		n.link = l
		select {
		case out <- n:
			return true
		case <-ctx.Done():
			return false
		}
	}
	conn, err := dial(ctx, l.addr)
	if err != nil {
		tell(news{what: absent})
		return
	}
	// Closing is the only way to end a read. The group makes sure that nothing
	// of a link outlives its run.
	var closing sync.WaitGroup
	closing.Add(1)
	stop := context.AfterFunc(ctx, func() { defer closing.Done(); conn.Close() })
	defer func() {
		if stop() {
			closing.Done()
		}
		closing.Wait()
		conn.Close()
	}()
	r := bufio.NewReaderSize(conn, 32<<10)
	at, err := readGreeting(r)
	if err != nil {
		tell(news{what: absent})
		return
	}
	if !tell(news{what: greeted, at: at}) {
		return
	}
	var from uint64
	select {
	case from = <-l.from:
	case <-ctx.Done():
		return
	}
	if _, err := conn.Write(binary.BigEndian.AppendUint64(nil, from)); err != nil {
		tell(news{what: lost})
		return
	}
	tell(news{what: readLive(r, at, func(f Frame) bool { return tell(news{what: framed, f: f}) })})
}

// readGreeting reads the origin of the other end.
func readGreeting(r byteReader) (p Origin, err error) {
	head := make([]byte, len(Greeting))
	if _, err := io.ReadFull(r, head); err != nil {
		return p, err
	}
	if string(head) != Greeting {
		return p, NewDamagedError("the socket speaks another protocol, or another version")
	}
	var v [3]uint64 // attempt, rank, the id's length: below 128, so one byte either way
	for i := range v {
		if v[i], err = binary.ReadUvarint(r); err != nil {
			return p, err
		}
	}
	if v[0] > maxAttempt || v[1] > maxRank || v[2] > maxID {
		return p, NewDamagedError("the socket's greeting is out of range")
	}
	id := make([]byte, v[2])
	if _, err := io.ReadFull(r, id); err != nil {
		return p, err
	}
	p = Origin{int(v[0]), int(v[1]), string(id)}
	return p, p.checkBounds()
}

// readLive gives frames to yield until the other side, or yield, ends it.
func readLive(r byteReader, at Origin, yield func(Frame) bool) told {
	for {
		first, err := r.ReadByte()
		if err == nil && first == saidEnd {
			return finished
		}
		if err != nil || first == saidGap {
			return lost
		}
		f, err := readFrame(r, first)
		if err != nil {
			return lost
		}
		f.Attempt, f.Rank, f.Writer = at.Attempt, at.Rank, at.Writer
		if !yield(f) {
			return lost
		}
	}
}
