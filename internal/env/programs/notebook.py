# Run by drover in the interpreter prepared for a notebook: python -c THIS name.ipynb [arguments]
# Executes the notebook in its own folder. What its cells print comes out here as it comes; the executed notebook
# takes the place of the file, also when a cell raises or the kernel ends. The exit status is that of a script.
import sys

sys.path[:] = [p for p in sys.path if p]  # the code folder is the kernel's, and must not stand in for our imports

import os
import re
import shutil
import signal
import tempfile
import time
import warnings

warnings.simplefilter("ignore")  # of this process; the kernel has its own

import nbformat
from ipykernel.kernelspec import get_kernel_dict
from jupyter_client.kernelspec import KernelSpec, NoSuchKernel
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError

MARK = "\x1b]drover;metric\a"  # what drover.metric() prints begins with it
COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# What the kernel does before the first cell. Of sys.exit() IPython warns those who type.
PRELUDE = """
import sys, warnings
sys.argv = %r
warnings.filterwarnings("ignore", "To exit: use", UserWarning)
del sys, warnings
"""
EVERY = 10  # seconds between two writes of the notebook: a kill that nobody can catch costs no more than that and a cell


class OwnKernel(AsyncKernelManager):
    """This interpreter, whatever kernels are installed for the user under the same name."""

    @property
    def kernel_spec(self):
        return KernelSpec(**get_kernel_dict())


class Client(NotebookClient):
    def process_message(self, msg, *rest):
        content = msg["content"]
        if msg["msg_type"] == "stream":
            say(sys.stderr if content.get("name") == "stderr" else sys.stdout, content.get("text", ""))
            content["text"] = content.get("text", "").replace(MARK, "")
        elif msg["msg_type"] in ("execute_result", "display_data"):
            text = content.get("data", {}).get("text/plain")
            if text:
                say(sys.stdout, text + "\n")
        return super().process_message(msg, *rest)


def say(to, text):
    try:
        to.write(text)
        to.flush()
    except (OSError, ValueError):
        pass  # nobody reads: the notebook is executed all the same


def joined(outputs):
    """Outputs with each run of lines as one, as Jupyter writes them, and of each progress bar its last state."""
    out = []
    for one in outputs:
        if one["output_type"] != "stream":
            out.append(one)
        elif out and out[-1]["output_type"] == "stream" and out[-1]["name"] == one["name"]:
            out[-1]["text"].append(one["text"])
        else:
            out.append(dict(one, text=[one["text"]]))
    for one in out:
        if one["output_type"] == "stream":
            lines = "".join(one["text"]).split("\n")
            one["text"] = "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1] for line in lines)
    return out


class File:
    """The notebook on disk."""

    def __init__(self, path):
        self.path = os.path.realpath(path)  # of a link, what it leads to is replaced
        self.notebook = nbformat.read(self.path, as_version=4)
        self.written, self.cost = time.monotonic(), 0.0
        for cell in self.cells():
            cell["outputs"], cell["execution_count"] = [], None  # of another run

    def cells(self):
        return [cell for cell in self.notebook["cells"] if cell["cell_type"] == "code"]

    def now_and_then(self):
        if time.monotonic() - self.written > max(EVERY, 20 * self.cost):
            self.write()

    def write(self):
        """Beside its place, then moved there: whoever is killed meanwhile leaves all of it or the one before."""
        began = time.monotonic()
        cells = [dict(c, outputs=joined(c["outputs"])) if c["cell_type"] == "code" else c for c in self.notebook["cells"]]
        text = nbformat.writes(nbformat.from_dict(dict(self.notebook, cells=cells)))
        handle, temp = tempfile.mkstemp(dir=os.path.dirname(self.path), prefix=".notebook-")
        try:
            with os.fdopen(handle, "wb") as f:
                f.write((text + "\n").encode("utf-8", "backslashreplace"))
            shutil.copymode(self.path, temp)
            os.replace(temp, self.path)
        except BaseException:
            os.unlink(temp)
            raise
        self.written = time.monotonic()
        self.cost = self.written - began


