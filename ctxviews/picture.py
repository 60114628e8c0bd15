"""A picture with its alternative text, which a notebook shows where it cannot run a view."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Picture:
    """HTML that a notebook shows, and the text for those who cannot see it.

    >>> cv.picture.Picture("<svg></svg>", alt="a line that rises")
    a line that rises
    """

    html: str
    alt: str

    def _repr_html_(self) -> str:
        return self.html

    def __repr__(self) -> str:
        return self.alt
