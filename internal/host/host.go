// Package host is what a target's machine knows about itself: how other
// machines reach it, which TCP port is free, which GPUs it has, what its network
// carries; and the reservations of its cores, memory and GPUs, with the queue of
// requests for them.
//
// It refuses to know jobs, targets and what a port or a GPU is for; a request says
// that in words, which only people read. cmd/drover hands its functions
// to the agent.
//
// It is proved on the machine it is tested on, in a network namespace without
// any network, by processes that race for GPUs and are killed, and with stub
// programs that print what the real nvidia-smi prints.
package host

import (
	"fmt"
	"net"
	"net/netip"
	"runtime"
)

// Network is how other machines reach this one.
type Network struct {
	Address   string // IP that peers reach; 127.0.0.1 when the machine has no other
	Interface string // its name, "eth0"; of loopback "lo" ("lo0" on macOS); "" where the address is on no other
	// Stack names this network stack: nodes that have the same reach each other by
	// loopback. It is never equal on two machines or in two network namespaces;
	// "" where it cannot be known, and then no node is known to share it.
	Stack string
}

// An address of the documentation's own, in each family: a socket that is to
// send there gets the source address that the way to other machines begins with.
const (
	outside4 = "192.0.2.1:9"
	outside6 = "[2001:db8::1]:9"
)

// LookNetwork finds the address that peers reach. No packet is sent. It is the
// source address for the outside; else, on a network without a way out, the
// first address of an interface that is up and not loopback; else loopback.
// IPv6 counts where there is no IPv4. Addresses that are valid on one link only
// do not count. It is an error when the interfaces cannot be listed and nothing
// else gave an address.
func LookNetwork() (Network, error) {
	all, err := links()
	n, ok := choose(all, source(outside4), source(outside6))
	switch {
	case ok:
		n.Stack = stack()
		return n, nil
	case err != nil:
		return Network{}, fmt.Errorf("list network interfaces: %w", err)
	}
	return Loopback(), nil
}

// Loopback is how this machine reaches itself, also without any network.
func Loopback() Network {
	n := Network{Address: "127.0.0.1", Interface: "lo", Stack: stack()}
	if runtime.GOOS == "darwin" {
		n.Interface = "lo0"
	}
	all, _ := links() // without the list: the usual name
	for _, l := range all {
		if l.loopback {
			n.Interface = l.name
			break
		}
	}
	return n
}

// link is a network interface.
type link struct {
	name         string
	up, loopback bool
	addresses    []netip.Addr
}

// links lists the interfaces in the system's order. One with its cable out is not up.
func links() ([]link, error) {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	const works = net.FlagUp | net.FlagRunning
	var all []link
	for _, i := range interfaces {
		l := link{name: i.Name, up: i.Flags&works == works, loopback: i.Flags&net.FlagLoopback != 0}
		addresses, err := i.Addrs()
		if err != nil {
			continue // it went away after it was listed
		}
		for _, a := range addresses {
			if p, err := netip.ParsePrefix(a.String()); err == nil {
				l.addresses = append(l.addresses, p.Addr())
			}
		}
		all = append(all, l)
	}
	return all, nil
}

// source is the address that packets to outside would come from; the zero Addr
// when there is no way. Connecting a UDP socket asks the routes and sends nothing.
func source(outside string) netip.Addr {
	c, err := net.Dial("udp", outside)
	if err != nil {
		return netip.Addr{}
	}
	defer c.Close()
	a, err := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr()
}

// choose picks the address, IPv4 before IPv6; sources are the addresses for the outside.
func choose(all []link, sources ...netip.Addr) (Network, bool) {
	for i, is := range []func(netip.Addr) bool{netip.Addr.Is4, netip.Addr.Is6} {
		if s := sources[i]; is(s) && reachable(s) {
			return Network{Address: s.String(), Interface: nameOf(all, s)}, true
		}
		for _, l := range all {
			if !l.up || l.loopback {
				continue
			}
			for _, a := range l.addresses {
				if is(a) && reachable(a) {
					return Network{Address: a.String(), Interface: l.name}, true
				}
			}
		}
	}
	return Network{}, false
}

// reachable says whether another machine may reach a.
func reachable(a netip.Addr) bool {
	return a.IsGlobalUnicast()
}

// nameOf finds the interface with address a. Routers' daemons put a machine's
// address on loopback: a program told to use that interface would find 127.0.0.1
// first, so it is better told nothing.
func nameOf(all []link, a netip.Addr) string {
	for _, l := range all {
		for _, its := range l.addresses {
			if its == a && !l.loopback {
				return l.name
			}
		}
	}
	return ""
}
