package drivertest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"testing"

	"github.com/drover-run/drover/driver"
	"github.com/drover-run/drover/store"
)

// Program is the test's own program, as machines fetch it that are this one; it is said to be for linux/amd64.
func Program(t *testing.T) driver.Program {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(text)
	return driver.Program{System: "linux/amd64", SHA256: hex.EncodeToString(sum[:]), Size: int64(len(text)), Downloads: []store.Download{{Tool: "cat", Command: "cat " + store.Quote(path)}}}
}
