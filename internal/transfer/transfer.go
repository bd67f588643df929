// Package transfer copies folders and files to any bucket and back: Put sends what
// is missing or has changed below a name, Get brings it.
//
// What it promises:
//
//   - A second run goes on where the first ended, and sends or brings only what is
//     missing or has changed. What that is, one listing and the files' own sizes and
//     times decide; where a time leaves it open, the MD5 that many buckets tell
//     (Object.Tag) does, and where there is none, the file is copied again.
//   - A file or object is there whole or not at all, whenever a run is ended. Files
//     are written under another name, in a folder of the run's own that the next run
//     sweeps, and objects appear when all of them has arrived.
//   - A large object comes in pieces, side by side, all of one and the same object: one
//     that is replaced meanwhile comes anew. The pieces that are here when a run is
//     ended stay, and the next run goes on with them if the object is still that one.
//     What of a large file has arrived in a bucket when a run is ended the next one
//     from this machine does not send again (Options.Notes).
//   - What is sent carries a checksum that the bucket verifies, and what is brought is
//     compared with the one the bucket has of it: that is the bucket's work (store/s3,
//     store/gcs), as are parts, ranges and broken connections; of pieces it is done here.
//   - Nothing is written outside the target, whatever objects are called, and through
//     no link. Names that cannot be files, and files that cannot be objects, are left
//     out, counted, and named in the error at the end; everything else is copied.
//   - Two runs at once on one target do no harm: the later one of each object wins.
//   - Memory does not grow with the number or the size of what is copied.
//
// Nothing is ever deleted. Links to files are sent as the files they lead to; links
// to folders, pipes, sockets and devices are not sent, and counted. What is brought
// gets the time at which the object was written, by which the next run knows it, and
// is not synced to the disk: after a power cut run it again with Checksum.
//
// It refuses to know what the files mean, the bucket's owner, and what drover keeps
// in one. Proved over a bucket in memory, over one that loses answers, and by scripts
// and races over servers.
package transfer

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// Options say how. The zero value is right for most.
type Options struct {
	// Checksum compares contents also where size and time say that nothing changed.
	Checksum bool
	// Notes is a folder of this machine's, where Put notes how far it is with large
	// files: one that was ended goes on inside them, if it finds its notes. What they
	// hold lets any reader of them resume it, too. "": large files begin anew.
	Notes string
	// Away is called once the bucket has done nothing of what it is asked for
	// AwayLeast, with what came back last, and Back when it answers again, with how long
	// that was. They may be nil.
	Away func(length time.Duration, last error)
	Back func(length time.Duration)
	// Watch is called about ten times a second while it goes on, and once at the end,
	// from one goroutine. It may be nil.
	Watch func(report.CopyProgress)

	workers int   // 0: the default
	piece   int64 // of large objects; 0: the default
}

// AwayLeast is how long a bucket may do nothing before that is said.
const AwayLeast = 5 * time.Second

// reportOutages says that a bucket is away, until its answer is called.
func (o Options) reportOutages(ctx context.Context, s *store.Store) (end func()) {
	if o.Away == nil || o.Back == nil {
		return func() {}
	}
	ctx, quit := context.WithCancel(ctx)
	var hands sync.WaitGroup
	hands.Go(func() { s.Mind(ctx, AwayLeast, o.Away, o.Back) })
	return func() { quit(); hands.Wait() }
}

// workers is how many files are under way at once. The requests of small ones take
// tens of milliseconds at a real bucket, of which a processor is busy for a tenth of
// one; it is also how many connections store/s3 keeps.
const workers = 64

// page is how many objects are asked for at once: as many as S3 gives, so that work
// begins with the first answer.
const page = 1000

// Place is somewhere in a bucket. A Key that is empty or ends in a slash is a folder.
type Place struct {
	Store *store.Store
	Key   string
}

func (p Place) String() string {
	text, query, _ := strings.Cut(p.Store.String(), "?")
	if p.Key != "" {
		text += "/" + p.Key
	}
	if query != "" {
		text += "?" + query
	}
	return text
}

// folderPrefix is the prefix of what is below the place.
func (p Place) folderPrefix() string {
	if p.Key == "" || strings.HasSuffix(p.Key, "/") {
		return p.Key
	}
	return p.Key + "/"
}

// IsURL says whether text names a place in a bucket, and not a file of this machine.
func IsURL(text string) bool {
	for _, scheme := range []string{"s3://", "gs://", "file://"} {
		if strings.HasPrefix(text, scheme) {
			return true
		}
	}
	return false
}

// Split parts scheme://bucket/key?query into what opens the bucket, and the key in
// it, which is taken as it is typed. Of file:///folder/name the last name is the key.
func Split(url string) (bucket, key string, err error) {
	scheme, rest, ok := strings.Cut(url, "://")
	rest, query, asked := strings.Cut(rest, "?")
	if asked {
		query = "?" + query
	}
	if scheme == "file" {
		slash := strings.LastIndexByte(strings.TrimRight(rest, "/"), '/')
		if slash < 0 || asked || rest == "/" {
			return "", "", fault.New(fault.Invalid, "Write it as file:///folder/name.", "read %q: a file:// URL has an absolute path and no query", store.Shown(url))
		}
		return "file://" + rest[:slash+1], rest[slash+1:], nil
	}
	name, key, _ := strings.Cut(rest, "/")
	if strings.ContainsAny(name, ":@") && strings.Contains(rest, "@") || store.HasUserinfo(url) { // a key may hold slashes
		return "", "", fault.New(fault.Invalid, "Write it as s3://bucket/folder or gs://bucket/folder.", "read %q: a URL holds no keys: they come from the environment or a profile", store.Shown(url))
	}
	if !ok || name == "" || !IsURL(url) {
		return "", "", fault.New(fault.Invalid, "Write it as s3://bucket/folder or gs://bucket/folder.", "read %q: no bucket is named", store.Shown(url))
	}
	return scheme + "://" + name + query, strings.TrimLeft(key, "/"), nil
}

