package env

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/internal/env/requirements"
	"github.com/drover-run/drover/internal/env/tools"
)

// explainFailure turns a tool's last words into one fault; nil stays nil. The whole
// output has gone to the log.
func (b *builder) explainFailure(ctx context.Context, out string, err error) error {
	if err == nil || ctx.Err() != nil {
		return err // says already that it was stopped
	}
	return explain(out, err, b.plan.asked, b.plan.self)
}

// scene is what an explanation may speak of.
type scene struct {
	asked *requirements.Manifest
	self  identity
	out   string   // all white space as single blanks: tools break lines by the width they assume
	match []string // the symptom's groups
}

// A symptom is something uv or pip says, and what it means. The first group of
// said, where there is one, is a package's name.
type symptom struct {
	said func() *regexp.Regexp
	mean func(s scene) *fault.Fault
}

// says compiles a symptom's expression; NAME stands for a package's name.
func says(expr string) func() *regexp.Regexp {
	return tools.Compiled(strings.ReplaceAll(expr, "NAME", "([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"))
}

// symptoms in order: what makes another one appear comes first. A dead network
// makes pip say "from versions: none", for instance. Newer uv says "cause:"
// where older ones draw an arrow.
var symptoms = []symptom{
	{says(`(?i)no space left on device|disk quota exceeded`), diskFull},
	{says(`(?i)ensurepip is not available|no module named '?(?:venv|ensurepip)`), noVenv},
	{says(`(?i)invalid peer certificate|certificate verify failed|SSLError\(|problem confirming the ssl certificate`), badCertificate},
	{says(`(?i)\b40[13] client error|client error \(40[13]|\b40[13] (?:unauthorized|forbidden)`), refused},
	{says(`(?i)could not resolve host|CondaHTTPError|CondaConnectionError|after connection broken by|error sending request for url|dns error|tcp connect error|network is unreachable|failed to establish a new connection|could not connect, are you offline`), noNetwork},
	{says(`current Python version \([0-9.]+\) does not satisfy Python(\S+) and NAME`), wrongPython},
	{says(`Package 'NAME' requires a different Python: \S+ not in '(.*?)'`), wrongPythonPip},
	{says(`(?i)hash mismatch for .?NAME`), badHash},
	{says(`DO NOT MATCH THE HASHES.*? tampered with them\. NAME`), badHash},
	{says(`ecause NAME was not found in the (?:package registry|provided package locations)`), noPackage},
	{says(`satisfies the requirement NAME.*? \(from versions: (.*?)\)`), noMatch},
	{says(`ResolutionImpossible|conflicting dependencies`), conflict},
	{says(`NAME(?: [=<>!~*][^ ]*)* does not exist \(perhaps a typo or a missing channel\)`), noCondaPackage},
	{says(`nothing provides (?:requested )?NAME`), noCondaPackage},
	{says(`(?:PackagesNotFoundError|ResolvePackageNotFound):.*? - NAME`), noCondaPackage},
	{says(`(?i)could not solve for environment specs|LibMambaUnsatisfiableError|UnsatisfiableError`), conflict},
	{says(`(?:cause:|▶) Because (?:there is no version of|only(?: the following versions of)?) NAME(?:[^,]|,[<>=!~])* and you require (?:[^,]|,[<>=!~])*, we can conclude that your requirements are unsatisfiable`), noVersion},
	{says(`No solution found when resolving|requirements are unsatisfiable`), conflict},
	{says(`(?i)couldn't parse requirement|invalid requirement`), badLine},
	{says("(?:Failed to build|building wheel for) `?NAME"), noBuild},
	{says(`(?i)build backend returned an error|subprocess-exited-with-error`), noBuild},
}

func explain(out string, err error, asked *requirements.Manifest, self identity) error {
	out = tools.Mask(out)
	flat := strings.Join(strings.Fields(out), " ")
	for _, s := range symptoms {
		if m := s.said().FindStringSubmatch(flat); m != nil {
			return s.mean(scene{asked, self, flat, m})
		}
	}
	return fault.Wrap(err, fault.Failed, "", "build environment: %s%s", asked.ShownName(), tools.LastLine(out))
}

// findRequirement says where a package was asked for and in which words: the line, or
// the whole file for a package's dependency.
func (s scene) findRequirement(name string) (where, text string) {
	if where, text = s.asked.FindPackage(name); where == "" {
		return s.asked.ShownName(), name
	}
	return where, text
}

func diskFull(scene) *fault.Fault {
	return fault.New(fault.Full, diskHint, "build environment: the disk is full")
}

