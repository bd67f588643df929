package host

import "testing"

func TestTrafficIsThatOfAllInterfacesButLoopback(t *testing.T) {
	const text = "Inter-|   Receive                                                |  Transmit\n" +
		" face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n" +
		"    lo: 5000 10 0 0 0 0 0 0 5000 10 0 0 0 0 0 0\n" +
		"  eth0: 1200 10 0 0 0 0 0 0 300 10 0 0 0 0 0 0\n" +
		"wlan0:34 1 0 0 0 0 0 0 56 1 0 0 0 0 0 0\n" +
		" torn: 1 2\n bad: x 1 0 0 0 0 0 0 y 1 0 0 0 0 0 0\n"
	if in, out := parseTraffic(text); in != 1234 || out != 356 {
		t.Errorf("%d in, %d out", in, out)
	}
	if _, _, err := Traffic(); err != nil {
		t.Error(err)
	}
}
