package host

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
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
	case "room-hold":
		playRoomHold(os.Args[1])
	case "room-race":
		playRoomRace(os.Args[1], os.Args[2])
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

const raceRounds = 50
