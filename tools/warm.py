"""Notebook kernels that begin warm, for importing torch takes longer than most chapters:

    python tools/warm.py PLACE            imports what every chapter imports, and waits at a socket
    python tools/warm.py PLACE -f FILE    is a kernel: the one that waits forks, and that fork runs

A fork knows no more than a new process that has done these imports: it has no model, no arrays and
no random numbers drawn.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path

IMPORTED = ["transformer_lens.model_bridge", "ctxlib", "ctxbook", "ctxviews", "matplotlib.pyplot"]
IMPORTED += ["matplotlib_inline.backend_inline", "ipykernel.kernelapp"]
NAME = "warm"


@contextmanager
def kernels(folder: Path, environment: dict[str, str], many: int) -> Iterator[list[str]]:
    """Let so many notebooks run in warm kernels: what nbval is told, with a folder that
    `JUPYTER_PATH` names. A single one, and systems on which forking is not safe, gain nothing:
    their kernels begin as they always do.
    """
    if many == 1 or sys.platform != "linux":
        yield ["--nbval-current-env"]
        return
    place, spec = folder / "socket", folder / "kernels" / NAME / "kernel.json"
    spec.parent.mkdir(parents=True)
    command = [sys.executable, str(Path(__file__).resolve()), str(place)]
    says = {"argv": [*command, "-f", "{connection_file}"], "display_name": NAME}
    spec.write_text(json.dumps(says | {"language": "python"}), encoding="utf-8")
    inline = {"MPLBACKEND": "module://matplotlib_inline.backend_inline"}
    with subprocess.Popen(command, env=environment | inline, stdout=subprocess.PIPE) as waiting:
        assert waiting.stdout is not None
        waiting.stdout.readline()  # it listens, and what asks waits until it has imported
        try:
            yield [f"--nbval-kernel-name={NAME}"]
        finally:
            waiting.terminate()


def wait(place: str) -> None:
    """Import, and give every kernel that asks a fork of this process."""
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(place)
        door.listen()
        print("listening", flush=True)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        del sys.path[0]  # the tools, which no notebook sees
        for name in IMPORTED:
            import_module(name)
        # as pandas sets it where a kernel imports it
        import_module("pandas").options.display.max_columns = 20
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no kernel is waited for here
        while True:
            asked, _ = door.accept()
            if not os.fork():
                door.close()
                run(asked)
            asked.close()


def run(asked: socket.socket) -> None:
    """Be the kernel of this connection file, until it ends or the one that asked is gone."""
    from ipykernel.kernelapp import IPKernelApp

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(1, 2)  # what a kernel shows goes by its sockets
    told = asked.makefile("rw")
    where, file = json.loads(told.readline())
    told.write(f"{os.getpid()}\n")
    told.flush()
    threading.Thread(target=lambda: (told.read(), os._exit(1)), daemon=True).start()
    os.chdir(where)
    sys.argv = ["ipykernel_launcher", "-f", file]
    IPKernelApp.launch_instance()
    os._exit(0)


def ask(place: str, file: str) -> None:
    """Stand for the kernel where a process is expected: interrupt it, and end when it ends."""
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(place)
        told = door.makefile("rw")
        told.write(json.dumps([os.getcwd(), file]) + "\n")
        told.flush()
        kernel = int(told.readline())
        signal.signal(signal.SIGINT, lambda *_: os.kill(kernel, signal.SIGINT))
        told.read()


if __name__ == "__main__":
    ask(sys.argv[1], sys.argv[3]) if sys.argv[2:] else wait(sys.argv[1])
