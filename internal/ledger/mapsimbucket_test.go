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
	folders map[string][]store.Object // in order of keys
	total   map[string]int            // requests by kind
	second  map[string]int            // in this second, by prefix
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

// count is the way there: it fails while nothing gets through, and then nobody has
// been asked.
func (s fieldWay) count(what, way, key string) (folder string, err error) {
	b := s.b
	if now := s.p.w.now; now >= b.lost.from && now < b.lost.to {
		s.p.sleep(time.Second) // as long as nobody answers
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
		text = nil // nobody who works reads one, and there are gigabytes of them
	}
	i, held := b.find(folder, key)
	if !held {
		b.folders[folder] = slices.Insert(b.folders[folder], i, o)
	}
	b.folders[folder][i], b.objects[key] = o, text
	return nil
}

func (b *fieldBucket) find(folder, key string) (int, bool) {
	return slices.BinarySearchFunc(b.folders[folder], key, func(o store.Object, key string) int { return strings.Compare(o.Key, key) })
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
	i, found := s.b.find(folder, max(prefix, after))
	all := s.b.folders[folder]
	if found && all[i].Key == after {
		i++
	}
	all = all[i:]
	return slices.Clone(all[:min(most, len(all))]), len(all) > most, nil
}

func (s fieldWay) Delete(_ context.Context, key string) error {
	folder, err := s.count("delete", "writes", key)
	if err != nil {
		return err
	}
	if i, held := s.b.find(folder, key); held {
		s.b.folders[folder] = slices.Delete(s.b.folders[folder], i, i+1)
		delete(s.b.objects, key)
	}
	return nil
}

func (s fieldWay) String() string { return "field" }
