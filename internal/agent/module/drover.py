"""What a script can use of drover: items, metrics, checkpoints.

    import drover

    model = load()                          # once in each process
    for item in drover.items():
        item.done(model(item.value))        # or item.fail("no face in it")

The same script runs on its own: then items() gives the command line's arguments, or
else the lines of standard input, and done() prints.

One file, nothing but the standard library, Python 3.7 and newer. It opens no
connection and changes nothing before items() or map() is used.
"""

import atexit
import collections
import json
import os
import socket
import sys
import threading
import time

__all__ = ["Item", "items", "map", "metric", "checkpoint", "stopping"]


def _plain(value):
    """What numpy, torch and others give, as JSON has it."""
    for name in ("tolist", "item"):
        convert = getattr(value, name, None)
        if convert is not None:
            return convert()
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise TypeError("item.done() takes what JSON can say, and this is a " + type(value).__name__)


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode


class Item:
    """One item: value is its text; of JSON lines its JSON, of CSV a dict by column.

    n is its number from 1 on, attempt counts its tries from 1 on. out is where its
    declared output belongs (--out), outs are all such places. file is where the file
    lies that the item names (--fetch); of CSV and JSON lines a dict by field.
    """

    __slots__ = ("value", "n", "attempt", "outs", "_file", "_link")

    def __init__(self, link, value, n=0, attempt=1, outs=(), file=None):
        self.value, self.n, self.attempt, self.outs, self._link = value, n, attempt, outs, link
        self._file = file

    @property
    def file(self):
        if self._file is None:
            raise AttributeError("this map fetches no file for this item: use drover map --fetch")
        return self._file

    @property
    def out(self):
        if not self.outs:
            raise AttributeError("this map declares no output: use drover map --out NAME")
        return self.outs[0]

    def done(self, result=None):
        """Answers the item. Leaving the loop's body does so too, with no result."""
        link = self._link
        if link is None:
            raise RuntimeError("item %d was answered before" % self.n)
        link.done(self, result)
        self._link = None

    def fail(self, error="", retry=True):
        """Gives the item up. With retry=False it is not worth another try."""
        link = self._link
        if link is None:
            raise RuntimeError("item %d was answered before" % self.n)
        link.fail(self, str(error), retry)
        self._link = None

    def __repr__(self):
        return "<item %d: %r>" % (self.n, self.value)


def _answer(n, result):
    """What is sent of an item that is done. Encoding by hand what is plain takes a third
    of the time."""
    kind = type(result)
    if result is None:
        return '{"n":%d}' % n
    if kind is int:
        return '{"n":%d,"result":%d}' % (n, result)
    if kind is str:
        return '{"n":%d,"result":%s}' % (n, _quote(result))
    return '{"n":%d,"result":%s}' % (n, _encode(result))


_quote = json.encoder.encode_basestring
_here = threading.local()  # item: which this thread works on


