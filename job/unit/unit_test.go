package unit_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/job/unit"
)

func TestParseDurationReads(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": 0, "90": 90 * time.Second, "90s": 90 * time.Second, "2h30m": 150 * time.Minute,
		" 15m\n": 15 * time.Minute, "1d": 24 * time.Hour, "1.5d": 36 * time.Hour, ".5": time.Second / 2,
		"1e3": 1000 * time.Second, "250ms": 250 * time.Millisecond, "36500d": 36500 * 24 * time.Hour,
	} {
		got, err := unit.ParseDuration(text)
		if err != nil || time.Duration(got) != want {
			t.Errorf("%q is %v (%v), want %v", text, got, err, want)
		}
	}
}

func TestParseDurationRefuses(t *testing.T) {
	for _, text := range []string{
		"", " ", "d", "s", ".", "-1", "-1s", "-1d", "soon", "1.5.2", "1x", "1d2h", "nan", "nand", "inf", "infd",
		"36501d", "877000h", "1e300", "99999999999", "1 s 2", "١s",
	} {
		got, err := unit.ParseDuration(text)
		if err == nil || fault.KindOf(err) != fault.Invalid || fault.Hint(err) == "" {
			t.Errorf("%q is read as %v (%v)", text, got, err)
		}
	}
}

func TestDurationReadsAndWritesAsText(t *testing.T) {
	type holder struct {
		D unit.Duration `json:"d"`
	}
	for text, want := range map[string]unit.Duration{
		`{"d":"1m30s"}`: unit.Duration(90 * time.Second),
		`{"d":90}`:      unit.Duration(90 * time.Second),
		`{"d":0.25}`:    unit.Duration(250 * time.Millisecond),
		`{"d":null}`:    0,
		`{}`:            0,
	} {
		var got holder
		if err := json.Unmarshal([]byte(text), &got); err != nil || got.D != want {
			t.Errorf("%s is %v (%v), want %v", text, got.D, err, want)
		}
	}
	for _, text := range []string{`{"d":"soon"}`, `{"d":{}}`, `{"d":[1]}`, `{"d":true}`, `{"d":-1}`} {
		var got holder
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %v", text, got.D)
		}
	}
	if b, err := json.Marshal(holder{unit.Duration(90 * time.Second)}); err != nil || string(b) != `{"d":"1m30s"}` {
		t.Errorf("90 s are written as %s (%v)", b, err)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, text := range []string{"90s", "1d", "nand", "1e400", "9223372036s", "-0", "0.0000000001", "µs"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d, err := unit.ParseDuration(text)
		if err != nil {
			return
		}
		if d < 0 || time.Duration(d).Hours() > 36500*24 {
			t.Fatalf("%q is read as %v", text, d)
		}
		again, err := unit.ParseDuration(d.String())
		if err != nil || again != d {
			t.Fatalf("%q is %v, which is read as %v (%v)", text, d, again, err)
		}
	})
}

func TestSizesReadAndWrite(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		bytes unit.Bytes
		text  string
		words string
	}{
		"64M": {64 << 20, "64M", "64 MB"}, "1.5G": {3 << 29, "1536M", "1.5 GB"}, "16GiB": {16 << 30, "16G", "16 GB"},
		"16 gb": {16 << 30, "16G", "16 GB"}, "1000": {1000, "1000", "1000 B"}, "2k": {2048, "2K", "2 KB"},
		"0": {0, "0", "0 B"}, "3T": {3 << 40, "3T", "3 TB"}, " 12 ": {12, "12", "12 B"}, "100B": {100, "100", "100 B"},
	} {
		got, err := unit.ParseBytes(text)
		if err != nil || got != want.bytes || got.String() != want.text || got.Words() != want.words {
			t.Errorf("%q is %d, %s, %s, %v; want %+v", text, got, got, got.Words(), err, want)
		}
		if again, err := unit.ParseBytes(got.String()); again != got || err != nil {
			t.Errorf("%q written as %q reads as %d, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "M", "-1", "1X", "NaN", "Inf", "0x10", "1e400", "9000000T", "64 M M", "1_000", "1p"} {
		if got, err := unit.ParseBytes(text); err == nil {
			t.Errorf("%q reads as %d", text, got)
		}
	}
	var b unit.Bytes
	for _, row := range []struct {
		text string
		want unit.Bytes
	}{{`"64M"`, 64 << 20}, {`1024`, 1024}, {`null`, 1024}} {
		if err := json.Unmarshal([]byte(row.text), &b); err != nil || b != row.want {
			t.Errorf("%s reads as %d, %v", row.text, b, err)
		}
	}
	if err := json.Unmarshal([]byte(`{}`), &b); err == nil {
		t.Error("an object is a size")
	}
}
