package manifest

import (
	"encoding/json"
	"errors"
	"testing"
)

// FuzzIndex reads what may lie under an index's key: whatever it says, no block is
// outside its part and none too large.
func FuzzIndex(f *testing.F) {
	l, err := Build(f.TempDir(), Lines, func(p *Packer) error { return errors.Join(AddItem(p, "a"), AddItem(p, "b")) })
	if err != nil {
		f.Fatal(err)
	}
	defer l.Close()
	text, err := json.Marshal(l.index)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"v":1,"format":"lines","count":1,"parts":[{"name":"part-00000000000000000000000000000000.zst","blocks":[{"n":1,"len":-1,"raw":9999999999}]}]}`))
	f.Add([]byte(`{"v":1,"format":"csv","count":0,"parts":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var x index
		if json.Unmarshal(text, &x) != nil || x.checkIndex() != nil {
			return
		}
		r := newReader(Manifest{Count: x.Count, Format: x.Format}, 1)
		r.fillIndex(&x)
		if r.starts[len(r.starts)-1] != x.Count {
			t.Fatalf("%s: %v", text, r.starts)
		}
		for i, b := range r.blocks {
			if b.Packed > maxPacked || b.Raw > maxRaw || b.off < 0 || r.starts[i+1] <= r.starts[i] {
				t.Fatalf("%s: %+v", text, b)
			}
		}
	})
}

// FuzzBlock unpacks what may lie in a part, with a checksum that holds.
func FuzzBlock(f *testing.F) {
	f.Add([]byte{1, 'a', 0, 2, 'b', 'c'}, 3)
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x7f}, 1)
	f.Add([]byte{200}, 2)
	f.Fuzz(func(t *testing.T, raw []byte, n int) {
		items := string(raw)
		length := 0
		for range min(n, len(raw)) {
			text, rest, err := next(items)
			if err != nil {
				return
			}
			length += len(text)
			items = rest
		}
		if length+len(items) > len(raw) {
			t.Fatalf("%q gave %d bytes", raw, length)
		}
	})
}

func TestAnIndexThatCannotBeSaysWhatIsWrong(t *testing.T) {
	for want, x := range map[string]index{
		"its version is 9, this drover reads 1": {V: 9},
		`there is no format "yaml"`:             {V: version, Format: "yaml"},
		"it cannot have -1 items":               {V: version, Format: Lines, Count: -1},
		`there is no part "part-x"`:             {V: version, Format: Lines, Count: 1, Parts: []part{{Name: "part-x"}}},
		"its blocks hold 0 items of 1":          {V: version, Format: Lines, Count: 1},
	} {
		if err := x.checkIndex(); err == nil || err.Error() != want {
			t.Errorf("%+v: %v, want %s", x, err, want)
		}
	}
}
