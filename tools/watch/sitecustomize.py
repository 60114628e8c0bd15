"""Notes which files of the repository this process, a kernel above all, really reads.

Python runs a module of this name as it starts, before anything else is imported. `stamps.watched`
puts its folder on the path and names a log in BOOK_READS; without that nothing happens. Every file
and every folder that is opened for reading is written down at once, so a process that is killed has
said what it read until then. What another process of the same environment reads is noted as well.
"""

import os
import runpy
import sys
from importlib.machinery import PathFinder


def watch(root: str, log: str) -> None:
    """Append what lies under `root` and is read to `log`: a path a line."""
    seen = set()
    out = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    inside = os.path.join(root, "")

    def note(path):
        if not isinstance(path, (str, bytes, os.PathLike)):
            return  # a descriptor: it was noted when it was opened
        path = os.path.abspath(os.fsdecode(path))
        folder, name = os.path.split(path)
        if os.path.basename(folder) == "__pycache__":  # compiled from a source, and held against it
            path = os.path.join(os.path.dirname(folder), name.partition(".")[0] + ".py")
        if path.startswith(inside) and path not in seen:
            seen.add(path)
            os.write(out, f"{path}\n".encode())

    def heard(event, given):
        if event == "open":
            path, _, flags = given
            if not (isinstance(flags, int) and flags & (os.O_WRONLY | os.O_TRUNC)):
                note(path)
        elif event in ("os.listdir", "os.scandir") and not importing(sys._getframe(1)):
            note("." if given[0] is None else given[0])

    def importing(frame):
        # where Python looks for modules is no reading: those that it finds are noted
        name = frame.f_code.co_filename.replace(os.sep, "/")
        return name.startswith("<frozen importlib") or "/importlib/metadata/" in name

    sys.addaudithook(heard)

    # Two libraries open files in compiled code, of which Python hears nothing.
    import safetensors
    import tokenizers

    def noted(opens):
        def noting(path, *args, **kwargs):
            note(path)
            return opens(path, *args, **kwargs)

        return noting

    safetensors.safe_open = noted(safetensors.safe_open)  # type: ignore[misc]
    from_file = staticmethod(noted(tokenizers.Tokenizer.from_file))
    tokenizers.Tokenizer.from_file = from_file  # type: ignore[method-assign]


# pytest, which asks a kernel, is none
if (reads := os.environ.get("BOOK_READS")) and "nbval.plugin" not in sys.orig_argv:
    watch(os.environ["BOOK_ROOT"], reads)
# A machine may have a module of this name of its own, which this one stands in front of.
here = os.path.dirname(os.path.abspath(__file__))
elsewhere = [place for place in sys.path if os.path.abspath(place) != here]
if own := PathFinder.find_spec("sitecustomize", elsewhere):
    runpy.run_path(str(own.origin))