class _Link:
    """A connection to drover. Answers ride on requests; while some items are worked
    on, more are on their way."""

    def __init__(self, path, want):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.connect(path)
        self.want, self.items, self.rest = want, collections.deque(), b""
        # who works on items appends while another thread sends: both are one step of the
        # interpreter, or of the list's own lock
        self.answers, self.given_up, self.asked, self.until = [], [], False, 0.0
        self.sent = 0.0
        self.low = 0  # ask for more when no more than these are left
        self.minded = False  # remind will look once more
        self.looked = 0.0
        self.lock, self.waiting = threading.Lock(), None

    def done(self, item, result):
        self.answers.append(_answer(item.n, result))
        if _clock() - self.sent > _SOON or not self.minded:
            self.tell()

    def fail(self, item, error, retry):
        self.given_up.append(_encode({"n": item.n, "error": error, "retry": retry}))
        self.tell()

    def tell(self):
        """Sends answers at once when the last ones were sent some time ago, and else a
        little later, with others."""
        if _clock() - self.sent > _SOON:
            self.send()
            return
        self.minded = True
        if self.waiting is None:
            self.waiting = threading.Event()
            threading.Thread(target=self.remind, args=(self.waiting,), daemon=True).start()
        else:
            self.waiting.set()

    def remind(self, waiting):
        """Sends what waits while the next item takes its time."""
        try:
            while self.sock.fileno() >= 0:
                time.sleep(_SOON)
                if _clock() - self.sent > _SOON:
                    self.send()
                waiting.clear()
                self.minded = False
                if self.answers or self.given_up:  # of before that, which nobody tells of again
                    self.minded = True
                else:
                    waiting.wait()
        except OSError:
            pass  # who works on items finds out

    def send(self, want=0, back=(), bye=False):
        with self.lock:
            self._send(want, back, bye)

    def _send(self, want, back, bye):
        parts = []
        for key, waiting in (('"done":[', self.answers), ('"fail":[', self.given_up)):
            some = waiting[:]  # more may come meanwhile
            if some:
                parts.append(key + ",".join(some) + "]")
                del waiting[:len(some)]
        if back:
            parts.append('"back":' + _encode([item.n for item in back]))
        if want:
            parts.append('"want":%d' % want)
            self.asked = True
        if bye:  # what is on its way is not read any more
            parts.append('"bye":true')
        if parts:
            self.sent = _clock()
            self.sock.sendall(("{" + ",".join(parts) + "}\n").encode("utf-8", "surrogatepass"))

    def receive(self):
        """Takes the next answer to a request; False when there is nothing more."""
        while b"\n" not in self.rest:
            more = self.sock.recv(1 << 18)
            if not more:
                return False
            self.rest += more
        line, _, self.rest = self.rest.partition(b"\n")
        said = json.loads(line)
        if "error" in said:
            raise RuntimeError("drover: " + said["error"])
        self.asked = False
        if said.get("end"):
            return False
        self.until = said["until"]
        given = said["items"]
        for i in given:
            if len(i) == 2:  # as most are
                self.items.append(Item(self, i["value"], i["n"]))
            else:
                self.items.append(Item(self, i["value"], i["n"], i.get("try", 1), i.get("out", ()), i.get("file")))
        self.low = len(given) // 2
        return True

    def next(self):
        now = _boottime()
        if _over or now - self.looked > _SOON:
            self.looked = now
            if _noticed():
                return None  # close gives back what has not begun
        if self.items and now >= self.until:  # drover may have given them to others
            back, self.items = self.items, collections.deque()
            self.send(back=back)
        while not self.items:
            if self.asked:
                self.send()  # nobody else would tell of what is done
            else:
                self.send(self.want)
            if not self.receive():
                return None
        item = self.items.popleft()
        if not self.asked and len(self.items) <= self.low and self.want > 1:
            self.send(self.want)
        return item

    def close(self):
        try:
            self.items = ()
            self.send(bye=True)
        except OSError:
            pass
        self.sock.close()
        if self.waiting is not None:
            self.waiting.set()


_clock = time.monotonic

if hasattr(time, "CLOCK_BOOTTIME"):
    def _boottime(_read=time.clock_gettime, _which=time.CLOCK_BOOTTIME):
        return _read(_which)
else:
    _boottime = time.monotonic


class _Alone:
    """Without drover: what done() was given is printed."""

    def done(self, item, result):
        if result is not None:
            print(result if isinstance(result, str) else _encode(result), flush=True)

    def fail(self, item, error, retry):
        print("item %s failed: %s" % (item.value, error), file=sys.stderr, flush=True)
        if os.environ.get("DROVER_ITEM") is not None:
            atexit.unregister(_failed)
            atexit.register(_failed)


def _failed():
    """Of a process for each item the exit status says how the item ended."""
    _flush()
    os._exit(1)


