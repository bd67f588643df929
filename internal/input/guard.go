package input

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// Guarded is a client for addresses that the items' writer has chosen. It makes no
// connection to a link-local address, nor to where clouds answer a machine with its own
// credentials: whatever name or redirect leads there, since the address itself is looked
// at when it is connected to. Loopback, and networks behind the machine, are allowed.
//
// transport is how it connects otherwise. A proxy that the transport uses looks names up
// by itself: of what it is asked for only addresses that are written as such are seen here.
func Guarded(transport *http.Transport) *http.Client {
	return guarded(transport, nil)
}

// guarded is Guarded with a resolver of the test's; nil: the system's.
func guarded(transport *http.Transport, names *net.Resolver) *http.Client {
	t := transport.Clone()
	// The timeouts are those of http.DefaultTransport.
	dialer := net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second, Resolver: names, Control: control}
	t.DialContext = dialer.DialContext
	return &http.Client{Transport: guard{t}}
}

// control is asked for each connection, once the address is known.
func control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("read address %q: %w", address, err)
	}
	return barred(at.Addr())
}

// guard looks at each request, also those that redirects make.
type guard struct{ base http.RoundTripper }

func (g guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if at, err := netip.ParseAddr(req.URL.Hostname()); err == nil {
		if err := barred(at); err != nil {
			return nil, err
		}
	}
	return g.base.RoundTrip(req)
}

// barredError is an address that is not asked.
type barredError struct{ at netip.Addr }

func (e *barredError) Error() string {
	return fmt.Sprintf("it leads to %s, where a machine finds its own credentials and neighbours", e.at)
}

var (
	// metadata are where clouds tell a machine of itself that are no link-local
	// addresses: Google, Alibaba, Oracle, and Azure's wire server.
	metadata = []netip.Addr{netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("100.100.100.200"),
		netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("168.63.129.16")}
	// amazon holds all services of AWS for a machine itself: ::254 tells of it, ::23 gives
	// out the credentials of a pod, ::123 the time.
	amazon = netip.MustParsePrefix("fd00:ec2::/32")
	// carriers are the networks with addresses that stand for an IPv4 address, and the bytes
	// in which they have it. Of the prefixes that a network chooses for its own NAT64
	// gateway (RFC 6052) none is known here.
	carriers = []carrier{
		{netip.MustParsePrefix("::/96"), [4]int{12, 13, 14, 15}, 0},           // compatible, RFC 4291 2.5.5.1
		{netip.MustParsePrefix("::ffff:0:0:0/96"), [4]int{12, 13, 14, 15}, 0}, // translated, RFC 2765
		{netip.MustParsePrefix("64:ff9b::/96"), [4]int{12, 13, 14, 15}, 0},    // NAT64, RFC 6052
		{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{12, 13, 14, 15}, 0},  // NAT64, RFC 8215: of a /96,
		{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{9, 10, 11, 12}, 0},   // a /64,
		{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{7, 9, 10, 11}, 0},    // a /56
		{netip.MustParsePrefix("64:ff9b:1::/48"), [4]int{6, 7, 9, 10}, 0},     // and a /48
		{netip.MustParsePrefix("2002::/16"), [4]int{2, 3, 4, 5}, 0},           // 6to4, RFC 3056
		{netip.MustParsePrefix("2001::/32"), [4]int{4, 5, 6, 7}, 0},           // Teredo, RFC 4380: its server,
		{netip.MustParsePrefix("2001::/32"), [4]int{12, 13, 14, 15}, 0xff},    // and its client
	}
)

// carrier is a network with addresses that stand for an IPv4 address.
type carrier struct {
	net  netip.Prefix
	at   [4]int
	flip byte // xor with each byte
}

// stands returns the addresses that at may stand for, itself among them: which gateway
// would translate it is not known here.
func stands(at netip.Addr) []netip.Addr {
	at = at.Unmap().WithZone("")
	all := []netip.Addr{at}
	if at.Is4() {
		return all
	}
	b := at.As16()
	for _, c := range carriers {
		if c.net.Contains(at) {
			all = append(all, netip.AddrFrom4([4]byte{b[c.at[0]] ^ c.flip, b[c.at[1]] ^ c.flip, b[c.at[2]] ^ c.flip, b[c.at[3]] ^ c.flip}))
		}
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // ISATAP, RFC 5214
		all = append(all, netip.AddrFrom4([4]byte(b[12:])))
	}
	return all
}

// barred refuses an address, however it is written.
func barred(at netip.Addr) error {
	for _, plain := range stands(at) {
		if plain.IsLinkLocalUnicast() || amazon.Contains(plain) || slices.Contains(metadata, plain) {
			return &barredError{at}
		}
	}
	return nil
}
