package items

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/glob"
	"github.com/drover-run/drover/internal/items/manifest"
	"github.com/drover-run/drover/internal/transfer"
	"github.com/drover-run/drover/store"
)

// isBucket says whether a source lies in a bucket.
func isBucket(from string) bool {
	return strings.HasPrefix(from, "s3://") || strings.HasPrefix(from, "gs://")
}

// fromBucket reads what is at a URL as fromPath does a path: one object is a list of
// items, and of a pattern, or of all that is below a name, the objects are items, by
// their URLs in byte order. What leads to the server stands behind the ?, and in no
// item.
func fromBucket(ctx context.Context, s Source, dir string) (*manifest.List, error) {
	url, key, err := transfer.Split(s.From)
	if err != nil {
		return nil, err
	}
	if s.Open == nil {
		return nil, s.refuseSource("Name a file.", "this program opens no buckets")
	}
	b, err := s.Open(ctx, url)
	if err != nil {
		return nil, err
	}
	top, _, _ := strings.Cut(url, "?")
	parts := slices.DeleteFunc(strings.Split(key, "/"), func(name string) bool { return name == "" })
	prefix := key
	if at := strings.IndexAny(key, "*["); at >= 0 {
		prefix = key[:at]
		name := strings.LastIndexByte(prefix, '/') + 1
		if escape := strings.IndexByte(prefix[name:], '\\'); escape >= 0 { // in a name with a star it makes the next one plain
			prefix = prefix[:name+escape]
		}
	} else {
		if list, is, err := s.readObject(ctx, b, key, dir); is || err != nil {
			return list, err
		}
		if prefix != "" && !strings.HasSuffix(prefix, "/") {
			prefix += "/"
		}
	}
	for i, p := range parts {
		if !glob.IsPattern(p) {
			parts[i] = literal(p)
		} else if parts[i] = glob.Spell(p); !glob.IsSound(parts[i]) {
			return nil, s.refuseSource("Write a bracket that is one as [[].", "it has an unmatched bracket or backslash")
		}
	}
	if !strings.ContainsAny(key, "*[") {
		parts = append(parts, "**")
	}
	if len(parts) > maxParts {
		return nil, s.refuseSource("Use **, or name fewer folders.", "it has more than %d names", maxParts)
	}
	if s.Format != "" && s.Format != manifest.Lines {
		return nil, s.refuseSource("Leave the format out, or name one object.", "its items are objects, which have no format %q", s.Format)
	}
	return s.listObjects(ctx, b, top, prefix, parts, dir)
}

// readObject reads the items that stand in one object, if there is one of that name.
func (s Source) readObject(ctx context.Context, b *store.Store, key, dir string) (l *manifest.List, is bool, err error) {
	if key == "" || strings.HasSuffix(key, "/") {
		return nil, false, nil
	}
	body, err := b.Open(ctx, key, 0, -1)
	if errors.Is(err, store.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read items from %q: %w", s.From, err)
	}
	defer body.Close()
	s.From, _, _ = strings.Cut(s.From, "?") // its end says what format it has
	l, err = fromReader(ctx, s, body, dir)
	return l, true, err
}

// listObjects lists what the names of a pattern match. An object with a ? in its name is left
// out: its URL would be another one's. So is what shows a folder, and has no name.
func (s Source) listObjects(ctx context.Context, b *store.Store, top, prefix string, parts []string, dir string) (*manifest.List, error) {
	l, err := manifest.Build(dir, manifest.Lines, func(p *manifest.Packer) error {
		hidden, unnamed := 0, 0
		for o, err := range b.List(ctx, prefix) {
			if err != nil {
				return fmt.Errorf("read items from %q: %w", s.From, err)
			}
			names := strings.Split(o.Key, "/")
			if slices.Contains(names, "") {
				continue
			}
			match, dots := matches(parts, names)
			switch {
			case dots:
				hidden++
			case !match:
			case strings.Contains(o.Key, "?"):
				unnamed++
			case p.Count == manifest.MaxItems:
				return s.refuseSource("Split it into several maps.", "it has more than %d objects", manifest.MaxItems)
			default:
				if err := manifest.AddItem(p, top+"/"+o.Key); err != nil {
					return err
				}
			}
		}
		if hidden > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s in hidden names left out", objectsOf(hidden)))
		}
		if unnamed > 0 {
			p.Notes = append(p.Notes, fmt.Sprintf("%s with a ? in their names left out: in a URL it begins what leads to the server", objectsOf(unnamed)))
		}
		if p.Count == 0 {
			why := "nothing is there"
			if strings.ContainsAny(s.From, "*[") {
				why = "no object matches"
			}
			if len(p.Notes) > 0 {
				why += "; " + strings.Join(p.Notes, ", ")
			}
			return fault.New(fault.Missing, "Check the name: an object that lists items, a folder, or a pattern with * in quotes.", "read items from %q: %s", s.From, why)
		}
		return nil
	})
	return l, err
}

func objectsOf(n int) string {
	if n == 1 {
		return "1 object"
	}
	return fmt.Sprintf("%d objects", n)
}

// matches says whether the names of a key are those of a pattern. hidden: they are not,
// as a name that begins with a dot is none of those that ** stands for.
func matches(parts, names []string) (match, hidden bool) {
	at := open(parts, 1)
	for i, name := range names {
		below, last := step(parts, at, name)
		if i == len(names)-1 && last {
			return true, false
		}
		if i == len(names)-1 || below == 0 {
			return false, name[0] == '.' && below == 0 && slices.Contains(parts, "**")
		}
		at = open(parts, below)
	}
	return false, false
}

// literal is a name that matches itself alone.
func literal(name string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(name)
}
