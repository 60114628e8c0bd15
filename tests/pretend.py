"""A pretend GPU, for machines without one: tensors that say they lie on another device and keep the
rules of CUDA.

Their numbers lie in the processor's memory, so that results can be held against the CPU's. What
CUDA refuses is refused: operands on two devices, GPU indices into a CPU tensor, `.numpy()`. What it
allows is allowed: a CPU scalar in a pointwise operation, CPU indices into a GPU tensor, copies
either way, `.item()`, `.tolist()` and formatting. Speed and memory of a GPU are not imitated, nor
is its rounding.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

NAME = "pretend"
aten = torch.ops.aten
#: Their second argument may lie on the CPU.
INDEXED = (aten.index.Tensor, aten.index_put_.default)

# Once in a process, and before its first derivative, when torch counts its devices; that cannot be
# taken back.
_setup_privateuseone_for_python_backend(NAME)


class OnGPU(Tensor):
    """A tensor on the pretend GPU; its numbers are in `held`."""

    held: Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: Tensor) -> OnGPU:
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
        )
        made.held = held
        return made

    # torch's own two take no subclass
    def tolist(self) -> Any:
        return self.cpu().tolist()

    def __format__(self, spec: str) -> str:
        return format(self.cpu(), spec)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


class Pretending(TorchDispatchMode):
    """While this is on, what is made on "cuda" is on the pretend GPU."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """One operation, on the numbers held; its results lie where CUDA would put them."""
    given = tree_leaves((args, kwargs))
    device = kwargs.get("device")
    if device is not None:
        on_gpu = torch.device(device).type in (NAME, "cuda")
        kwargs = kwargs | {"device": torch.device("cpu")}
    elif func is aten.copy_.default:
        on_gpu = isinstance(args[0], OnGPU)
    else:
        on_gpu = any(isinstance(x, OnGPU) for x in given)
        if on_gpu:
            check(func, args, given)
    bare_args, bare_kwargs = tree_map_only(OnGPU, lambda x: x.held, (args, kwargs))
    made = func(*bare_args, **bare_kwargs)
    if not on_gpu:
        return made
    known = {id(x.held): x for x in given if isinstance(x, OnGPU)}  # changed in place
    return tree_map_only(Tensor, lambda t: known[id(t)] if id(t) in known else OnGPU(t), made)


def check(func: Any, args: tuple[Any, ...], given: list[Any]) -> None:
    """RuntimeError where CUDA gives one for operands on two devices."""
    free = tree_leaves(args[1]) if func in INDEXED and isinstance(args[0], OnGPU) else []
    scalars = torch.Tag.pointwise in func.tags
    for x in given:
        on_cpu = isinstance(x, Tensor) and not isinstance(x, OnGPU)
        if on_cpu and not any(x is y for y in free) and not (scalars and x.ndim == 0):
            raise RuntimeError(f"{func}: expected all tensors to be on the same device")


@contextmanager
def pretend_gpu() -> Iterator[torch.device]:
    """A machine with one GPU."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch.cuda, "is_available", lambda: True)
        patch.setattr(torch.cuda, "_lazy_init", lambda: None)
        # the real one knows no tensors but torch's own
        patch.setattr(
            torch, "inference_mode", lambda on=True: torch.no_grad() if on else nullcontext()
        )
        torch._C._set_only_lift_cpu_tensors(True)  # torch.tensor(..., device=...) goes through run
        try:
            with torch.no_grad(), Pretending():
                yield torch.device(NAME, 0)
        finally:
            torch._C._set_only_lift_cpu_tensors(False)
