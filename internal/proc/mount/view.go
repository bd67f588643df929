package mount

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/proc/reason"
)

// ErrNoView: Start could not give the program a view of its own here. Nothing
// has run. The error's text is this one's, a colon, and why in a few words.
var ErrNoView = errors.New("give the program a view of its own")

// View is what the program sees of the machine: all of it, with some folders and
// files of its own on top. Nothing is made on the machine itself, and when the
// tree is gone nothing is left of the view.
//
// A folder that lacks a target, / for /state and /opt for /opt/ml, is built anew
// for the view, with all that the machine has in it. What the program makes in
// such a folder itself, not below, is in memory and vanishes with the tree, as
// in a container; what the machine gets there later is not seen. Where all
// targets exist, nothing is built anew. A mount made on the machine later is
// seen if the machine shares its mounts, as systemd has it.
//
// A plain user sees it from inside a user namespace. That user keeps its ids, its
// groups and what they permit, and gains nothing. But no other ids exist there:
// other users' files and its supplementary groups are shown as the overflow user's, and
// setuid programs (sudo, fusermount, nvidia-modprobe) run without their power.
type View struct {
	Binds    []Bind
	Overlays []Overlay
	Hostname string // "": the machine's; else a UTS namespace of its own
}

// Bind shows Source, a folder or file of the machine, at Target. Both are
// absolute. A Target that the machine does not have appears in the view alone,
// with the folders above it. One bind may lie in another's Target: then its own
// exists in the other's Source.
type Bind struct{ Source, Target string }

// ErrNoOverlay: Start could not lay the folders of an Overlay over each other here:
// the kernel or a file system refuses it. Nothing has run. A view without overlays may
// be possible.
var ErrNoOverlay = errors.New("lay folders over each other")

// Overlay shows several folders at Target as one, by overlayfs. All paths are absolute.
//
// Target is a folder that the machine has, usually one of Lower: then the program finds
// in its place what it finds there on the machine, and what it writes, changes or removes
// there is in Upper alone. In Upper a removed name is a character device 0/0, and a folder
// that replaces another has the attribute user.overlay.opaque (trusted.overlay.opaque
// where the file system of Upper has no user attributes).
//
// File systems that are mounted below one of Lower are shown read-only.
// Lower must not change in what the program has read; the kernel promises nothing then.
// A folder that lies in Lower cannot be renamed: rename gives EXDEV, as between file systems.
type Overlay struct {
	Target string
	Lower  []string // the uppermost first; at least one
	Upper  string   // what the program writes. It lies in none of Lower
	Work   string   // an empty folder for the kernel, on the file system of Upper
	Also   []string // other targets, as of a Bind, that show the same tree. No other target lies in one
}

const longestHostname = 64 // Linux's HOST_NAME_MAX

// Resolve checks a view and finds out what each target needs.
func (v *View) Resolve(program string) (*Layout, error) {
	if v == nil {
		return nil, nil
	}
	if len(v.Hostname) > longestHostname || strings.IndexByte(v.Hostname, 0) >= 0 {
		return nil, fault.New(fault.Invalid, "", "start %s: hostname %q: want at most %d bytes", program, v.Hostname, longestHostname)
	}
	s := &Layout{Hostname: v.Hostname}
	requests := v.listRequests()
	for i := range requests {
		b := &requests[i]
		if !b.targetIsAbs() || filepath.Clean(b.Target) == "/" {
			return nil, fault.New(fault.Invalid, "", "start %s: show %q at %q: want absolute paths, and no target /", program, b.Source, b.Target)
		}
		b.Target = filepath.Clean(b.Target)
	}
	slices.SortFunc(requests, func(a, b request) int { return strings.Compare(a.Target, b.Target) }) // outer before inner
	for i, b := range requests {
		made, err := s.resolveRequest(b, requests[:i])
		if err != nil {
			return nil, fault.Wrap(errors.New(reason.Of(err)), fault.Invalid, "", "start %s: show %q at %q", program, b.Source, b.Target)
		}
		s.Entries = append(s.Entries, made)
	}
	return s, nil
}

// request is a bind, or an overlay at one of its targets; its Source is then what is
// shown, for errors and for what kind of file it is.
type request struct {
	Bind
	overlay *Overlay
	also    bool // one of overlay.Also
}

func (v *View) listRequests() (all []request) {
	for _, b := range v.Binds {
		all = append(all, request{Bind: b})
	}
	for i := range v.Overlays {
		o := &v.Overlays[i]
		all = append(all, request{Bind: Bind{Source: o.Upper, Target: o.Target}, overlay: o})
		for _, target := range o.Also {
			all = append(all, request{Bind: Bind{Source: o.Upper, Target: target}, overlay: o, also: true})
		}
	}
	return all
}

