package store

import (
	"context"
	"sync"
	"time"
)

// Forever is the age for objects that never change, such as an entry of a log.
const Forever time.Duration = 1<<63 - 1

// The bounds of a memory: it has room for many entries of logs, and is small beside what a
// process needs anyway, as hundreds of agents may share a machine.
const (
	maxKnown  = 64 << 10 // bytes of one object
	maxMemory = 1 << 20  // bytes of all; a larger memory is emptied
	perObject = 100      // bytes that an object takes beside its key and body
)

// memory holds objects that a Store has read or written and that never change. It never
// remembers that an object was absent: it may be there a moment later (rule L6 of
// docs/protocol.md).
type memory struct {
	mu    sync.Mutex
	held  map[string]known
	bytes int
}

type known struct {
	body []byte
	at   time.Duration // by the boot clock: when the newest request that found it was sent
}

func (m *memory) recallContent(key string, now, age time.Duration) ([]byte, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k, ok := m.held[key]
	return k.body, ok && (age == Forever || now-k.at < age)
}

func (m *memory) keepContent(key string, body []byte, at time.Duration) {
	if len(body) > maxKnown {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.held[key]; ok {
		m.bytes -= len(key) + len(was.body) + perObject
	}
	size := len(key) + len(body) + perObject
	if m.held == nil || m.bytes+size > maxMemory {
		m.held, m.bytes = map[string]known{}, 0
	}
	m.held[key] = known{body, at}
	m.bytes += size
}

func (m *memory) forgetKey(key string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if was, ok := m.held[key]; ok {
		m.bytes -= len(key) + len(was.body) + perObject
		delete(m.held, key)
	}
}

// Fixed reads a whole object that never changes once it is written. It sends no request if
// this Store has seen the object less than age ago. An absent object is not remembered, so
// ErrNotExist is always the bucket's own answer. An object that others have deleted may be
// given for age; one that this Store deleted is not. The caller must not change body. For
// most see GetAtMost.
func (s *Store) Fixed(ctx context.Context, key string, age time.Duration, most int) (body []byte, err error) {
	sent := s.clock.Boot()
	if body, ok := s.known.recallContent(key, sent, age); ok {
		return body, nil
	}
	if body, err = s.GetAtMost(ctx, key, most); err != nil {
		s.known.forgetKey(key)
		return nil, err
	}
	s.known.keepContent(key, body, sent)
	return body, nil
}

// Recall is Fixed without a request: ok is false when this Store has not seen key, or has
// forgotten it.
func (s *Store) Recall(key string, age time.Duration) (body []byte, ok bool) {
	return s.known.recallContent(key, s.clock.Boot(), age)
}

// CreateFixed is CreateOnce of an object for Fixed: it remembers what key holds.
func (s *Store) CreateFixed(ctx context.Context, key string, body []byte) (held []byte, mine bool, err error) {
	sent := s.clock.Boot()
	if held, mine, err = s.CreateOnce(ctx, key, body); err == nil {
		s.known.keepContent(key, held, sent)
	}
	return held, mine, err
}
