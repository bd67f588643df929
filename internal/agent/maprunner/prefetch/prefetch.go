// Package prefetch is the prefetch cache: it fetches the files that items name to this
// machine before the items begin, the next ones while others run, a few at a time, in
// bounded room.
//
//	Want --> idle --> coming --> here --> Take       a share is one item's files
//	          ^          |         |
//	          `-- removed, when an older share needs the room
//
// Shares have the order in which they were asked for, and an older one goes first: it is
// given room before a younger one, and the room of a younger one if there is no other. A share that is
// larger than all the room has it alone. What is in place already takes no room.
//
// It refuses to know tries, chunks and where files come from. Proved by its tests, in
// which every byte comes when the test says so, and by those of package map runner.
package prefetch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
)

// Config is what a Cache works with.
type Config struct {
	Dir      string // all is below it; Close removes it
	Room     int64  // bytes that all shares may take
	Parallel int    // shares that come at once
	// Fetch brings what name says to a file: below the folder into, when ours is true
	// or it fails, and else the file has another owner. It asks room before it writes more.
	Fetch func(ctx context.Context, name, into string, room func(context.Context, int64) error) (file string, ours bool, err error)
	// Remove removes a folder and all in it. What stays is Remove's to tell.
	Remove func(dir string)
}

// Want is what an item needs.
type Want struct {
	Item  int
	Names []string
}

// Share is an item's files. The code that took it gives it to Drop or Return, once.
type Share struct {
	Files []string // by name, in order; nil when Err is not
	Err   error    // why they cannot be had

	item int
	dir  string // "": nothing was made
	held int64  // bytes of room
}

// Cache holds the shares that are wanted. Its methods may be called from many
// goroutines, and none waits for a file.
type Cache struct {
	c       Config
	ctx     context.Context
	cancel  context.CancelCauseFunc
	work    sync.WaitGroup
	arrived chan struct{}

	mu          sync.Mutex
	roomChanged chan struct{} // closed, and made anew, when room may have changed
	entries     []*entry      // in the order of Want
	unwanted    []*entry      // not wanted any more, and still coming
	used        int64         // bytes that were granted, all shares together
	takenBytes  int64         // of these, of shares that were taken
	coming      int
	dirs        int
}

// entry is where a share comes to be.
type entry struct {
	*Share
	names        []string
	state        state
	stop         context.CancelFunc // of a share that is coming
	evicted      bool               // it was put out, or is not wanted
	awaitedBytes int64              // bytes that it waits for; 0: it does not
}

type state int

const (
	idle state = iota
	coming
	here
	leaving // its files are being removed
)

// New makes a Cache; Close ends it.
func New(ctx context.Context, c Config) *Cache {
	l := &Cache{c: c, arrived: make(chan struct{}, 1), roomChanged: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(ctx)
	return l
}

// Arrived has a value when a share may be there that was not.
func (l *Cache) Arrived() <-chan struct{} { return l.arrived }

// Want says what is needed from now on, and in which order. What was and is not any
// more is removed. An item stands in it once.
func (l *Cache) Want(wants []Want) {
	l.mu.Lock()
	defer l.mu.Unlock()
	had := make(map[int]*entry, len(l.entries))
	for _, p := range l.entries {
		had[p.item] = p
	}
	l.entries = l.entries[:0]
	for _, w := range wants {
		p := had[w.Item]
		if delete(had, w.Item); p == nil {
			p = &entry{Share: &Share{item: w.Item}, names: w.Names}
		}
		l.entries = append(l.entries, p)
	}
	for _, p := range had {
		l.evictShare(p)
		if p.state == coming || p.state == leaving {
			l.unwanted = append(l.unwanted, p)
		}
	}
	l.startPossible()
}

// Has says whether Take would give the item's share.
func (l *Cache) Has(item int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.indexOfItem(item) >= 0
}

func (l *Cache) indexOfItem(item int) int {
	return slices.IndexFunc(l.entries, func(p *entry) bool { return p.item == item && p.state == here })
}

// Take gives the share of an item that is to begin; nil: it is not there.
func (l *Cache) Take(item int) *Share {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := l.indexOfItem(item)
	if i < 0 {
		return nil
	}
	p := l.entries[i]
	l.entries = slices.Delete(l.entries, i, i+1)
	l.takenBytes += p.held
	return p.Share
}

// Return takes the share of an item back that did not begin: it is there when it is
// wanted again, and goes with the next Want that does not name it.
func (l *Cache) Return(s *Share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takenBytes -= s.held
	p := &entry{Share: s, state: here}
	if again := slices.IndexFunc(l.entries, func(p *entry) bool { return p.item == s.item }); again >= 0 {
		l.evictShare(p) // another comes already
	} else {
		l.entries = slices.Insert(l.entries, 0, p)
	}
	l.startPossible()
}

// Drop removes the share of an item that has ended.
func (l *Cache) Drop(s *Share) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.takenBytes -= s.held
	l.evictShare(&entry{Share: s, state: here})
	l.startPossible()
}

// Close ends what is coming, and removes all files.
func (l *Cache) Close() {
	l.cancel(nil)
	l.work.Wait()
	l.c.Remove(l.c.Dir)
}