func noVenv(s scene) *fault.Fault {
	return fault.New(fault.Missing, "Try apt-get install python3-venv, or install uv.",
		"build environment: %s: it has no pip, and no venv that could bring one", s.self.Base)
}

func badCertificate(scene) *fault.Fault {
	return fault.New(fault.Denied, "Set SSL_CERT_FILE to a file with your authority's certificates.",
		"build environment: the package index shows a certificate that is not trusted here")
}

func refused(scene) *fault.Fault {
	return fault.New(fault.Denied, "Check the user and password in PIP_INDEX_URL or UV_DEFAULT_INDEX.",
		"build environment: the package index refuses access")
}

func noNetwork(scene) *fault.Fault {
	return fault.New(fault.Lost, "Check the network and PIP_INDEX_URL, or take your interpreter as it is with `--no-env`.",
		"build environment: the package index does not answer")
}

func wrongPython(s scene) *fault.Fault { return s.needsPython(s.match[2], s.match[1]) }

func wrongPythonPip(s scene) *fault.Fault { return s.needsPython(s.match[1], s.match[2]) }

func (s scene) needsPython(name, wants string) *fault.Fault {
	where, text := s.findRequirement(name)
	return fault.New(fault.Invalid, fmt.Sprintf("Try another interpreter with `--python`, or change %s.", where),
		"build environment: %s: %q needs Python %s, this is %s", where, text, wants, s.self.Version)
}

func badHash(s scene) *fault.Fault {
	where, _ := s.findRequirement(s.match[1])
	return fault.New(fault.Denied, "Bring that package's `--hash` up to date, if you trust the new file.",
		"build environment: %s: the downloaded %s is not the file that its hash names", where, s.match[1])
}

func noPackage(s scene) *fault.Fault {
	where, _ := s.findRequirement(s.match[1])
	return fault.New(fault.Invalid, fmt.Sprintf("Check the spelling in %s, or name the index that has it: PIP_EXTRA_INDEX_URL=https://...", where),
		"build environment: %s: no package %q in the index", where, s.match[1])
}

func noCondaPackage(s scene) *fault.Fault {
	return fault.New(fault.Invalid, fmt.Sprintf("Check the spelling in %s, or add the channel that has it.", s.asked.ShownName()),
		"build environment: %s: no package %q in its channels", s.asked.ShownName(), s.match[1])
}

var ignored = tools.Compiled(`versions that require a different python version: (.*?) ERROR:`)

// noMatch is all that pip says about three different causes: no such package,
// no such version, none for this Python. The list of versions it ignored tells
// the last one only for a version that was named exactly.
func noMatch(s scene) *fault.Fault {
	name := s.match[1]
	if m := ignored().FindStringSubmatch(s.out); m != nil {
		_, text := s.findRequirement(name)
		_, pin, _ := strings.Cut(text, "==")
		for _, one := range strings.Split(m[1], "; ") {
			version, wants, _ := strings.Cut(one, " Requires-Python ")
			if pin = strings.TrimSpace(pin); version == pin {
				return s.needsPython(name, wants)
			}
		}
		return noVersion(s)
	}
	if s.match[2] == "none" {
		return noPackage(s)
	}
	return noVersion(s)
}

func noVersion(s scene) *fault.Fault {
	where, text := s.findRequirement(s.match[1])
	return fault.New(fault.Invalid, fmt.Sprintf("Loosen %s, or try another interpreter with `--python`.", where),
		"build environment: %s: the index has no %q for Python %s", where, text, s.self.Version)
}

func conflict(s scene) *fault.Fault {
	return fault.New(fault.Invalid, fmt.Sprintf("Loosen the versions in %s that the output above names.", s.asked.ShownName()),
		"build environment: %s: its requirements contradict each other", s.asked.ShownName())
}

func badLine(s scene) *fault.Fault {
	// No tool of today names the line, but each repeats it.
	where, longest := s.asked.ShownName(), 0
	for _, e := range s.asked.Entries {
		text := tools.Mask(strings.Join(strings.Fields(e.Text), " "))
		if len(text) > longest && strings.Contains(s.out, text) {
			where, longest = e.WhereItStands(), len(text)
		}
	}
	return fault.New(fault.Invalid, fmt.Sprintf("Write %s as name>=1.0.", where), "build environment: %s: it is not a requirement", where)
}

func noBuild(s scene) *fault.Fault {
	where, text := s.asked.ShownName(), "a package"
	if len(s.match) > 1 {
		where, text = s.findRequirement(s.match[1])
	}
	return fault.New(fault.Failed, "Read in the output above what its build lacks; often it is a compiler or a `-dev` package.",
		"build environment: %s: %s has no wheel for this Python and does not build", where, text)
}
