package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-run/drover/bench/bucket"
	"github.com/drover-run/drover/bench/process"
)

// What of s5cmd's time drover's copies may take at most. The figures of small files
// are what a client that sends nothing but the requests reaches, beside the same
// server on the same cores, and a little more.
const (
	maxSmallCopy = 0.6
	maxLookAgain = 0.5
	maxBigUp     = 0.8
	maxBigDown   = 1.1
)

const (
	copyFiles = 10_000
	copyBytes = 4 << 10
	bigBytes  = 1 << 30
)

var copySections = []section{{name: "copy", trial: copies}}

// leg is one way of a copy, by both.
type leg struct {
	what       string
	ours, peer string // lines for the shell, which find the bucket's round in $r
	before     string // what is taken away before each
	most       float64
}

var legs = []leg{
	{"small files up", "drover put -q small s3://bench/ours-$r", `s5cmd cp small/ s3://bench/peer-$r/`, "true", maxSmallCopy},
	{"the same again", "drover put -q small s3://bench/ours-$r", `s5cmd sync --size-only small/ s3://bench/peer-$r/`, "true", maxLookAgain},
	{"small files down", "drover get -q s3://bench/ours-$r down", `s5cmd cp "s3://bench/peer-$r/*" down/`, "rm -rf down", maxSmallCopy},
	{"one large file up", "drover put -q big s3://bench/ours-big-$r", `s5cmd cp big s3://bench/peer-big-$r`, "true", maxBigUp},
	{"one large file down", "drover get -q s3://bench/ours-big-$r big2", `s5cmd cp s3://bench/peer-big-$r big2`, "rm -f big2", maxBigDown},
}

// copies times drover put and get beside s5cmd, against one server in this process.
// Both copy from and to a folder in memory, where there is one: it is programs that
// are measured, and no disk.
func copies(ctx context.Context, h *hall) (_ string, _ []string, err error) {
	what := fmt.Sprintf("copy %s files of 4 KiB, and one of 1 GiB, to a bucket in memory and back", grouped(h.cutItems(copyFiles)))
	if _, err := os.Stat(filepath.Join(h.peers, "bin", "s5cmd")); err != nil {
		return "to " + what + "\n  not measured: no s5cmd in " + h.peers + ": make bench-peers\n", nil, nil
	}
	dir, err := memoryFolder(h.dir)
	if err != nil {
		return "", nil, err
	}
	server, stop := bucket.ServeMemory()
	defer func() {
		stop()
		err = errors.Join(err, os.RemoveAll(dir))
	}()
	if err := layCopies(dir, h.cutItems(copyFiles), h.cutItems(bigBytes>>20)); err != nil {
		return "", nil, err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "to %s; below %s\n", what, filepath.Dir(dir))
	took := map[string][2]times{}
	for round := range h.options.rounds + 1 { // the first for nothing
		server.RemoveAll()
		for _, l := range legs {
			both, err := h.timeCopies(ctx, dir, server.URL, l, round)
			if err != nil {
				return "", nil, err
			}
			if round > 0 {
				t := took[l.what]
				took[l.what] = [2]times{append(t[0], both[0]), append(t[1], both[1])}
			}
		}
		if err := sameInside(server, round); err != nil {
			return "", nil, err
		}
	}
	var broken []string
	for _, l := range legs {
		ours, peer := took[l.what][0].medianTime(), took[l.what][1].medianTime()
		ratio := float64(ours) / float64(peer)
		fmt.Fprintf(&b, "  %-20s drover %10s   s5cmd %10s   %.2f times\n", l.what, millis(ours), millis(peer), ratio)
		broken = append(broken, verdict(&b, fmt.Sprintf("%s take at most %.1f times as long as with s5cmd", l.what, l.most), ratio <= l.most, fmt.Sprintf("%.2f", ratio))...)
	}
	return b.String(), broken, nil
}

// timeCopies times one leg by both, in turn.
func (h *hall) timeCopies(ctx context.Context, dir, url string, l leg, round int) (both [2]time.Duration, err error) {
	head := fmt.Sprintf("cd '%s' && r=%d PATH=\"$peers/bin:$PATH\" && export AWS_ENDPOINT_URL=%s S3_ENDPOINT_URL=%s AWS_REGION=us-east-1 "+
		"AWS_ACCESS_KEY_ID=bench AWS_SECRET_ACCESS_KEY=benchbench AWS_EC2_METADATA_DISABLED=true && ", dir, round, url, url)
	for i, line := range []string{l.ours, l.peer} {
		if _, _, err := h.timeCommand(ctx, head+l.before, 0); err != nil {
			return both, err
		}
		if _, both[i], err = h.timeCommand(ctx, head+line+" >/dev/null", 0); err != nil {
			return both, err
		}
		if strings.HasPrefix(l.before, "rm") { // it has brought something
			if _, _, err := h.timeCommand(ctx, head+"if test -d down; then diff -rq small down; fi && if test -f big2; then cmp big big2; fi", 0); err != nil {
				return both, err
			}
		}
	}
	return both, nil
}

// sameInside says whether both have stored the same.
func sameInside(server *bucket.Memory, round int) error {
	ours, oursBytes := server.SizeBelow(fmt.Sprintf("ours-%d/", round))
	peer, peerBytes := server.SizeBelow(fmt.Sprintf("peer-%d/", round))
	if ours != peer || oursBytes != peerBytes || ours == 0 {
		return fmt.Errorf("compare what was stored: ours %d objects, %d bytes; s5cmd's %d, %d", ours, oursBytes, peer, peerBytes)
	}
	return nil
}

// memoryFolder makes a folder in memory, or below dir.
func memoryFolder(dir string) (string, error) {
	if process.FileSystem("/dev/shm") == "tmpfs" {
		dir = "/dev/shm"
	}
	return os.MkdirTemp(dir, "drover-bench-")
}

// layCopies makes small, a hundred folders of files, and big.
func layCopies(dir string, files, megabytes int) error {
	r := rand.NewChaCha8([32]byte{1})
	small := make([]byte, copyBytes)
	for i := range files {
		folder := filepath.Join(dir, "small", fmt.Sprintf("%02d", i%100))
		if i < 100 {
			if err := os.MkdirAll(folder, 0o700); err != nil {
				return err
			}
		}
		_, _ = r.Read(small) // it never fails
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%05d", i)), small, 0o600); err != nil {
			return err
		}
	}
	f, err := os.Create(filepath.Join(dir, "big"))
	if err != nil {
		return err
	}
	block := make([]byte, 1<<20)
	for range megabytes {
		_, _ = r.Read(block)
		if _, err := f.Write(block); err != nil {
			return errors.Join(err, f.Close())
		}
	}
	return f.Close()
}