func (w request) targetIsAbs() bool {
	all := []string{w.Source, w.Target}
	if o := w.overlay; o != nil {
		all = append(append(all, o.Work), o.Lower...)
	}
	return !slices.ContainsFunc(all, func(path string) bool { return !filepath.IsAbs(path) })
}

// resolveLayers follows the links of an overlay's folders.
func (o *Overlay) resolveLayers() (*layers, error) {
	if len(o.Lower) == 0 {
		return nil, errors.New("nothing to lay the upper folder over")
	}
	var real []rawPath
	for _, path := range append([]string{o.Upper, o.Work}, o.Lower...) {
		to, err := filepath.EvalSymlinks(path)
		if err != nil {
			return nil, err
		}
		st, err := os.Stat(to)
		if err == nil && !st.IsDir() {
			err = errors.New("only folders can be laid over each other")
		}
		if err != nil {
			return nil, err
		}
		real = append(real, rawPath(to))
	}
	return &layers{Upper: real[0], Work: real[1], Lower: real[2:]}, nil
}

// resolveRequest follows the links of b. s shows the requests before it.
func (s *Layout) resolveRequest(b request, before []request) (entry, error) {
	source, err := filepath.EvalSymlinks(b.Source)
	if err != nil {
		return entry{}, err
	}
	st, err := os.Stat(source)
	if err != nil {
		return entry{}, err
	}
	made := entry{Source: rawPath(source), Folder: st.IsDir()}
	if b.overlay != nil {
		if made.Layers, err = b.overlay.resolveLayers(); err != nil {
			return entry{}, err
		}
		made.Source = ""
	}
	if b.also {
		target, err := filepath.EvalSymlinks(b.overlay.Target)
		if err != nil {
			return entry{}, err
		}
		made.Same = rawPath(target)
	}
	there := "" // what the machine, or an outer bind, has at the target
	for i, outer := range slices.Backward(before) {
		rest, inside := strings.CutPrefix(b.Target+"/", outer.Target+"/")
		if !inside {
			continue
		}
		if rest == "" {
			return entry{}, errors.New("shown there twice")
		}
		if s.Entries[i].Same != "" {
			return entry{}, errors.New("it lies where an overlay is shown once more")
		}
		there = s.Entries[i].machinePathOf(rest)
		made.Target = rawPath(filepath.Join(string(s.Entries[i].Target), rest))
		break
	}
	if there == "" {
		var target, in string
		if target, in, err = resolveTarget(b.Target); err != nil {
			return entry{}, err
		}
		made.Target, made.In = rawPath(target), rawPath(in)
		if in != "" && (b.overlay == nil || b.also) {
			return made, nil
		}
		there = target
	}
	st, err = os.Stat(there)
	switch {
	case err != nil:
		return entry{}, err
	case st.IsDir() && !made.Folder:
		return entry{}, errors.New("a file cannot be shown at a folder")
	case !st.IsDir() && made.Folder:
		return entry{}, errors.New("a folder cannot be shown at a file")
	}
	return made, nil
}

// resolveTarget follows the links in path as far as the machine has it. In is the last
// folder there is; "": path exists whole.
func resolveTarget(path string) (real, in string, err error) {
	rest := ""
	for at := path; ; at = filepath.Dir(at) {
		found, err := filepath.EvalSymlinks(at)
		switch {
		case err == nil && rest == "":
			return found, "", nil
		case err == nil:
			return filepath.Join(found, rest), found, nil
		case !errors.Is(err, fs.ErrNotExist):
			return "", "", err
		}
		rest = filepath.Join(filepath.Base(at), rest)
	}
}

// RefuseView is the error of Start for a view that this machine refuses.
func RefuseView(why string) error {
	hint := "See sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone and kernel.apparmor_restrict_unprivileged_userns."
	switch {
	case !Supported:
		hint = ""
	case os.Geteuid() == 0:
		hint = "Start the container with --cap-add SYS_ADMIN."
	}
	return &fault.Fault{Kind: fault.Denied, Hint: hint, Err: fmt.Errorf("%w: %s", ErrNoView, why)}
}

// OverlayError is the error of arrange for folders that cannot be laid over each other.
type OverlayError struct{ why error }

func (e OverlayError) Error() string { return e.why.Error() }

// RefuseOverlay is the error of Start for an overlay that this machine refuses.
func RefuseOverlay(why string) error {
	return &fault.Fault{Kind: fault.Denied, Err: fmt.Errorf("%w: %s", ErrNoOverlay, why)}
}
