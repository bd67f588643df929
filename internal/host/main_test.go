package host

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"
)

// The test binary plays the other processes of this machine, too.
func TestMain(m *testing.M) {
	role := os.Getenv("HOST_TEST_ROLE")
	os.Unsetenv("HOST_TEST_ROLE")
	switch role {
	case "":
		os.Exit(m.Run())
	case "look":
		n, err := LookNetwork()
		must(err)
		must(json.NewEncoder(os.Stdout).Encode([]Network{n, Loopback()}))
	case "hold":
		playHold(os.Args[1])
	case "race":
		playRace(os.Args[1])
	case "idle":
		fmt.Println("idle")
		io.Copy(io.Discard, os.Stdin)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// another is this test's program in another part, not started yet.
func another(t *testing.T, role string, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "HOST_TEST_ROLE="+role)
	cmd.Stderr = os.Stderr
	return cmd
}

// two are GPUs that are nowhere.
var two = []GPU{{Index: 0, UUID: "GPU-aaaa"}, {Index: 1, UUID: "GPU-bbbb"}}

// playHold takes both GPUs, starts a child that outlives it, says so and does
// not let go, unless the test itself ends.
func playHold(folder string) {
	_, _, err := Claims{Folder: folder}.Take(context.Background(), two, 2, "the one that is killed", nil)
	must(err)
	self, err := os.Executable()
	must(err)
	child := exec.Command(self)
	child.Env = append(os.Environ(), "HOST_TEST_ROLE=idle")
	child.Stdin = os.Stdin
	must(child.Start())
	fmt.Println("held")
	io.Copy(io.Discard, os.Stdin)
}

// playRace takes one or both GPUs, over and over. A file that must not be there
// yet stands for the use of each.
func playRace(folder string) {
	bufio.NewReader(os.Stdin).ReadString('\n')
	c := Claims{Folder: folder, wait: func(ctx context.Context, _ time.Duration) error { return pause(ctx, 50*time.Microsecond) }}
	for round := range raceRounds {
		held, release, err := c.Take(context.Background(), two, 1+round%2, "racer", nil)
		must(err)
		if len(held) != 1+round%2 {
			must(fmt.Errorf("round %d gave %d GPUs", round, len(held)))
		}
		for _, g := range held {
			f, err := os.OpenFile(filepath.Join(folder, "used-"+strconv.Itoa(g.Index)), os.O_CREATE|os.O_EXCL, 0o600)
			must(err)
			f.Close()
		}
		for _, g := range held {
			must(os.Remove(filepath.Join(folder, "used-"+strconv.Itoa(g.Index))))
		}
		release()
		release()
	}
	fmt.Println("fair")
}

const raceRounds = 50
