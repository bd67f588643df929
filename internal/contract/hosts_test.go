package contract_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-run/drover/internal/contract"
)

func TestHostsFileNamesTheNodes(t *testing.T) {
	const ours = "10.0.0.1 algo-1\n10.0.0.2 algo-2\n"
	for _, row := range []struct{ name, machine, want string }{
		{"nothing there", "", ours},
		{"all stays", "127.0.0.1 localhost\n# algo-1 is a name\n\n::1\tlocalhost ip6-localhost\n",
			"127.0.0.1 localhost\n# algo-1 is a name\n\n::1\tlocalhost ip6-localhost\n" + ours},
		{"no newline at the end", "127.0.0.1 localhost", "127.0.0.1 localhost\n" + ours},
		{"older lines go", "10.9.9.9 algo-1\n127.0.0.1 localhost\n10.9.9.8\talgo-2   # of another job\n", "127.0.0.1 localhost\n" + ours},
		{"in any case", "10.9.9.9 ALGO-1\n", ours},
		{"both in one line", "10.9.9.9 algo-1 algo-2", ours},
		{"other names of the line stay", "127.0.1.1 \t box algo-1  box.lan\n", "127.0.1.1 box box.lan\n" + ours},
		{"and its comment", "127.0.1.1 algo-2 box # mine\n", "127.0.1.1 box # mine\n" + ours},
		{"and its comment, at the end", "127.0.1.1 algo-2 box # mine", "127.0.1.1 box # mine\n" + ours},
		{"names that only look alike", "10.0.0.9 algo-10 algo-1.lan\n", "10.0.0.9 algo-10 algo-1.lan\n" + ours},
		{"a line that says nothing", "algo-1\n", "algo-1\n" + ours},
	} {
		if diff := cmp.Diff(row.want, string(node(0, 2).HostsFile([]byte(row.machine)))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", row.name, diff)
		}
	}
}

func TestHostsFileNamesOnlyWhatHasAnAddress(t *testing.T) {
	f := node(0, 2)
	f.Peers = []contract.Peer{{Address: "fd00::1", Port: 1}, {Address: "box.lan", Port: 1}}
	const machine = "10.9.9.9 algo-1\n10.9.9.8 algo-2\n"
	if got, want := string(f.HostsFile([]byte(machine))), "10.9.9.8 algo-2\nfd00::1 algo-1\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for name, peers := range map[string][]contract.Peer{"no peers": nil, "no addresses": {{Address: "box.lan"}, {}}} {
		f.Peers = peers
		if got := f.HostsFile([]byte(machine)); got != nil {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

// resolve reads a hosts file as the system does: the first line that has a name wins.
func resolve(text string) map[string]string {
	found := map[string]string{}
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		for i, name := range fields {
			if name = strings.ToLower(name); i > 0 && found[name] == "" {
				found[name] = fields[0]
			}
		}
	}
	return found
}

// FuzzHostsFile: whatever the machine's file says, nodes are found at their
// addresses and all other names where they were.
func FuzzHostsFile(f *testing.F) {
	for _, text := range []string{"", "1.2.3.4 algo-1 b#c\n", "1.1.1.1 Algo-2\r\n\n 2.2.2.2\tx algo-1", "a b\x00c algo-1\nalgo-1 algo-1\n", "1 \x85algo-1\n#\n"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		want := resolve(text)
		maps.Copy(want, map[string]string{"algo-1": "10.0.0.1", "algo-2": "10.0.0.2"})
		got := node(0, 2).HostsFile([]byte(text))
		if diff := cmp.Diff(want, resolve(string(got))); diff != "" {
			t.Fatalf("%q (-want +got):\n%s", text, diff)
		}
		if again := node(0, 2).HostsFile(got); !slices.Equal(got, again) {
			t.Fatalf("%q: a second time it is %q, not %q", text, again, got)
		}
	})
}