def client_of(notebook, runtime):
    """The client, and whether its kernel is this interpreter."""
    spec, info = (notebook["metadata"].get(key) or {} for key in ("kernelspec", "language_info"))
    language = spec.get("language") or info.get("name") or "python"
    # A cold start from a network folder takes a minute; a busy machine is late with its output.
    options = {"timeout": None, "startup_timeout": 600, "iopub_timeout": 60}
    if language.lower() not in ("python", "ipython"):
        return Client(notebook, kernel_name=spec.get("name", language), kernel_manager_class=AsyncKernelManager, **options), False
    client = Client(notebook, kernel_name="python3", kernel_manager_class=OwnKernel, **options)
    client.km = client.create_kernel_manager()
    if len(runtime) < 90:  # a socket's path has room for about a hundred letters
        # In a folder that is ours alone: other users of the machine could reach a port.
        client.km.transport, client.km.connection_file = "ipc", os.path.join(runtime, "k.json")
    return client, True


def ended_by(client):
    """The exit status of a kernel that ended by itself, as a shell gives it."""
    process = getattr(getattr(client.km, "provisioner", None), "process", None)
    code = process.poll() if process is not None else None
    if not code:
        return 1  # nobody asked it to end
    return 128 - code if code < 0 else code


def raised(e, file):
    """The exit status of a cell that raised, as of a script that did."""
    if e.ename != "SystemExit":
        errors = [o for cell in file.cells() for o in cell["outputs"] if o["output_type"] == "error"]
        text = "\n".join(errors[-1]["traceback"]) if errors else str(e)
        say(sys.stderr, COLOURS.sub("", text).rstrip("\n") + "\n")
        return 1
    if e.evalue in ("", "None"):
        return 0
    try:
        return int(e.evalue) & 0xFF
    except ValueError:
        say(sys.stderr, e.evalue + "\n")
        return 1


def ended(name, cell, status):
    say(sys.stderr, "%s: the kernel ended in cell [%d], with exit status %d\n" % (name, cell, status))
    return status


def execute(client, own, name, arguments, file):
    with client.setup_kernel(cwd=os.path.dirname(os.path.abspath(name))):
        client.km.shutdown_wait_time = 30.0  # what is registered with atexit may upload something
        try:
            if own:
                client.wait_for_reply(client.kc.execute(PRELUDE % ([name] + arguments), silent=True, store_history=False))
            info = client.wait_for_reply(client.kc.kernel_info())
            if info and "language_info" in info["content"]:
                client.nb["metadata"]["language_info"] = info["content"]["language_info"]
            for index, cell in enumerate(client.nb["cells"]):
                client.execute_cell(cell, index, execution_count=client.code_cells_executed + 1)
                file.now_and_then()
            client.set_widgets_metadata()
        except CellExecutionError as e:
            return raised(e, file)
        except DeadKernelError:
            return ended(name, client.code_cells_executed, ended_by(client))
    return 0


def main():
    # The kernel gets the same signals, and what it makes of them decides: one that ends by them ends this too.
    stopped = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda n, _: stopped.append(n))
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    name, arguments = sys.argv[1], sys.argv[2:]
    try:
        file = File(name)
    except Exception as e:
        say(sys.stderr, "%s is not a notebook: %s\n" % (name, str(e).split("\n")[0][:200]))
        return 1
    runtime = tempfile.mkdtemp(prefix="drover-notebook-")
    os.environ["JUPYTER_RUNTIME_DIR"] = runtime  # a home that cannot be written must not matter
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")  # or older kernels begin with a lecture on debuggers
    try:
        client, own = client_of(file.notebook, runtime)
        return execute(client, own, name, arguments, file)
    except NoSuchKernel as e:
        say(sys.stderr, "%s: its kernel %r is not installed here\n" % (name, e.name))
        return 1
    except RuntimeError as e:  # before there was a cell
        if stopped:
            return ended(name, 0, 128 + stopped[0])
        say(sys.stderr, "%s: its kernel does not start: %s\n" % (name, e))
        return 1
    finally:
        file.write()
        shutil.rmtree(runtime, ignore_errors=True)


sys.exit(main())