// evictShare takes a share's files away. Its room is free once they are.
func (l *Cache) evictShare(p *entry) {
	p.evicted = true
	switch p.state {
	case coming:
		p.stop()
	case here:
		l.removeFiles(p)
	}
}

// removeFiles removes a share's files beside us.
func (l *Cache) removeFiles(p *entry) {
	dir, held := p.dir, p.held
	p.dir, p.Files, p.Err = "", nil, nil
	if dir == "" {
		l.noteRemoved(p, held)
		return
	}
	p.state = leaving
	l.work.Go(func() {
		l.c.Remove(dir)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.noteRemoved(p, held)
		l.startPossible()
	})
}

// noteRemoved is said when the files of a share are gone: it may come again.
func (l *Cache) noteRemoved(p *entry, held int64) {
	l.used -= held
	p.held, p.state, p.evicted = 0, idle, false
	l.unwanted = slices.DeleteFunc(l.unwanted, func(o *entry) bool { return o == p })
}

// startPossible begins what can begin, and wakes the fetches that wait for room.
func (l *Cache) startPossible() {
	close(l.roomChanged)
	l.roomChanged = make(chan struct{})
	for i, p := range l.entries {
		switch {
		case p.state == coming && p.awaitedBytes > 0:
			return // younger ones would only take its room
		case p.state != idle:
			continue
		case l.coming >= l.c.Parallel || l.ctx.Err() != nil || l.used >= l.c.Room && (i > 0 || l.takenBytes > 0):
			return
		}
		l.startFetch(p)
	}
}

// startFetch has a share come.
func (l *Cache) startFetch(p *entry) {
	ctx, stop := context.WithCancel(l.ctx)
	l.dirs++
	p.dir, p.stop, p.state = filepath.Join(l.c.Dir, strconv.Itoa(l.dirs)), stop, coming
	l.coming++
	l.work.Go(func() { // ends with all of it there, an error, or with ctx
		defer stop()
		files, made, err := l.fetchFiles(ctx, p)
		if err != nil {
			l.c.Remove(p.dir)
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.coming--
		p.awaitedBytes, p.state = 0, here
		if p.evicted {
			l.removeFiles(p)
			l.startPossible()
			return
		}
		p.Files, p.Err = files, err
		l.used += made - p.held
		if p.held = made; made == 0 {
			p.dir = ""
		}
		l.startPossible()
		select {
		case l.arrived <- struct{}{}:
		default:
		}
	})
}

// fetchFiles brings the files of a share; made is how many bytes are ours.
func (l *Cache) fetchFiles(ctx context.Context, p *entry) (files []string, made int64, err error) {
	for i, name := range p.names {
		into := p.dir
		if len(p.names) > 1 { // they may be called alike
			into = filepath.Join(p.dir, strconv.Itoa(i+1))
		}
		before := made
		file, ours, err := l.c.Fetch(ctx, name, into, func(ctx context.Context, n int64) error { return l.waitForRoom(ctx, p, before+n) })
		if err != nil {
			return nil, 0, err
		}
		if ours {
			info, err := os.Stat(file)
			if err != nil {
				return nil, 0, fmt.Errorf("fetch %s: %w", filepath.Base(file), err)
			}
			made += max(1, info.Size()) // also an empty one has a folder
		}
		files = append(files, file)
	}
	return files, made, nil
}

// waitForRoom waits until a share that is coming may have n bytes in all.
func (l *Cache) waitForRoom(ctx context.Context, p *entry, n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for p.held < n {
		if err := ctx.Err(); err != nil || p.evicted {
			p.awaitedBytes = 0
			return context.Canceled
		}
		first := l.isOldestWaiting(p)
		if first && (l.used-p.held+n <= l.c.Room || l.used == p.held) {
			l.used += n - p.held
			p.held = n
			break
		}
		if p.awaitedBytes = n; first {
			l.evictYoungest(p)
		}
		turn := l.roomChanged
		l.mu.Unlock()
		select {
		case <-turn:
		case <-ctx.Done():
		}
		l.mu.Lock()
	}
	if p.awaitedBytes > 0 {
		p.awaitedBytes = 0
		l.startPossible()
	}
	return nil
}

// isOldestWaiting says that no older share waits for room.
func (l *Cache) isOldestWaiting(p *entry) bool {
	for _, o := range l.entries {
		if o == p {
			return true
		}
		if o.awaitedBytes > 0 {
			return false
		}
	}
	return true
}

// evictYoungest puts younger shares out, the youngest first, when the end of no running item
// would make room: else nothing would ever go on.
func (l *Cache) evictYoungest(p *entry) {
	if l.takenBytes > 0 {
		return
	}
	need := l.used - p.held + p.awaitedBytes - l.c.Room
	for _, o := range l.unwanted {
		need -= o.held
	}
	for _, o := range slices.Backward(l.entries) {
		if o == p || need <= 0 {
			return
		}
		if o.held > 0 {
			need -= o.held
			if !o.evicted {
				l.evictShare(o)
			}
		}
	}
}
