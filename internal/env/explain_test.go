package env

import (
	"errors"
	"strings"
	"testing"

	"github.com/drover-run/drover/fault"
	"github.com/drover-run/drover/fault/faulttest"
	"github.com/drover-run/drover/internal/env/requirements"
)

// What uv 0.13.8 and pip 23.2.1 said, shortened in the middle; the ones with an
// arrow are by an older uv.
var spoken = []struct {
	name, out, want string
	kind            fault.Kind
}{
	{"uv: no such package", "error: No solution found when resolving dependencies\n  cause: Because nosuch-xyz was not found in the package registry and you require nosuch-xyz, we can conclude that your requirements are unsatisfiable.",
		`requirements.txt line 3: no package "nosuch-xyz" in the index`, fault.Invalid},
	{"older uv, broken over lines", "  × No solution found when resolving dependencies:\n  ╰─▶ Because nosuch-xyz was not found in the package\n      registry and you require nosuch-xyz, we can conclude that your requirements are unsatisfiable.",
		`requirements.txt line 3: no package "nosuch-xyz" in the index`, fault.Invalid},
	{"pip: no such package", "ERROR: Could not find a version that satisfies the requirement nosuch-xyz (from versions: none)\nERROR: No matching distribution found for nosuch-xyz",
		`requirements.txt line 3: no package "nosuch-xyz" in the index`, fault.Invalid},
	{"pip: a dependency nobody has", "ERROR: Could not find a version that satisfies the requirement inner>=2 (from idna) (from versions: none)\nERROR: No matching distribution found for inner>=2",
		`requirements.txt: no package "inner" in the index`, fault.Invalid},
	{"uv: no such version", "error: No solution found when resolving dependencies\n  cause: Because there is no version of idna==99 and you require idna==99, we can conclude that your requirements are unsatisfiable.",
		`requirements.txt line 1: the index has no "idna==99" for Python 3.11.7`, fault.Invalid},
	{"uv: no version of a range", "  cause: Because only idna<=3.20 is available and you require idna>=98,<99, we can conclude that your requirements are unsatisfiable.",
		`requirements.txt line 1: the index has no "idna==99" for Python 3.11.7`, fault.Invalid},
	{"pip: no such version", "ERROR: Could not find a version that satisfies the requirement idna==99 (from versions: 0.2, 3.20)\nERROR: No matching distribution found for idna==99",
		`requirements.txt line 1: the index has no "idna==99" for Python 3.11.7`, fault.Invalid},
	{"pip: no such version, and others for another Python", "ERROR: Ignored the following versions that require a different python version: 1.0 Requires-Python >=3.12\nERROR: Could not find a version that satisfies the requirement idna==99 (from versions: 0.2, 3.20)\nERROR: No matching distribution found for idna==99",
		`requirements.txt line 1: the index has no "idna==99" for Python 3.11.7`, fault.Invalid},
	{"uv: another Python", "  cause: Because the current Python version (3.11.7) does not satisfy Python>=3.12 and scipy==1.18.1 depends on Python>=3.12, we can conclude that scipy==1.18.1 cannot be used.\n  And because you require scipy==1.18.1, we can conclude that your requirements are unsatisfiable.",
		`requirements.txt line 2: "scipy==1.18.1" needs Python >=3.12, this is 3.11.7`, fault.Invalid},
	{"pip: another Python", "ERROR: Ignored the following versions that require a different python version: 1.18.0 Requires-Python >=3.13; 1.18.1 Requires-Python >=3.12; 1.6.2 Requires-Python >=3.7,<3.10\nERROR: Could not find a version that satisfies the requirement scipy==1.18.1 (from versions: 0.8.0, 1.17.1)\nERROR: No matching distribution found for scipy==1.18.1",
		`requirements.txt line 2: "scipy==1.18.1" needs Python >=3.12, this is 3.11.7`, fault.Invalid},
	{"pip: a wheel for another Python", "ERROR: Package 'scipy' requires a different Python: 3.11.7 not in '>=9.0'",
		`requirements.txt line 2: "scipy==1.18.1" needs Python >=9.0, this is 3.11.7`, fault.Invalid},
	{"uv: a conflict", "error: No solution found when resolving dependencies\n  cause: Because requests==2.31.0 depends on urllib3>=1.21.1,<3 and you require urllib3<1.20, we can conclude that your requirements and requests==2.31.0 are incompatible.\n  And because you require requests==2.31.0, we can conclude that your requirements are unsatisfiable.",
		"requirements.txt: its requirements contradict each other", fault.Invalid},
	{"pip: a conflict", "ERROR: Cannot install -r requirements.txt (line 2) and urllib3<1.20 because these package versions have conflicting dependencies.\nERROR: ResolutionImpossible: for help visit",
		"requirements.txt: its requirements contradict each other", fault.Invalid},
	{"uv: no network", "error: Request failed after 1 retry in 1.3s\n  cause: Failed to fetch: http://127.0.0.1:9/simple/idna/\n  cause: error sending request for url (http://127.0.0.1:9/simple/idna/)\n  cause: tcp connect error",
		"the package index does not answer", fault.Lost},
	{"pip: no network", "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(': Failed to establish a new connection: [Errno 111]')': /simple/idna/\nERROR: Could not find a version that satisfies the requirement idna (from versions: none)\nERROR: No matching distribution found for idna",
		"the package index does not answer", fault.Lost},
	{"uv: an unknown authority", "  cause: error sending request for url (https://example.org/simple/six/)\n  cause: client error (Connect)\n  cause: invalid peer certificate: UnknownIssuer",
		"the package index shows a certificate that is not trusted here", fault.Denied},
	{"pip: an unknown authority", "WARNING: Retrying (Retry(total=0)) after connection broken by 'SSLError(SSLError(136, '[X509')': /simple/six/\nERROR: No matching distribution found for six",
		"the package index shows a certificate that is not trusted here", fault.Denied},
	{"uv: a wrong password", "error: Failed to fetch: `https://example.org/simple/idna/`\n  Caused by: HTTP status client error (401 Unauthorized) for url (https://example.org/simple/idna/)",
		"the package index refuses access", fault.Denied},
	{"uv: a full disk", "error: Failed to install: numpy-2.4.6.whl (numpy==2.4.6)\n  cause: failed to copy file: No space left on device (os error 28)",
		"the disk is full", fault.Full},
	{"pip: a full disk", "ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device",
		"the disk is full", fault.Full},
	{"uv: a wrong hash", "error: Failed to download `idna==99`\n  cause: Hash mismatch for `idna==99`\n\n  Expected:",
		"requirements.txt line 1: the downloaded idna is not the file that its hash names", fault.Denied},
	{"pip: a wrong hash", "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE. If you have updated; someone may have tampered with them.\n    idna==99 from https://example.org/idna.whl",
		"requirements.txt line 1: the downloaded idna is not the file that its hash names", fault.Denied},
	{"uv: no requirement", "error: Couldn't parse requirement in `requirements.txt` at position 0\n  cause: Unexpected end of version specifier, expected version\n         bad ==\n              ^^",
		"requirements.txt line 4: it is not a requirement", fault.Invalid},
	{"pip: no requirement", "ERROR: Invalid requirement: 'bad ==' (from line 4 of requirements.txt)",
		"requirements.txt line 4: it is not a requirement", fault.Invalid},
	{"uv: does not build", "error: Failed to build `scipy==1.18.1`\n  cause: The build backend returned an error",
		"requirements.txt line 2: scipy==1.18.1 has no wheel for this Python and does not build", fault.Failed},
	{"pip: does not build", "error: subprocess-exited-with-error\n× Getting requirements to build wheel did not run successfully.",
		"requirements.txt: a package has no wheel for this Python and does not build", fault.Failed},
	{"Debian without python3-venv", "The virtual environment was not created successfully because ensurepip is not available.  On Debian/Ubuntu systems, you need to install the python3-venv",
		"/usr/bin/python3: it has no pip, and no venv that could bring one", fault.Missing},
	{"micromamba: no such package", "error    libmamba Could not solve for environment specs\n    The following package could not be installed\n    └─ nosuch-xyz =* * does not exist (perhaps a typo or a missing channel).\ncritical libmamba Could not solve for environment specs",
		`requirements.txt: no package "nosuch-xyz" in its channels`, fault.Invalid},
	{"mamba: nothing provides it", "Encountered problems while solving:\n  - nothing provides requested nosuch-xyz 1.0.0\n",
		`requirements.txt: no package "nosuch-xyz" in its channels`, fault.Invalid},
	{"conda: no such package", "ResolvePackageNotFound: \n  - nosuch-xyz\n",
		`requirements.txt: no package "nosuch-xyz" in its channels`, fault.Invalid},
	{"micromamba: a conflict", "error    libmamba Could not solve for environment specs\n    The following packages are incompatible\n    ├─ numpy =1.26 * is requested",
		"requirements.txt: its requirements contradict each other", fault.Invalid},
	{"conda: no network", "CondaHTTPError: HTTP 000 CONNECTION FAILED for url <https://conda.anaconda.org/conda-forge/linux-64/repodata.json>",
		"the package index does not answer", fault.Lost},
	{"something new", "error: the sky is falling\n", "requirements.txt: the sky is falling: exit status 1", fault.Failed},
}

func TestWhatToolsSayBecomesOneFault(t *testing.T) {
	var said faulttest.Sayings
	asked := &requirements.Manifest{Path: "/code/requirements.txt"}
	for i, e := range requirements.Parse([]byte("idna==99\nscipy==1.18.1\nNosuch_XYZ\nbad ==\n")) {
		e.File, e.Line = "requirements.txt", i+1
		asked.Entries = append(asked.Entries, e)
	}
	for _, c := range spoken {
		t.Run(c.name, func(t *testing.T) {
			err := explain(c.out, errors.New("exit status 1"), asked, identity{Version: "3.11.7", Base: "/usr/bin/python3"})
			want := "build environment: " + c.want
			said.Error(c.name, err)
			if err.Error() != want || fault.KindOf(err) != c.kind {
				t.Errorf("%q (%s)\nwant %q (%s)", err, fault.KindOf(err), want, c.kind)
			}
			if hint := fault.Hint(err); c.name != "something new" && (!strings.HasSuffix(hint, ".") && !strings.HasSuffix(hint, "...")) {
				t.Errorf("hint = %q", hint)
			}
		})
	}
	said.Compare(t, "tools")
}
