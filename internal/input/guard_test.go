package input

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
)

// names is a resolver that knows these names alone, and asks no server.
func names(t *testing.T, known map[string]string) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, its := net.Pipe()
		go func() { // ends when the resolver closes its end
			defer ours.Close()
			for {
				head := make([]byte, 2)
				if _, err := io.ReadFull(ours, head); err != nil {
					return
				}
				query := make([]byte, binary.BigEndian.Uint16(head))
				if _, err := io.ReadFull(ours, query); err != nil {
					return
				}
				reply := answerTo(query, known)
				if _, err := ours.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))), reply...)); err != nil {
					return
				}
			}
		}()
		t.Cleanup(func() { ours.Close() })
		return its, nil
	}}
}

// answerTo is a name server's answer (RFC 1035): the address of a name that is known,
// and of others none.
func answerTo(query []byte, known map[string]string) []byte {
	const headLen, typeA, typeAAAA, noSuchName = 12, 1, 28, 3
	var labels []string
	end := headLen
	for query[end] != 0 {
		n := int(query[end])
		labels = append(labels, string(query[end+1:end+1+n]))
		end += 1 + n
	}
	kind := binary.BigEndian.Uint16(query[end+1:])
	question := query[headLen : end+5]
	text, is := known[strings.Join(labels, ".")]
	reply := []byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}
	if !is {
		reply[3] |= noSuchName
		return append(reply, question...)
	}
	at := netip.MustParseAddr(text)
	if at.Is4() != (kind == typeA) || at.Is6() != (kind == typeAAAA) {
		return append(reply, question...)
	}
	reply[7] = 1
	reply = append(append(reply, question...), 0xc0, headLen, 0, byte(kind), 0, 1, 0, 0, 0, 60, 0, byte(at.BitLen()/8))
	return append(reply, at.AsSlice()...)
}

// web answers at loopback: /to leads wherever it is asked to.
func web(t *testing.T, asked *atomic.Int32) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.URL.Path == "/to" {
			http.Redirect(w, r, r.URL.Query().Get("u"), http.StatusFound)
			return
		}
		io.WriteString(w, "body")
	}))
	t.Cleanup(s.Close)
	return s
}

func TestAddressesOfTheMachineItselfAreNotAsked(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := web(t, &asked)
	known := names(t, map[string]string{"meta.test": "169.254.169.254", "six.test": "fd00:ec2::254", "near.test": "fe80::1", "mapped.test": "::ffff:169.254.1.1", "compatible.test": "::a9fe:a9fe"})
	here := s.URL + "/to?u="
	for uri, at := range map[string]string{
		"http://169.254.169.254/latest/meta-data/": "169.254.169.254",
		"http://169.254.0.1/":                      "169.254.0.1",
		"http://[fe80::1]/x":                       "fe80::1",
		"http://[fe80::1%25lo]/x":                  "fe80::1%lo",
		"http://[fd00:ec2::254]/x":                 "fd00:ec2::254",
		"http://[fd20:ce::254]/x":                  "fd20:ce::254",
		"http://[::ffff:169.254.169.254]/":         "::ffff:169.254.169.254",
		"http://[64:ff9b::a9fe:a9fe]/":             "64:ff9b::a9fe:a9fe",
		"http://[64:ff9b:1::a9fe:a9fe]/":           "64:ff9b:1::a9fe:a9fe",
		"http://[2002:a9fe:a9fe::1]/":              "2002:a9fe:a9fe::1",
		"http://[::a9fe:a9fe]/":                    "::a9fe:a9fe",
		"http://[fd00:ec2::23]/v1/credentials":     "fd00:ec2::23",
		"http://[2001:db8::5efe:a9fe:a9fe]/":       "2001:db8::5efe:a9fe:a9fe",
		"http://[2001:0:a9fe:a9fe::]/":             "2001:0:a9fe:a9fe::",
		"http://[::ffff:0:a9fe:a9fe]/":             "::ffff:0:a9fe:a9fe",
		"http://compatible.test/x":                 "::a9fe:a9fe",
		"http://100.100.100.200/":                  "100.100.100.200",
		"https://meta.test/x":                      "169.254.169.254",
		"http://meta.test:8080/x":                  "169.254.169.254",
		"http://six.test/x":                        "fd00:ec2::254",
		"http://near.test/x":                       "fe80::1",
		here + "http://169.254.169.254/x":          "169.254.169.254",
		here + "http://meta.test/x":                "169.254.169.254",
		here + here + "http://meta.test/x":         "169.254.169.254",
	} {
		into := filepath.Join(t.TempDir(), "in")
		b := Bringer{Client: guarded(&http.Transport{}, known), Pause: func(context.Context, time.Duration) error { return errors.New("it is asked again") }}
		_, _, err := b.Bring(t.Context(), uri, into, nil)
		want := "it leads to " + at + ", where a machine finds its own credentials and neighbours"
		if fault.KindOf(err) != fault.Denied || !strings.HasSuffix(err.Error(), want) || strings.Count(err.Error(), "it leads") != 1 {
			t.Errorf("%s: %v (%v), want ... %s", uri, err, fault.KindOf(err), want)
		}
		if !strings.HasPrefix(fault.Hint(err), "Leave --fetch out, ") {
			t.Errorf("%s: hint %q", uri, fault.Hint(err))
		}
	}
	if n := asked.Load(); n != 4 {
		t.Errorf("the server that leads there was asked %d times, and 3 addresses begin at it, one of them twice", n)
	}
}

