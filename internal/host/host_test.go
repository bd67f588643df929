package host

import (
	"encoding/json"
	"net"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTheAddressOfThisMachineIsItsOwn(t *testing.T) {
	n, err := LookNetwork()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", net.JoinHostPort(n.Address, "0"))
	if err != nil {
		t.Fatalf("nobody can listen on %s: %v", n.Address, err)
	}
	defer l.Close()
	i, err := net.InterfaceByName(n.Interface)
	if err != nil {
		t.Fatalf("interface %q: %v", n.Interface, err)
	}
	addresses, err := i.Addrs()
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, a := range addresses {
		p, err := netip.ParsePrefix(a.String())
		found = found || err == nil && p.Addr().String() == n.Address
	}
	if !found {
		t.Errorf("%s has %v, and not %s", n.Interface, addresses, n.Address)
	}
	if n.Stack == "" {
		t.Error("the network stack has no name")
	}
}

func TestLoopbackIsOnTheSameStack(t *testing.T) {
	n, err := LookNetwork()
	if err != nil {
		t.Fatal(err)
	}
	lo := Loopback()
	if lo.Address != "127.0.0.1" || lo.Stack != n.Stack {
		t.Errorf("Loopback() = %+v beside %+v", lo, n)
	}
	if i, err := net.InterfaceByName(lo.Interface); err != nil || i.Flags&net.FlagLoopback == 0 {
		t.Errorf("%q is not the loopback interface: %v, %v", lo.Interface, i, err)
	}
}

func TestAnotherProcessHereSeesTheSameNetwork(t *testing.T) {
	mine, err := LookNetwork()
	if err != nil {
		t.Fatal(err)
	}
	out, err := another(t, "look").Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var theirs []Network
	if err := json.Unmarshal(out, &theirs); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Network{mine, Loopback()}, theirs); diff != "" {
		t.Errorf("they differ (-mine +theirs):\n%s", diff)
	}
}

func addresses(list ...string) (all []netip.Addr) {
	for _, a := range list {
		all = append(all, netip.MustParseAddr(a))
	}
	return all
}

func TestTheAddressIsChosenByReach(t *testing.T) {
	lo := link{name: "lo", up: true, loopback: true, addresses: addresses("127.0.0.1", "::1")}
	eth0 := link{name: "eth0", up: true, addresses: addresses("fe80::1", "2001:db8::7", "10.0.0.7", "10.0.0.8")}
	ib0 := link{name: "ib0", up: true, addresses: addresses("fd00::2", "192.168.3.2")}
	cut := link{name: "eth1", addresses: addresses("10.9.9.9", "2001:db8::9")}
	self := link{name: "eth2", up: true, addresses: addresses("169.254.7.7", "fe80::3")}
	six := link{name: "eth6", up: true, addresses: addresses("fe80::6", "fd00::6")}
	anycast := link{name: "lo", up: true, loopback: true, addresses: addresses("127.0.0.1", "10.1.1.1")}
	for _, c := range []struct {
		name       string
		links      []link
		out4, out6 string
		want       Network // without Stack
		ok         bool
	}{
		{"by the way out", []link{lo, eth0, ib0}, "192.168.3.2", "2001:db8::7", Network{Address: "192.168.3.2", Interface: "ib0"}, true},
		{"the second address of an interface", []link{lo, eth0}, "10.0.0.8", "", Network{Address: "10.0.0.8", Interface: "eth0"}, true},
		{"no way out: the first interface", []link{lo, eth0, ib0}, "", "", Network{Address: "10.0.0.7", Interface: "eth0"}, true},
		{"IPv4 without a way out before IPv6 with one", []link{lo, eth0}, "", "2001:db8::7", Network{Address: "10.0.0.7", Interface: "eth0"}, true},
		{"one that is down does not count", []link{lo, cut, ib0}, "", "", Network{Address: "192.168.3.2", Interface: "ib0"}, true},
		{"an address that it gave itself does not count", []link{lo, self, ib0}, "169.254.7.7", "", Network{Address: "192.168.3.2", Interface: "ib0"}, true},
		{"IPv6 alone, by the way out", []link{lo, six}, "", "fd00::6", Network{Address: "fd00::6", Interface: "eth6"}, true},
		{"IPv6 alone, without a way out", []link{lo, six}, "", "", Network{Address: "fd00::6", Interface: "eth6"}, true},
		{"the machine's address on loopback", []link{anycast}, "10.1.1.1", "", Network{Address: "10.1.1.1"}, true},
		{"the interfaces are hidden", nil, "10.0.0.7", "", Network{Address: "10.0.0.7"}, true},
		{"loopback alone", []link{lo}, "", "", Network{}, false},
		{"only addresses of one link", []link{lo, self}, "169.254.7.7", "fe80::3", Network{}, false},
		{"a way out by loopback is none", []link{lo}, "127.0.0.1", "::1", Network{}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sources []netip.Addr
			for _, s := range []string{c.out4, c.out6} {
				a, _ := netip.ParseAddr(s) // "": none
				sources = append(sources, a)
			}
			got, ok := choose(c.links, sources...)
			if diff := cmp.Diff(c.want, got); diff != "" || ok != c.ok {
				t.Errorf("ok is %v, and the choice differs (-want +got):\n%s", ok, diff)
			}
		})
	}
}