def _alone():
    one = os.environ.get("DROVER_ITEM")
    if one is not None:  # a process for each item
        values = [one]
    elif len(sys.argv) > 1:
        values = sys.argv[1:]
    else:
        values = (line.rstrip("\r\n") for line in sys.stdin)
    for n, value in enumerate(values, 1):
        yield Item(_Alone(), value, n, outs=tuple(filter(None, [os.environ.get("DROVER_OUT")])),
                   file=os.environ.get("DROVER_ITEM_FILE") or value)


class _Shared:
    """An iterator for several threads."""

    def __init__(self, items):
        self._items, self._lock = items, threading.Lock()

    def __iter__(self):
        return self

    def __next__(self):
        with self._lock:
            return next(self._items)


_MANY = 1 << 16
_SOON = 0.02  # seconds


def items(ahead=None):
    """Gives one item after another until there are no more.

    ahead is the most that wait in this process; without it drover decides by how long
    they take. Each thread that uses items() gets items of its own.
    """
    path = os.environ.get("DROVER_SOCK")
    if not path:
        for item in _alone():
            yield item
            if item._link is not None:
                item.done()
        return
    _tap()
    link = _Link(path, ahead or _MANY)
    try:
        while True:
            item = link.next()
            if item is None:
                return
            _here.item, _here.link = item, link
            yield item
            if item._link is not None:
                item.done()
    finally:
        if sys.exc_info()[0] is not GeneratorExit or item._link is None:
            _here.item = _here.link = None
            link.close()
        # else the loop was left within an item: by what its body raised, maybe, which
        # the hook below tells then; the process's end closes the connection