// run is one Put or Get.
type run struct {
	o     Options
	doing string // "put data to s3://bucket/data"

	files, same, bytes, sameBytes atomic.Int64
	found, foundBytes, leftOut    atomic.Int64
	counted                       atomic.Bool

	mu      sync.Mutex
	refused []string // the first ones that could not be copied, and why
	many    int      // all of those
	over    bool     // all was tried; what was left out will be so again
}

// noteRefusal notes a name that cannot be on the other side.
func (r *run) noteRefusal(name, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.many++; len(r.refused) < 3 {
		r.refused = append(r.refused, fmt.Sprintf("%.200q: %s", name, why))
	}
}

func (r *run) currentProgress() report.CopyProgress {
	return report.CopyProgress{Files: r.files.Load(), Same: r.same.Load(), Bytes: r.bytes.Load(), SameBytes: r.sameBytes.Load(),
		Found: r.found.Load(), FoundBytes: r.foundBytes.Load(), Counted: r.counted.Load()}
}

// carry has workers do what plan gives out, until all of it is done or something
// went wrong.
func carry[T any](ctx context.Context, r *run, plan func(ctx context.Context, give func(T) error) error, do func(context.Context, T) error) (report.Copied, error) {
	begun := time.Now()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := r.reportProgress()
	work := make(chan T, 4*workers)
	var all sync.WaitGroup
	count := workers
	if r.o.workers > 0 {
		count = r.o.workers
	}
	for range count {
		all.Go(func() {
			for t := range work {
				if ctx.Err() == nil {
					if err := do(ctx, t); err != nil {
						stop(err)
					}
				}
			}
		})
	}
	err := plan(ctx, func(t T) error {
		select {
		case work <- t:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	r.counted.Store(err == nil)
	close(work)
	all.Wait()
	if first := context.Cause(ctx); first != nil {
		err = first // what plan says is its echo
	}
	watched()
	return report.Copied{CopyProgress: r.currentProgress(), LeftOut: r.leftOut.Load(), Took: time.Since(begun)}, r.finalError(err)
}

// finalError is the error at the end.
func (r *run) finalError(err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", r.doing, err)
	case r.many == 0:
		r.over = true
		return nil
	}
	r.over = true
	text := strings.Join(r.refused, "; ")
	if more := r.many - len(r.refused); more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return fault.New(fault.Invalid, "Everything else is there: rename these.", "%s: left out %s", r.doing, text)
}

// reportProgress calls Watch until its answer is called.
func (r *run) reportProgress() (end func()) {
	if r.o.Watch == nil {
		return func() {}
	}
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				r.o.Watch(r.currentProgress())
			case <-over:
				r.o.Watch(r.currentProgress())
				return
			}
		}
	}()
	return func() { close(over); <-ended }
}

// listed is a listing that is asked for while what came before is worked on.
func listed(ctx context.Context, s *store.Store, prefix string) (next func() (store.Object, bool, error), stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	objects := make(chan store.Object, 4*page)
	var failed error
	go func() {
		defer close(objects)
		for o, err := range s.ListBy(ctx, prefix, page) {
			if err != nil {
				failed = err
				return
			}
			select {
			case objects <- o:
			case <-ctx.Done():
				return
			}
		}
	}()
	next = func() (store.Object, bool, error) {
		o, ok := <-objects
		if !ok {
			return o, false, failed
		}
		return o, true, nil
	}
	return next, func() {
		cancel()
		for range objects { // until it has ended
		}
	}
}

// isMD5 says whether a bucket's tag is the MD5 of what an object holds: 32 digits. Of
// one that was sent in parts it has a dash, of one under a customer's key it is no
// MD5, which costs a copy and nothing else.
func isMD5(tag string) bool {
	if len(tag) != 2*md5.Size {
		return false
	}
	_, err := hex.DecodeString(tag)
	return err == nil
}

// holds says whether a file's content is that of a tag.
func holds(ctx context.Context, f *os.File, tag string) (bool, error) {
	h := md5.New()
	if _, err := io.Copy(h, stopped{ctx, f}); err != nil {
		return false, err
	}
	_, err := f.Seek(0, io.SeekStart)
	return strings.EqualFold(hex.EncodeToString(h.Sum(nil)), tag), err
}

// stopped ends a long read when ctx is done.
type stopped struct {
	ctx context.Context
	io.Reader
}

func (s stopped) Read(p []byte) (int, error) {
	if err := context.Cause(s.ctx); err != nil {
		return 0, err
	}
	return s.Reader.Read(p)
}

// nothing is what a place without objects is.
func nothing() error {
	return fault.New(fault.Missing, "Check the name; the listing of what is there is the bucket's own: `aws s3 ls`, `gcloud storage ls`.", "nothing is there")
}
