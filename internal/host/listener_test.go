package host

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

const tcpTable = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:2711 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41 1 0000000000000000 100 0 0 10 0
   1: 0100007F:2711 0100007F:9C40 01 00000000:00000000 00:00000000 00000000  1001        0 42 1 0000000000000000 20 4 30 10 -1
   2: 00000000:2712 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1002        0 43 1 0000000000000000 100 0 0 10 0
   3: 00000000000000000000000000000000:2711 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 00000000 54321        0 44 1
   4: 00000000:2711 00000000:0000 0A 00000000:00000000 00:00000000 00000000
   5: 00000000 00000000:0000 0A 00000000:00000000 00:00000000 00000000 x 0 45 1
`

func TestOnlyListenersOfThePortAreRead(t *testing.T) {
	want := []Listener{{UID: 1000, Socket: 41}, {UID: 54321, Socket: 44}}
	if diff := cmp.Diff(want, parseListeners(tcpTable, 10001)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func FuzzListeners(f *testing.F) {
	f.Add(tcpTable, 10001)
	f.Fuzz(func(t *testing.T, text string, port int) {
		for _, l := range parseListeners(text, port) {
			if l.UID < 0 || port < 0 || port > 65535 {
				t.Errorf("%+v on port %d", l, port)
			}
		}
	})
}
