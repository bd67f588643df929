package drover

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-run/drover/store"
)

// probeLasts is how long a store that passed its trial counts as sound on this
// machine: a server changes with its next version, and a trial costs as many requests
// as half a short job.
const probeLasts = 24 * time.Hour

// probeForm changes when a later drover's trial asks for more.
const probeForm = "1"

// probeStore tries a store out, unless it passed a moment ago: in this client, or, where
// requests cost something, on this machine and in this day. Only success is
// remembered, by the store's whole name, so a store that lies is refused each time.
func (c *Client) probeStore(ctx context.Context) error {
	c.probing.Lock()
	defer c.probing.Unlock()
	if c.sound {
		return nil
	}
	file := ""
	if !c.near {
		file = passFile(c.engine.Caller.Cache, c.world.Store)
	}
	if c.sound = hasPassed(file, c.world.Store.Clock().Now()); c.sound {
		return nil
	}
	if err := c.world.Store.Probe(ctx); err != nil {
		return err
	}
	c.sound = true
	if file != "" && os.MkdirAll(filepath.Dir(file), 0o700) == nil {
		_ = os.WriteFile(file, []byte(c.world.Store.String()+"\n"), 0o600) // else the next command tries it out again
	}
	return nil
}

// passFile is there when a store has passed, since its last change.
func passFile(cache string, s *store.Store) string {
	name := sha256.Sum256([]byte(probeForm + " " + s.String()))
	return filepath.Join(cache, "probed", hex.EncodeToString(name[:16]))
}

// hasPassed says whether file tells of a trial in the day before now. One of the future
// was written by another clock.
func hasPassed(file string, now time.Time) bool {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	age := now.Sub(info.ModTime())
	return age > -time.Minute && age < probeLasts
}
