package verify

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/drover-run/drover/internal/ledger/protocol"
	"github.com/drover-run/drover/report"
	"github.com/drover-run/drover/store"
)

// checkOutputs reads every output of these successes (M6). Of which there must be, a
// success has some.
func (v *verifier) checkOutputs(ctx context.Context, chunk string, n int, by string, results []protocol.Result) error {
	if !v.outputs {
		return nil
	}
	for _, r := range results {
		if r.Failed {
			continue
		}
		if len(v.j.Spec.Out) > 0 && len(r.Outputs) == 0 {
			v.addFinding(RuleOutput, report.VerifyNote{Log: chunk, Entry: n, Item: r.Item, By: by, Why: "it has no output, and each item must leave some"})
		}
		for i, o := range r.Outputs {
			why, err := v.checkOutput(ctx, r, i, o)
			if err != nil {
				return err
			}
			if why != "" {
				v.addFinding(RuleOutput, report.VerifyNote{Log: chunk, Entry: n, Item: r.Item, By: by, Why: fmt.Sprintf("its output %q %s", o.Name, why)})
			}
			if v.r.Outputs%256 == 0 {
				v.reportProgress()
			}
		}
	}
	return nil
}

// checkOutput says what is wrong with an output, "" when it is whole.
func (v *verifier) checkOutput(ctx context.Context, r protocol.Result, i int, o protocol.Output) (why string, err error) {
	clean := o.Name != "" && path.Clean(o.Name) == o.Name && !path.IsAbs(o.Name) && o.Name != "." && o.Name != ".." && !strings.HasPrefix(o.Name, "../")
	key := outputKey(v.dir, r.Item, r.Try, o.Name)
	if !clean || store.CheckKey(key) != nil {
		return "has no name that a file can have", nil
	}
	for _, other := range r.Outputs[:i] {
		if other.Name == o.Name {
			return "is named twice", nil
		}
	}
	size, sum, err := v.digestObject(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotExist):
		return "is not there", nil
	case err != nil:
		return "", fmt.Errorf("read output %q of item %d: %w", o.Name, r.Item, err)
	case size != o.Size:
		return fmt.Sprintf("has %d bytes, and %d were recorded", size, o.Size), nil
	case sum != o.SHA256:
		return "has content that differs from what was recorded", nil
	}
	return "", nil
}

// digestObject reads an object.
func (v *verifier) digestObject(ctx context.Context, key string) (size int64, sum string, err error) {
	r, err := v.s.Open(ctx, key, 0, -1)
	if err != nil {
		return 0, "", err
	}
	defer r.Close()
	h := sha256.New()
	if size, err = io.Copy(h, r); err != nil {
		return 0, "", err
	}
	v.r.Outputs++
	v.r.Bytes += size
	return size, hex.EncodeToString(h.Sum(nil)), nil
}

// checkManifest sees that a list of items is there, whole, and as long as is said. The
// names of its index and parts hold their digests.
func (v *verifier) checkManifest(ctx context.Context, l list) error {
	doubt := func(why string, args ...any) {
		n := report.VerifyNote{Log: "job.json", Entry: -1, Why: fmt.Sprintf(why, args...)}
		if l.ext > 0 {
			n.Log, n.Entry = "job", l.ext
		}
		v.addFinding(RuleManifest, n)
	}
	m := l.m
	if m.Key == "" {
		if m.Step < 1 || m.To < m.From || (m.To-m.From)/m.Step+1 != int64(m.Count) {
			doubt("the range %d-%d:%d does not have %d items", m.From, m.To, m.Step, m.Count)
		}
		return nil
	}
	b, err := v.s.Get(ctx, m.Key)
	if errors.Is(err, store.ErrNotExist) || store.CheckKey(m.Key) != nil {
		doubt("the items' index %q is not there", m.Key)
		return nil
	}
	if errors.Is(err, store.ErrMalformed) {
		doubt("the items' index %q is damaged", m.Key)
		return nil
	}
	if err != nil {
		return fmt.Errorf("read items: %w", err)
	}
	var x struct {
		Format, Digest string
		Count          int
		Parts          []struct {
			Name   string
			Blocks []struct {
				N   int
				Len int64
			}
		}
	}
	sum := sha256.Sum256(b)
	if err := json.Unmarshal(b, &x); err != nil || !named(m.Key, "index-", hex.EncodeToString(sum[:]), ".json") {
		doubt("the items' index %q is damaged", m.Key)
		return nil
	}
	count := 0
	for _, p := range x.Parts {
		size := int64(0)
		for _, b := range p.Blocks {
			count += b.N
			size += b.Len
		}
		if err := v.checkPart(ctx, path.Dir(m.Key)+"/"+p.Name, size, doubt); err != nil {
			return err
		}
	}
	if x.Count != m.Count || count != m.Count || x.Digest != m.Digest || x.Format != m.Format {
		doubt("it says %d items, their index %d and its parts %d: they are not the same", m.Count, x.Count, count)
	}
	return nil
}

// checkPart reads one part of a manifest.
func (v *verifier) checkPart(ctx context.Context, key string, size int64, doubt func(string, ...any)) error {
	if store.CheckKey(key) != nil {
		doubt("the items' part %q cannot be", key)
		return nil
	}
	outputs, bytes := v.r.Outputs, v.r.Bytes
	got, sum, err := v.digestObject(ctx, key)
	v.r.Outputs, v.r.Bytes = outputs, bytes // it is none
	switch {
	case errors.Is(err, store.ErrNotExist):
		doubt("the items' part %q is not there", key)
	case err != nil:
		return fmt.Errorf("read items: %w", err)
	case got != size || !named(key, "part-", sum, ".zst"):
		doubt("the items' part %q is damaged", key)
	}
	return nil
}

// named says whether an object is named by the digest of what is in it.
func named(key, before, sum, after string) bool {
	const digits = 32
	return path.Base(key) == before+sum[:digits]+after
}

// outputKey is where an output lies below its job. A byte that no key can hold there is
// "_" and two hex digits, as is a "_" that two of these follow; what is too long
// then is "_h" and its SHA-256.
func outputKey(dir string, item int, try, name string) string {
	dir = fmt.Sprintf("%s/out/%d/%s/", dir, item, try)
	long := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "_h" + hex.EncodeToString(sum[:])
	}
	var elements []string
	for e := range strings.SplitSeq(name, "/") {
		key := ""
		for i, c := range []byte(e) {
			escape := c == '_' && len(e) > i+2 && strings.Trim(e[i+1:i+3], "0123456789abcdef") == "" || c == '.' && i == 0
			if escape || strings.IndexByte("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", c) < 0 {
				key += fmt.Sprintf("_%02x", c)
			} else {
				key += string(rune(c))
			}
		}
		if len(key) > store.MaxElement {
			key = long(e)
		}
		elements = append(elements, key)
	}
	if key := dir + strings.Join(elements, "/"); len(key) <= store.MaxKey {
		return key
	}
	return dir + long(name)
}
