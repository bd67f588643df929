package drover_test

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/driver/mem"
	"github.com/drover-run/drover/drover"
	"github.com/drover-run/drover/internal/agent"
	"github.com/drover-run/drover/internal/agent/node"
	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/internal/proc"
	"github.com/drover-run/drover/internal/proc/process"
	"github.com/drover-run/drover/job"
	"github.com/drover-run/drover/store"
	storemem "github.com/drover-run/drover/store/mem"
)

func TestMain(m *testing.M) {
	proc.Main() // programs are started through this very binary
	os.Exit(m.Run())
}

// open makes a client with memory as its store and, as its only target, agents in this
// process: real agents that run real programs. A real program passes dir.Open's bucket and
// local.New's driver instead, and nothing else differs. The current folder of the client
// is a new one that holds files.
func open(files map[string]string) (c *drover.Client, folder string, done func()) {
	bucket, place, folder, done := world(files)
	c, err := drover.Open(context.Background(), drover.Options{Bucket: bucket, Near: true, Folder: folder,
		Drivers: map[string]driver.Opened{mem.Name: mem.Open(place)}, Cache: filepath.Join(filepath.Dir(folder), "cache")})
	if err != nil {
		panic(err)
	}
	return c, folder, done
}

// world is what open makes its client of.
func world(files map[string]string) (bucket store.Bucket, place *mem.Driver, folder string, done func()) {
	base, err := os.MkdirTemp("", "drover-example-")
	if err != nil {
		panic(err)
	}
	folder = filepath.Join(base, "code") // drover's own files are not in it
	if err := os.Mkdir(folder, 0o755); err != nil {
		panic(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o755); err != nil {
			panic(err)
		}
	}
	bucket = storemem.New()
	place = mem.New(func(ctx context.Context, r driver.Request, index int) error {
		notice := make(chan node.Notice, 1)
		stop := context.AfterFunc(ctx, func() {
			notice <- node.Notice{Asked: errors.Is(context.Cause(ctx), mem.ErrAsked), Why: context.Cause(ctx).Error()}
		})
		defer stop()
		parts := strings.SplitN(r.Run.Job, "/", 3)
		w := protocol.World{Store: store.New(bucket, store.Options{}), Rand: rand.Reader, Gone: func(h protocol.Host) (gone, known bool) { return process.Identity(h).Gone() }}
		_, err := agent.Run(context.Background(), node.Config{World: w, Path: job.Path{Project: parts[0], Task: parts[1], Job: parts[2]},
			Placement: r.Placement, Index: index, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Machine: node.Machine{Self: protocol.Host(process.Self()), Name: "here", CPUs: 1, Near: true, Notice: notice, Environ: os.Environ(),
				Work: filepath.Join(base, "work"), Cache: filepath.Join(base, "cache")}})
		return err
	})
	return bucket, place, folder, func() {
		place.Close()
		os.RemoveAll(base)
	}
}
