package ledger

import (
	"bytes"
	"context"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/drover-run/drover/store"
)

// fieldBucket is a large store that counts what is asked of it. Its folders are
// those that the protocol lists.
type fieldBucket struct {
	w       *world
	objects map[string][]byte
	folders map[string]*shelf
	total   map[string]int // requests by kind
	second  map[string]int // in this second, by prefix
	now     time.Duration
	peak    map[string]int
	settled time.Duration // when the job had
	up, out int64         // bytes of bodies that were sent and fetched
	claims  []int         // by second
	lost    span          // nothing gets through meanwhile
}

// fieldWay is a process's way there.
type fieldWay struct {
	b *fieldBucket
	p *process
}

// group is the folder that a key is listed in, and its kind: of a chunk's log with
// the two digits that spread them.
func group(key string) (folder, kind string) {
	part := strings.SplitN(key, "/", 6)
	switch {
	case len(part) < 4:
		return key, part[len(part)-1]
	case part[2] == "log":
		return "p/t/log/", "task"
	case part[3] == "chunks" && len(part) > 4:
		return strings.Join(part[:5], "/") + "/", "chunks"
	}
	return strings.Join(part[:4], "/") + "/", part[3]
}

// count is the way there: it fails while nothing gets through, and then no request has
// been made.
func (s fieldWay) count(what, way, key string) (folder string, err error) {
	b := s.b
	if now := s.p.w.now; now >= b.lost.from && now < b.lost.to {
		s.p.sleep(time.Second) // as long as no answer comes
		return "", store.ErrUnclear
	}
	s.p.sleep(s.p.w.between(10*time.Millisecond, 40*time.Millisecond))
	folder, kind := group(key)
	b.total[what+" "+kind]++
	if second := s.p.w.now / time.Second; second != b.now {
		b.now = second
		clear(b.second)
	}
	prefix := way + " of " + folder
	b.second[prefix]++
	name := way + " of " + kind
	b.peak[name] = max(b.peak[name], b.second[prefix])
	return folder, nil
}

// claimed counts a claim in the second that it was made in.
func (b *fieldBucket) claimed() {
	second := int(b.w.now / time.Second)
	for len(b.claims) <= second {
		b.claims = append(b.claims, 0)
	}
	b.claims[second]++
}

func (s fieldWay) Create(_ context.Context, key string, body io.ReadSeeker) error {
	folder, err := s.count("create", "writes", key)
	if err != nil {
		return err
	}
	if _, held := s.b.objects[key]; held {
		return store.ErrExists
	}
	err = s.b.hold(folder, key, body)
	switch text := s.b.objects[key]; {
	case bytes.Contains(text, []byte(`"settled":{`)):
		s.b.settled = s.p.w.now
	case bytes.Contains(text, []byte(`"claimed":{`)):
		s.b.claimed()
	}
	return err
}

func (s fieldWay) Put(_ context.Context, key string, body io.ReadSeeker) error {
	folder, err := s.count("put", "writes", key)
	if err != nil {
		return err
	}
	return s.b.hold(folder, key, body)
}

func (b *fieldBucket) hold(folder, key string, body io.ReadSeeker) error {
	text, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	o := store.Object{Key: key, Size: int64(len(text)), Time: epoch.Add(b.w.now)}
	if b.up += o.Size; strings.HasSuffix(folder, "/results/") {
		text = nil // no working agent reads one, and there are gigabytes of them
	}
	if b.folders[folder] == nil {
		b.folders[folder] = &shelf{}
	}
	b.folders[folder].put(o)
	b.objects[key] = text
	return nil
}

// shelf is a folder's objects in the order of their keys, in boxes, so that one more
// among a hundred thousand moves a few hundred.
type shelf struct{ boxes [][]store.Object }

const boxHolds = 512

// find is where a key stands, or would.
func (s *shelf) find(key string) (box, at int, held bool) {
	box, _ = slices.BinarySearchFunc(s.boxes, key, func(b []store.Object, key string) int { return strings.Compare(b[len(b)-1].Key, key) })
	if box == len(s.boxes) {
		return box, 0, false
	}
	at, held = slices.BinarySearchFunc(s.boxes[box], key, func(o store.Object, key string) int { return strings.Compare(o.Key, key) })
	return box, at, held
}

func (s *shelf) put(o store.Object) {
	box, at, held := s.find(o.Key)
	switch {
	case held:
		s.boxes[box][at] = o
		return
	case len(s.boxes) == 0:
		s.boxes = [][]store.Object{{o}}
		return
	case box == len(s.boxes): // behind all
		box--
		at = len(s.boxes[box])
	}
	b := slices.Insert(s.boxes[box], at, o)
	if s.boxes[box] = b; len(b) > boxHolds {
		half := len(b) / 2
		s.boxes[box] = b[:half:half]
		s.boxes = slices.Insert(s.boxes, box+1, slices.Clone(b[half:]))
	}
}

func (s *shelf) remove(key string) {
	box, at, held := s.find(key)
	if !held {
		return
	}
	if s.boxes[box] = slices.Delete(s.boxes[box], at, at+1); len(s.boxes[box]) == 0 {
		s.boxes = slices.Delete(s.boxes, box, box+1)
	}
}

// page gives the objects from a key on, or those after it, so many at most.
func (s *shelf) page(from string, after bool, most int) (page []store.Object, more bool) {
	box, at, held := s.find(from)
	if held && after {
		at++
	}
	if box < len(s.boxes) {
		page = make([]store.Object, 0, min(most, boxHolds*(len(s.boxes)-box)))
	}
	for ; box < len(s.boxes); box, at = box+1, 0 {
		n := min(len(s.boxes[box])-at, most-len(page))
		page = append(page, s.boxes[box][at:at+n]...)
		if at+n < len(s.boxes[box]) {
			return page, true
		}
	}
	return page, false
}

func (s fieldWay) Get(_ context.Context, key string, _, _ int64) (io.ReadCloser, error) {
	folder, err := s.count("get", "reads", key)
	if err != nil {
		return nil, err
	}
	text, held := s.b.objects[key]
	if !held {
		return nil, store.ErrNotExist
	}
	if strings.HasSuffix(folder, "/results/") {
		s.p.w.violate("the field keeps no snapshots, and %s is read", key)
	}
	s.b.out += int64(len(text))
	return io.NopCloser(strings.NewReader(string(text))), nil
}

func (s fieldWay) List(_ context.Context, prefix, after string, _ int) (page []store.Object, more bool, err error) {
	const most = 1000 // as S3 does
	folder, err := s.count("list", "reads", prefix)
	if err != nil {
		return nil, false, err
	}
	all := s.b.folders[folder]
	if all == nil {
		return nil, false, nil
	}
	page, more = all.page(max(prefix, after), after >= prefix, most)
	return page, more, nil
}

func (s fieldWay) Delete(_ context.Context, key string) error {
	folder, err := s.count("delete", "writes", key)
	if err != nil {
		return err
	}
	if all := s.b.folders[folder]; all != nil {
		all.remove(key)
		delete(s.b.objects, key)
	}
	return nil
}

func (s fieldWay) String() string { return "field" }
