"""The house style.

A figure is a vector drawing whose ink takes the colour of the page, so it reads in light and dark.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib import rc_params_from_file
from matplotlib.figure import Figure
from torch import Tensor

from ctxbook.kept import DATA
from ctxviews.picture import Picture

#: what matplotlib is told, from `data/house.mplstyle`
STYLE = rc_params_from_file(DATA / "house.mplstyle", use_default_template=False)
#: Okabe and Ito's colours, those that stand out on white and on near-black,
#: in the order in which they are used
COLORS = tuple(STYLE["axes.prop_cycle"].by_key()["color"])
INK = STYLE["text.color"]  #: stands for "the colour of the page's text" until a drawing is written
NO_METADATA = ("Date", "Creator", "Format", "Type")  # what would tell one drawing from the same
STRONGEST = 0.6  # of the shade behind a token: its text stays readable, on white and on near-black
LEAST = 8  # pixels: the size of a letter on a phone
LINES = "stroke-linejoin:round;stroke-linecap:butt"  # as matplotlib means them, of all elements
NAMED = 5  # sources of a row that are called by their tokens


def panels(
    rows: int = 1, columns: int = 1, width: float = 8.0, height: float = 2.6, **options
) -> tuple[Figure, np.ndarray]:
    """Return a figure in house style and its axes as a `rows x columns` array; `height` is that of
    one row, in inches. matplotlib keeps the style, for what is drawn into the axes later takes it
    from there.

    >>> figure, axes = cb.figures.panels(1, 2)
    >>> axes.shape
    (1, 2)
    """
    plt.rcParams.update(STYLE)
    return plt.subplots(rows, columns, figsize=(width, height * rows), squeeze=False, **options)


def picture(figure: Figure, number: str, caption: str, alt: str) -> Picture:
    """Close a figure and turn it into a `Picture`.

    `number` is the figure's number in the book ("2.1"); `caption` may hold HTML; `alt` says in
    words what the figure shows, numbers included, for those who cannot see it.

    >>> figure, ((axis,),) = cb.figures.panels()
    >>> line = axis.plot([1, 2, 3])
    >>> cb.figures.picture(figure, "2.1", caption="A line.", alt="a line that rises from 1 to 3")
    a line that rises from 1 to 3
    """
    buffer = io.StringIO()
    with plt.rc_context({**STYLE, "svg.hashsalt": number}):  # no two figures share an id
        figure.savefig(buffer, format="svg", metadata=dict.fromkeys(NO_METADATA))
    plt.close(figure)
    svg = buffer.getvalue().partition("</defs>")[2]  # its head has a rule for the whole page
    svg = svg.removesuffix("</svg>\n").replace(INK, "currentColor")
    # names that nothing refers to are alike in all figures
    svg = re.sub(r'\n +|(?<=<g) id="[^"]*"| id="image[^"]*"', "", svg)
    # a page's font is not the one that was measured: let the digits of a number follow one another
    svg = re.sub(
        r"<!-- \$\\mathdefault.*?</text>",
        lambda number: re.sub(r'(?<=</tspan><tspan) x="[^"]*"', "", number[0]),
        svg,
    )
    letters = min(map(float, re.findall(r"font-size: ([\d.]+)px", svg)), default=LEAST)
    width, height = figure.get_size_inches() * 72
    drawn = drawing(svg, (0, 0, width, height), 96 / 72, letters, alt, LINES)
    return framed("picture", drawn, f"<b>Figure {number}.</b> {caption}", alt)


def drawing(
    inside: str, view: Sequence[float], scale: float, letters: float, alt: str, look: str
) -> str:
    """Return an SVG as wide as the page, at most `scale` pixels a unit; its box scrolls where the
    smallest letters, `letters` units high, would have less than `LEAST` pixels.
    """
    least, most = view[2] * LEAST / letters, view[2] * scale
    size = f"width:100%;min-width:{least:.0f}px;max-width:{most:.0f}px;height:auto"
    return (
        f'<div role="img" aria-label="{html.escape(alt)}" style="overflow-x:auto">'
        f'<svg viewBox="{" ".join(f"{v:g}" for v in view)}" style="display:block;{size};{look}">'
        f"{inside}</svg></div>"
    )


def framed(kind: str, shown: str, caption: str, alt: str) -> Picture:
    """What a page shows, with its caption below, as a `Picture`."""
    below = f"<figcaption>{caption}</figcaption>"
    return Picture(f'<figure class="{kind}" style="margin:0">{shown}{below}</figure>', alt)


# ---------------------------------------------------------------- one mark a head


def head_style(head: int) -> dict[str, str]:
    """Colour and dash of a head's line, the same in every figure and view: no two neighbours differ
    by colour alone, and 32 heads can be told apart.

    >>> cb.figures.head_style(0), cb.figures.head_style(9)
    ({'color': '#0072B2', 'ls': '-'}, {'color': '#D55E00', 'ls': ':'})
    """
    return {"color": COLORS[head % 8], "ls": ("-", "--", ":", "-.")[(head // 8 + head % 2) % 4]}


def by_head(values: Iterable[float], form: str = ".2f") -> str:
    """Numbers, one a head, as an alternative text says them; `form` is how each is written.

    >>> cb.figures.by_head([0.125, 0.3], ".0%")
    'head 0 12%, head 1 30%'
    """
    return ", ".join(f"head {head} {value:{form}}" for head, value in enumerate(values))


# ---------------------------------------------------------------- one head over its sources


def sources(
    tokens: Sequence[str],
    rows: dict[str, Float[Tensor, " source"]],
) -> tuple[Figure, np.ndarray]:
    """One head at one destination, drawn over its sources 0 ... n: a panel for each of `rows`, with
    the key as its title. In all but the first, which is for the kernel, the five sources that
    stand highest are called by their tokens.

    The axes come as a flat array, one a panel.

    >>> row = {"pos": [0.1, 0.2, 0.7], "row": [0.05, 0.6, 0.35]}
    >>> figure, axes = cb.figures.sources(["BOS", "moon", "the"], row)
    >>> [mark.get_text() for mark in axes[1].texts]
    ['moon', 'the', 'BOS']
    """
    figure, axes = panels(len(rows), 1, height=1.15, sharex=True)
    apart = len(tokens) / 12  # names closer to one another than this would overlap
    name = {"textcoords": "offset points", "ha": "center", "fontsize": 8, "parse_math": False}
    for place, (title, values) in enumerate(rows.items()):
        axis, heights = axes[place, 0], np.asarray(values)
        axis.fill_between(
            np.arange(len(heights)), heights, step="mid", lw=0, color=COLORS[place % 8]
        )
        axis.set(title=title, ylim=(1.3 * min(heights.min(), 0), 1.3 * heights.max()))
        called: list[int] = []
        for i in np.argsort(-abs(heights)).tolist() if place else ():
            if len(called) < NAMED and all(abs(i - j) >= apart for j in called):
                called.append(i)
                below = heights[i] < 0
                axis.annotate(tokens[i], (i, heights[i]), (0, -9 if below else 1), **name)
        axis.margins(x=0.01)
    axes.flat[-1].set_xlabel("source i")
    return figure, axes.ravel()


# ---------------------------------------------------------------- tokens and texts


def visible(token: str) -> str:
    """A token as it can be seen: ␣ is a space, ↵ a new line, and other invisible characters are
    escaped.

    >>> cb.figures.visible(" moon")
    '␣moon'
    """
    marks = {" ": "␣", "\n": "↵"}
    return "".join(marks.get(c, c if c.isprintable() else ascii(c)[1:-1]) for c in token)


def shaded_text(
    tokens: Sequence[str],
    weights: Float[Tensor, " pos"],
    caption: str,
    color: str = COLORS[0],
) -> Picture:
    """Tokens with a background as strong as their weight, in one colour for what is positive and
    another for what is negative; the weight of each shows on hover.

    >>> cb.figures.shaded_text([" a", " b"], torch.tensor([1.0, -0.5]), caption="Two tokens.")
    Two tokens.
    """
    top = float(weights.abs().max()) or 1.0
    spans = []
    for token, weight in zip(tokens, weights.tolist(), strict=True):
        ink = color if weight >= 0 else COLORS[1]
        r, g, b = (int(ink[i : i + 2], 16) for i in (1, 3, 5))
        shade = f"background:rgba({r},{g},{b},{STRONGEST * abs(weight) / top:.2f})"
        shown = html.escape(token.replace("\n", "↵"))
        spans.append(f'<span style="{shade}" title="{weight:.3f}">{shown}</span>')
    text = f'<p style="line-height:1.7;white-space:pre-wrap">{"".join(spans)}</p>'
    return framed("shaded", text, caption, alt=re.sub(r"</?\w+>", "", caption))
