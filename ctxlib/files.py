"""Find the package's own files, and fetch those of the repository that are not in the wheel."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

DATA = Path(__file__).parent / "data"  #: what comes with the package: `mini`, texts, checksums
CLONE = Path(__file__).parents[1]  # what lies there beside the package is not part of it
ADDRESS = "https://github.com/context-from-weights/context-from-weights/raw/main"


def kept_folder(name: str) -> Path:
    """Return the folder of the cache for what has this name, whether or not it is there yet."""
    return Path(torch.hub.get_dir()) / "ctxlib" / name


def repository_file(path: str, sha256: str) -> Path:
    """Return a file of the repository, `path` from its root: in a clone the clone's own, elsewhere
    one in the cache. Fetch it from the repository's address, and print a line that says so, where
    it is missing or has another sum.

    Raises OSError if the address is out of reach, ValueError if what comes has another sum.
    """
    # pooch would save four lines, but it is one dependency more and reads no file:// address.
    place = CLONE / path if (CLONE / path).parent.is_dir() else kept_folder(path)
    if place.exists() and hashlib.sha256(place.read_bytes()).hexdigest() == sha256:
        return place
    url = f"{ADDRESS}/{path}"
    print(f"{path} is not here yet: downloading {url} to {place.parent}", flush=True)
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        torch.hub.download_url_to_file(url, str(place), hash_prefix=sha256, progress=False)
    except OSError as error:
        raise OSError(
            f"{url} is out of reach ({error}); {path} lies in a clone of the repository as well"
        ) from error
    except RuntimeError as error:
        raise ValueError(f"what came from {url} is damaged: {error}") from error
    return place
