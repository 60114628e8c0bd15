"""Notes which files of the repository a kernel really reads.

IPython runs this as it starts, by the name of PYTHONSTARTUP, which `stamps.watched` sets. Every
file and every folder that is opened for reading is written down at once, so a kernel that is killed
has said what it read until then. Of what compiled code opens Python hears nothing.
"""


def watch():
    import os
    import sys

    root = os.path.join(os.environ["BOOK_ROOT"], "")
    log = os.open(os.environ["BOOK_READS"], os.O_WRONLY | os.O_APPEND)

    def importing(frame):
        # where Python looks for modules is no reading: those that it finds are noted
        name = frame.f_code.co_filename.replace(os.sep, "/")
        return name.startswith("<frozen importlib") or "/importlib/metadata/" in name

    def heard(event, given):
        if event == "open":
            path, _, flags = given
            if isinstance(flags, int) and flags & (os.O_WRONLY | os.O_TRUNC):
                return
        elif event in ("os.listdir", "os.scandir") and not importing(sys._getframe(1)):
            path = "." if given[0] is None else given[0]
        else:
            return
        if isinstance(path, (str, bytes, os.PathLike)):  # a descriptor was noted when it was opened
            path = os.path.abspath(os.fsdecode(path))
            if path.startswith(root):
                os.write(log, f"{path}\n".encode())

    sys.addaudithook(heard)


watch()
del watch  # the names are the reader's
