package host

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Traffic counts the bytes that have come to and left this network stack since it
// began, over all its interfaces but loopback. Those of one program are not told
// apart; what crosses a bridge of the machine's own is counted on each side.
func Traffic() (in, out int64, err error) {
	b, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		return 0, 0, fmt.Errorf("count network traffic: %w", err)
	}
	in, out = parseTraffic(string(b))
	return in, out, nil
}

// parseTraffic reads "eth0: bytes packets errs drop fifo frame compressed multicast
// bytes ...", a line for each interface after two of headings.
func parseTraffic(text string) (in, out int64) {
	for line := range strings.Lines(text) {
		name, counts, ok := strings.Cut(line, ":")
		fields := strings.Fields(counts)
		if !ok || strings.TrimSpace(name) == "lo" || len(fields) < 9 {
			continue
		}
		received, err := strconv.ParseInt(fields[0], 10, 64)
		sent, err2 := strconv.ParseInt(fields[8], 10, 64)
		if err == nil && err2 == nil {
			in, out = in+received, out+sent
		}
	}
	return in, out
}