// written are the ways to write the IPv4 address v4 as an IPv6 address.
var written = []func(v4 [4]byte) string{
	func(v4 [4]byte) string { return fmt.Sprintf("::ffff:%x:%x", v4[:2], v4[2:]) },
	func(v4 [4]byte) string { return fmt.Sprintf("::ffff:0:%x:%x", v4[:2], v4[2:]) },
	func(v4 [4]byte) string { return fmt.Sprintf("::%x:%x", v4[:2], v4[2:]) },
	func(v4 [4]byte) string { return fmt.Sprintf("64:ff9b::%x:%x", v4[:2], v4[2:]) },
	func(v4 [4]byte) string { return fmt.Sprintf("64:ff9b:1::%x:%x", v4[:2], v4[2:]) },
	func(v4 [4]byte) string {
		return fmt.Sprintf("64:ff9b:1:aa:%02x:%02x%02x:%02xff:1", v4[0], v4[1], v4[2], v4[3])
	},
	func(v4 [4]byte) string {
		return fmt.Sprintf("64:ff9b:1:aa%02x:%02x:%02x%02x::", v4[0], v4[1], v4[2], v4[3])
	},
	func(v4 [4]byte) string { return fmt.Sprintf("64:ff9b:1:%x:%02x:%02x00::", v4[:2], v4[2], v4[3]) },
	func(v4 [4]byte) string { return fmt.Sprintf("2002:%x:%x::1", v4[:2], v4[2:]) },
	func(v4 [4]byte) string { return fmt.Sprintf("2001:0:%x:%x:8000::1", v4[:2], v4[2:]) },
	func(v4 [4]byte) string {
		return fmt.Sprintf("2001:0:101:101:8000:1:%02x%02x:%02x%02x", ^v4[0], ^v4[1], ^v4[2], ^v4[3])
	},
	func(v4 [4]byte) string { return fmt.Sprintf("2001:db8:1:2:0:5efe:%x:%x", v4[:2], v4[2:]) },
	func(v4 [4]byte) string { return fmt.Sprintf("2001:db8:1:2:200:5efe:%x:%x", v4[:2], v4[2:]) },
}

// FuzzNoFormOfALinkLocalAddressIsAsked: however an address of 169.254.0.0/16 is written,
// it is refused; so is all of fd00:ec2::/32, and the same forms of other addresses are not.
func FuzzNoFormOfALinkLocalAddressIsAsked(f *testing.F) {
	f.Add(byte(169), byte(254), uint64(0x254))
	f.Add(byte(170), byte(2), uint64(0x23))
	f.Add(byte(0), byte(0), uint64(0))
	f.Fuzz(func(t *testing.T, c, d byte, below uint64) {
		for i, write := range written {
			for _, v4 := range [][4]byte{{169, 254, c, d}, {100, 100, 100, 200}} {
				at, err := netip.ParseAddr(write(v4))
				if err != nil {
					t.Fatalf("form %d: %v", i, err)
				}
				if barred(at) == nil {
					t.Errorf("form %d: %s, which is %v, is asked", i, at, v4)
				}
			}
			if at := netip.MustParseAddr(write([4]byte{198, 51, 100, d | 1})); barred(at) != nil {
				t.Errorf("form %d: %s is refused", i, at)
			}
		}
		b := netip.MustParseAddr("fd00:ec2::").As16()
		binary.BigEndian.PutUint64(b[8:], below)
		b[4] = c
		if barred(netip.AddrFrom16(b)) == nil {
			t.Errorf("%s is asked", netip.AddrFrom16(b))
		}
	})
}

func TestLoopbackIsAsked(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s := web(t, &asked)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	known := names(t, map[string]string{"here.test": "127.0.0.1"})
	for _, uri := range []string{s.URL + "/f", "http://here.test:" + port + "/f", s.URL + "/to?u=http://here.test:" + port + "/f"} {
		file, ours, err := Bringer{Client: guarded(&http.Transport{}, known)}.Bring(t.Context(), uri, t.TempDir(), nil)
		if err != nil || !ours {
			t.Errorf("%s: %v", uri, err)
			continue
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "body" {
			t.Errorf("%s: it holds %q (%v)", uri, text, err)
		}
	}
}

// TestAProxyIsNotAskedForThem: what is written as an address is seen before it is the
// proxy's matter.
func TestAProxyIsNotAskedForThem(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1); io.WriteString(w, "secret") }))
	defer proxy.Close()
	at, err := http.NewRequest(http.MethodGet, proxy.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	client := guarded(&http.Transport{Proxy: http.ProxyURL(at.URL)}, nil)
	if _, _, err := (Bringer{Client: client}).Bring(t.Context(), "http://169.254.169.254/x", t.TempDir(), nil); fault.KindOf(err) != fault.Denied || asked.Load() != 0 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
	if _, _, err := (Bringer{Client: client}).Bring(t.Context(), "http://files.test/x", t.TempDir(), nil); err != nil || asked.Load() != 1 {
		t.Errorf("%v, asked %d times", err, asked.Load())
	}
}
