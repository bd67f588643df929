# Run by drover in the interpreter to be judged: python -c THIS < {"wanted": ..., "bounds": ..., "conda": ...}
# Prints one JSON object: who this interpreter is, and the first thing it lacks.
import sys

sys.path[:] = [p for p in sys.path if p]  # the code folder must not stand in for the standard library

import json
import os

if sys.version_info < (3, 8):  # before importlib.metadata; this much is Python 2 too
    print(json.dumps({"self": {
        "executable": sys.executable, "base": sys.executable, "old": True,
        "version": ".".join(map(str, sys.version_info[:3]))}, "unknown": "it is too old"}))
    sys.exit(0)

import importlib
import site
import sysconfig
from importlib import metadata


def stamp(path):
    try:
        s = os.stat(path)
    except (OSError, ValueError):
        return "-"
    return "d%d" % s.st_mtime_ns if os.path.isdir(path) else "f%d:%d" % (s.st_mtime_ns, s.st_size)


def identity():
    prefix = sys.prefix
    base = getattr(sys, "_base_executable", None) or sys.executable
    kind = ""
    if os.path.isdir(os.path.join(prefix, "conda-meta")):
        kind = "conda"
    elif prefix != sys.base_prefix:
        kind = "venv"
    return {
        "executable": sys.executable, "prefix": prefix, "kind": kind,
        "base": base if os.path.exists(base) else sys.executable,
        "version": "%d.%d.%d" % sys.version_info[:3],
        "implementation": sys.implementation.name,
        "platform": sysconfig.get_platform(),
        "tag": sysconfig.get_config_var("SOABI") or "%d%d" % sys.version_info[:2],
    }


def watch():
    # Taken before a package is looked at: a change meanwhile is then seen next time.
    paths = list(sys.path) + [sys.executable, os.path.join(sys.prefix, "pyvenv.cfg"), os.path.join(sys.prefix, "conda-meta")]
    try:
        paths.append(site.getusersitepackages())
    except Exception:
        pass
    return {os.path.abspath(p): stamp(p) for p in paths}


def editables():
    """What "pip install -e" shows: folders that .pth files add to the path, and what finders map."""
    dirs, packages = [], {}
    try:
        sites = site.getsitepackages() + [site.getusersitepackages()]
    except Exception:
        sites = [sysconfig.get_path("purelib")]
    own = [os.path.realpath(p) + os.sep for p in sites + [os.path.dirname(sysconfig.get_path("stdlib")), os.path.dirname(sysconfig.get_path("platstdlib"))]]
    for folder in sites:
        try:
            files = sorted(f for f in os.listdir(folder) if f.endswith(".pth"))
        except OSError:
            continue
        for name in files:
            try:
                with open(os.path.join(folder, name), encoding="utf-8") as f:
                    lines = [line.strip() for line in f]
            except (OSError, ValueError):
                continue
            for line in lines:
                path = os.path.abspath(os.path.join(folder, line))
                if (line and not line.startswith(("#", "import ", "import\t")) and os.path.isdir(path) and path not in dirs
                        and not (os.path.realpath(path) + os.sep).startswith(tuple(own))):
                    dirs.append(path)
    for name, module in list(sys.modules.items()):
        if name.startswith("__editable__"):
            packages.update({k: os.path.abspath(v) for k, v in getattr(module, "MAPPING", {}).items() if isinstance(v, str)})
    return {"dirs": dirs, "packages": packages}


def tools():
    """packaging, wherever one can be had: uv makes environments without it and without pip."""
    found = imported()
    if found is None:
        kept = list(sys.path)
        sys.path += lent()
        found = imported()
        sys.path[:] = kept  # what is installed there is not installed here
    return found


def imported():
    for root in ("packaging", "pip._vendor.packaging", "setuptools._vendor.packaging"):
        try:
            return (importlib.import_module(root + ".requirements").Requirement,
                    importlib.import_module(root + ".utils").canonicalize_name)
        except Exception:
            continue
    return None


def lent():
    """Where the interpreter below a virtual environment keeps its pip, and where Python keeps one to install."""
    import glob
    base = {"base": sys.base_prefix, "platbase": sys.base_prefix}
    stdlib = sysconfig.get_path("stdlib")
    return ([sysconfig.get_path("purelib", vars=base), "/usr/lib/python3/dist-packages"]
            + glob.glob(os.path.join(stdlib, "ensurepip", "_bundled", "pip-*.whl"))
            + glob.glob("/usr/share/python-wheels/pip-*.whl"))


class Judge:
    def __init__(self, Requirement, canonical, bounds):
        self.Requirement, self.canonical = Requirement, canonical
        self.every, self.seen, self.bounds = None, set(), {}
        for text in bounds:
            r = Requirement(text)
            if r.marker is None or r.marker.evaluate({"extra": ""}):
                self.bounds.setdefault(canonical(r.name), []).append(r)

    def find(self, name):
        try:
            return metadata.distribution(name)
        except metadata.PackageNotFoundError:
            pass
        if self.every is None:  # older Pythons do not normalise names
            self.every = {}
            for d in metadata.distributions():
                if d.metadata["Name"]:
                    self.every.setdefault(self.canonical(d.metadata["Name"]), d)
        return self.every.get(self.canonical(name))

    def lacks(self, text, by="", extras=("",)):
        """The first thing missing for one requirement, or None."""
        r = self.Requirement(text)
        if r.marker is not None and not any(r.marker.evaluate({"extra": e}) for e in extras):
            return None
        if r.url:
            return {"name": r.name, "direct": True, "by": by}
        name = self.canonical(r.name)
        d = self.find(r.name)
        if d is None or not d.version:
            return {"name": name, "by": by}
        for b in [r] + self.bounds.get(name, []):
            if not b.specifier.contains(d.version, prereleases=True):
                return {"name": name, "have": d.version, "want": b.name + str(b.specifier), "by": by}
        inner = {""} | set(r.extras) | {self.canonical(e) for e in r.extras}
        if (name, frozenset(inner)) in self.seen:
            return None
        self.seen.add((name, frozenset(inner)))
        for dep in d.requires or ():
            missing = self.lacks(dep, name, inner)
            if missing:
                return missing
        return None


def conda(asked, Requirement):
    """The first package of conda's that this prefix lacks, or None. Its folder has name-version-build.json of each."""
    try:
        files = os.listdir(os.path.join(sys.prefix, "conda-meta"))
    except OSError:
        files = []
    have = {}
    for f in files:
        parts = f[:-5].rsplit("-", 2)
        if f.endswith(".json") and len(parts) == 3:
            have[parts[0].lower()] = parts[1]
    for name, spec in asked:
        if name not in have:
            return {"name": name}
        if spec and not Requirement("x" + spec).specifier.contains(have[name], prereleases=True):
            return {"name": name, "have": have[name], "want": name + spec}
    return None


def main():
    asked = json.load(sys.stdin)
    answer = {"self": identity(), "watch": watch(), "editable": editables()}
    found = tools()
    if found is None and (asked["wanted"] or asked["conda"]):
        answer["unknown"] = "it has neither packaging nor pip to judge them by"
    else:
        try:
            judge = Judge(*(found or (None, None)), bounds=asked["bounds"])
            answer["missing"] = conda(asked["conda"], found and found[0])
            for text in asked["wanted"]:
                if answer["missing"]:
                    break
                answer["missing"] = judge.lacks(text)
        except Exception as e:
            answer["unknown"] = "it cannot judge them (%s)" % type(e).__name__
    print(json.dumps(answer))


main()
