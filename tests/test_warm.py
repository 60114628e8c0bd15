"""Kernels that are forked from a process that waits."""

import os
import sys
import time

import pytest
import warm
from command import ROOT
from jupyter_client.manager import start_new_kernel

ASKED = """
import sys, matplotlib, torch, pandas
assert not any("tools" in place for place in sys.path), sys.path
assert "inline" in matplotlib.get_backend() and pandas.options.display.max_columns == 20
print(torch.initial_seed() and "transformer_lens.model_bridge" in sys.modules)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="kernels are forked on Linux alone")
def test_a_warm_kernel_is_as_new_and_ends_with_its_process(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_PATH", str(tmp_path))
    with warm.kernels(tmp_path, os.environ | {"PYTHONPATH": str(ROOT)}, 2) as told:
        assert told == ["--nbval-kernel-name=warm"]
        manager, client = start_new_kernel(kernel_name="warm", startup_timeout=120)
        said = []
        reply = client.execute_interactive(ASKED, timeout=60, output_hook=said.append)
        assert reply["content"]["status"] == "ok", reply["content"]
        assert "True\n" in [m["content"].get("text") for m in said]
        client.execute_interactive("import os; print(os.getpid())", output_hook=said.append)
        own = next(int(t) for m in said if (t := m["content"].get("text", "")).strip().isdigit())
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        with pytest.raises(ProcessLookupError):
            for _ in range(100):
                os.kill(own, 0)
                time.sleep(0.1)
