package unit

import (
	"math"
	"strconv"
	"strings"

	"github.com/drover-run/drover/fault"
)

// Bytes is a size that reads and writes as "512M" in YAML and JSON. Units are
// those of docker and Slurm: K, M, G and T are powers of 1,024; a bare number
// means bytes.
type Bytes int64

const byteUnits = "KMGT"

// String is the shortest exact form: "64M", "1536K", "1000".
func (b Bytes) String() string {
	n, unit := int64(b), ""
	for i := 0; i < len(byteUnits) && n != 0 && n%1024 == 0; i++ {
		n, unit = n/1024, byteUnits[i:i+1]
	}
	return strconv.FormatInt(n, 10) + unit
}

// Words is the size for people: "64 MB", "1.5 GB".
func (b Bytes) Words() string {
	v, unit := float64(b), " B"
	for i := 0; i < len(byteUnits) && math.Abs(v) >= 1024; i++ {
		v, unit = v/1024, " "+byteUnits[i:i+1]+"B"
	}
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) + unit
}

// MarshalText writes "64M".
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText reads what ParseBytes reads.
func (b *Bytes) UnmarshalText(text []byte) error {
	v, err := ParseBytes(string(text))
	*b = v
	return err
}

// UnmarshalJSON reads what UnmarshalText reads, and a JSON number of bytes; null
// changes nothing.
func (b *Bytes) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	if s, err := strconv.Unquote(text); err == nil {
		text = s
	}
	return b.UnmarshalText([]byte(text))
}

// ParseBytes reads "64M", "1.5G", "16GiB", "16 GB" or a bare number of bytes, up
// to 8,000,000 TB.
func ParseBytes(text string) (Bytes, error) {
	body := strings.ToUpper(strings.TrimSpace(text))
	body = strings.TrimSuffix(strings.TrimSuffix(body, "B"), "I")
	scale := 1.0
	if i := strings.IndexByte(byteUnits, last(body)); i >= 0 {
		scale, body = math.Pow(1024, float64(i+1)), body[:len(body)-1]
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(body), 64)
	v = math.Round(v * scale)
	if err != nil || !(v >= 0 && v < 1<<63) || strings.ContainsAny(body, "NIXP_") { // no NaN, no Inf, no hexadecimal
		return 0, fault.New(fault.Invalid, "Write it as 512M, 1.5G or 2T.", "%q is not a size", text)
	}
	return Bytes(v), nil
}

func last(s string) byte {
	if s == "" {
		return ' '
	}
	return s[len(s)-1]
}

// Stepped is b multiplied by step n times, and at most most (0: no bound): the memory of
// a try of an item that had too little n times before.
func (b Bytes) Stepped(step float64, n int, most Bytes) Bytes {
	if step <= 1 || b == 0 {
		return b
	}
	m := float64(b)
	for range n {
		if m *= step; most > 0 && m >= float64(most) || m > 1<<60 {
			break
		}
	}
	if most > 0 && m > float64(most) {
		return max(b, most)
	}
	return Bytes(m)
}
