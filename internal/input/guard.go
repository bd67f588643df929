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

// Guarded is a client for addresses that whoever wrote the items has chosen. It makes no
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
	// addresses: AWS, Google, Alibaba, Oracle, and Azure's wire server.
	metadata = []netip.Addr{netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"), netip.MustParseAddr("100.100.100.200"),
		netip.MustParseAddr("192.0.0.192"), netip.MustParseAddr("168.63.129.16")}
	// translated are IPv6 addresses that end in the IPv4 address they stand for (RFC 6052).
	translated = netip.MustParsePrefix("64:ff9b::/96")
)

// barred refuses an address, however it is written.
func barred(at netip.Addr) error {
	plain := at.Unmap().WithZone("")
	if translated.Contains(plain) {
		b := plain.As16()
		plain = netip.AddrFrom4([4]byte(b[12:]))
	}
	if plain.IsLinkLocalUnicast() || slices.Contains(metadata, plain) {
		return &barredError{at}
	}
	return nil
}