def map(f, workers=1, batch=None):
    """Answers every item with f(value). What f raises is the item's failure, and the
    next item goes on. workers are threads; with batch f gets a list of values, at
    most so many, and returns a list as long."""
    alone = None if os.environ.get("DROVER_SOCK") else _Shared(_alone())
    if workers > 1:
        errors = []

        def work():
            try:
                _map(f, batch, alone)
            except BaseException as e:
                errors.append(e)

        threads = [threading.Thread(target=work, daemon=True) for _ in range(workers)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        if errors:
            raise errors[0]
    else:
        _map(f, batch, alone)


def _map(f, batch, alone):
    if batch is None:
        for item in alone or items():
            try:
                result = f(item.value)
            except Exception as e:
                _report(e)
                item.fail(_last(e))
            else:
                item.done(result)
        return
    link = None if alone else _Link(os.environ["DROVER_SOCK"], batch)
    if link:
        _tap()
    try:
        while True:
            group = []
            while len(group) < batch:
                if link and group and not link.items:
                    break
                item = link.next() if link else next(alone, None)
                if item is None:
                    break
                group.append(item)
            if not group:
                return
            _here.item, _here.link = group[0], link
            try:
                results = list(f([item.value for item in group]))
                if len(results) != len(group):
                    raise ValueError("f returned %d results for %d items" % (len(results), len(group)))
            except Exception as e:
                _report(e)
                for item in group:
                    item.fail(_last(e))
            else:
                for item, result in zip(group, results):
                    item.done(result)
    finally:
        if link:
            link.close()


def _last(e):
    text = str(e).strip().splitlines()
    return type(e).__name__ + (": " + text[-1] if text else "")


def _report(e):
    import traceback
    traceback.print_exception(type(e), e, e.__traceback__)


class _Tap:
    """A standard stream that says for which item it prints: see DROVER_SOCK in the
    documentation."""

    def __init__(self, stream):
        self._stream, self._item, self._lock = stream, None, threading.RLock()

    def write(self, text):
        item = getattr(_here, "item", None)
        with self._lock:
            if item is not self._item:
                self._item = item
                self._stream.write("\x1b]drover;%d\a" % (item.n if item else 0))
            return self._stream.write(text)

    def writelines(self, lines):
        for line in lines:
            self.write(line)

    def __getattr__(self, name):
        return getattr(self._stream, name)


_tapped = False
_tapping = threading.Lock()


def _tap():
    """Done once, when the first item is asked for."""
    global _tapped
    with _tapping:
        if _tapped:
            return
        _tapped = True
        for stream in (sys.stdout, sys.stderr):
            try:  # a line at a time: unbuffered, print() would send it in two pieces
                stream.reconfigure(line_buffering=True, write_through=False)
            except (AttributeError, OSError, ValueError):
                pass
        sys.stdout, sys.stderr = _Tap(sys.stdout), _Tap(sys.stderr)
        sys.excepthook = _raised(sys.excepthook)
        atexit.register(_flush)


def _raised(before):
    def hook(kind, error, trace):
        before(kind, error, trace)
        item, link = getattr(_here, "item", None), getattr(_here, "link", None)
        if item is not None and item._link is not None and issubclass(kind, Exception):
            item._link = None
            if isinstance(link, _Link):
                link.given_up.append(_encode({"n": item.n, "error": _last(error), "retry": True}))
                link.close()
    return hook


def _flush():
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


_MARK = "\x1b]drover;metric\a"  # taken out of the output again
_WIDE = 40  # numbers in a line


def metric(step=None, **values):
    """Records numbers by name: drover.metric(loss=0.31, step=5). In a map they are
    printed for the item. On its own, nothing."""
    words = ["%s=%s" % ("_".join(name.replace("=", " ").split()), _number(value)) for name, value in values.items()]
    when = [] if step is None else ["step=%d" % step]
    if "DROVER_JOB" not in os.environ:
        return
    mark, stream = "", sys.stdout
    if os.environ.get("DROVER_METRICS"):
        mark = _MARK
        if sys.__stdout__ and "ipykernel" not in sys.modules:
            stream = sys.__stdout__  # wherever print goes
    for i in range(0, len(words), _WIDE):
        stream.write(mark + " ".join(when + words[i:i + _WIDE]) + "\n")
    stream.flush()


def _number(value):
    return "%d" % value if isinstance(value, int) else repr(float(value))


def checkpoint():
    """The folder for checkpoints: what is in it comes back after an interruption, on
    whatever machine. On its own, ./checkpoints. Items of a map have none."""
    if ("DROVER_SOCK" in os.environ or "DROVER_ITEM_N" in os.environ) and not os.environ.get("DROVER_METRICS"):
        raise RuntimeError("drover.checkpoint() is for drover run, and this is an item of a map: "
                           "write what it makes to item.out (drover map --out NAME), or answer with item.done(result)")
    path = os.environ.get("DROVER_CHECKPOINT_DIR") or "checkpoints"
    os.makedirs(path, exist_ok=True)
    return path


_over = False


def _noticed():
    global _over
    if not _over:
        path = os.environ.get("DROVER_NOTICE")
        _over = bool(path) and os.path.exists(path)
    return _over


def stopping():
    """True once this program has to end soon: its machine is about to be taken away, or
    somebody has stopped the job. Save, and end.

    Who asks has time for that: from the first call on neither SIGINT (Ctrl-C) nor SIGTERM
    ends this process, unless it has a handler of its own for it; after --grace it is killed."""
    if os.environ.get("DROVER_NOTICE"):
        _outlive()
    return _noticed()


_outlives = False


def _outlive():
    global _outlives
    if _outlives or threading.current_thread() is not threading.main_thread():
        return  # only that one may
    _outlives = True
    import signal
    us = os.getpid()
    for number in (signal.SIGINT, signal.SIGTERM):
        before = signal.getsignal(number)
        if before not in (signal.SIG_DFL, signal.default_int_handler):
            continue

        def heard(number, frame, before=before):
            if os.getpid() != us:  # a child, which is ended as ever
                signal.signal(number, before)
                os.kill(os.getpid(), number)

        signal.signal(number, heard)
