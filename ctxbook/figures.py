"""The house style.

A figure is a vector drawing whose ink takes the colour of the page, so it reads in light and dark.
"""

from __future__ import annotations

import html
import io
import json
import re
from collections.abc import Iterable, Sequence
from importlib.resources import files
from textwrap import fill
from typing import Literal
from xml.etree import ElementTree

import matplotlib.pyplot as plt
import numpy as np
from jaxtyping import Float
from matplotlib import rc_params_from_file
from matplotlib.figure import Figure
from matplotlib.legend import Legend
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
NARROW, LINE = 3.75, 0.17  # inches: a phone's page, and a line of labels
LETTER = 6.8  # of a label, in dots as matplotlib counts them
SVG, HREF = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
DISC = re.compile(r"M 0 ([\d.]+)\s*(?:C [^C]*){8}z\s*")  # as matplotlib draws one
LINES = "stroke-linejoin:round;stroke-linecap:butt"  # as matplotlib means them, of all elements
NAMED = 5  # sources of a row that are called by their tokens


def panels(
    rows: int = 1, columns: int = 1, width: float = 8.0, height: float = 2.6, **options
) -> tuple[Figure, np.ndarray]:
    """A figure in house style and its axes as a `rows x columns` array;
    `height` is that of one row, in inches.

    >>> figure, axes = cb.figures.panels(1, 2)
    >>> axes.shape
    (1, 2)
    """
    plt.rcParams.update(STYLE)  # for what is drawn into the axes later, too
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
    with plt.rc_context(STYLE):
        drawn = inline_svg(figure, number, "wide")
        narrow(figure)
        drawn += inline_svg(figure, number, "narrow")
    plt.close(figure)
    drawn = f'<div role="img" aria-label="{html.escape(alt)}">{drawn}</div>'
    return framed("picture", drawn, f"<b>Figure {number}.</b> {caption}", alt)


def framed(kind: str, shown: str, caption: str, alt: str) -> Picture:
    """What a page shows, with its caption below, as a `Picture`."""
    below = f"<figcaption>{caption}</figcaption>"
    return Picture(f'<figure class="{kind}" style="margin:0">{shown}{below}</figure>', alt)


def narrow(figure: Figure) -> None:
    """Lay a figure out again, for a phone: its panels one below another, long labels broken, and
    legends that find no room in their panel below.
    """
    panels = {axis: spec for axis in figure.axes if (spec := axis.get_subplotspec())}
    rows, columns = next(iter(panels.values())).get_gridspec().get_geometry()
    grid, height = figure.add_gridspec(rows * columns, 1), figure.get_figheight() / rows
    if columns > 1:
        height = min(height, NARROW)
    for axis, spec in panels.items():
        axis.set_subplotspec(grid[spec.num1])
        if columns > 1:  # an axis that panels shared is now each one's own
            axis.tick_params(labelbottom=True, labelleft=True)
        names = [
            fill(label.get_text(), 25, break_long_words=False) for label in axis.get_yticklabels()
        ]
        if lines := max(name.count("\n") for name in names) if names else 0:
            axis.set_yticks(axis.get_yticks(), names)
            height = max(height, LINE * ((lines + 1) * len(names) + 4))
        if legend := axis.get_legend():
            legend.set_in_layout(False)
    figure.set_size_inches(NARROW, rows * columns * height)
    figure.draw_without_rendering()
    for axis in panels:
        letters = max(1, int(axis.bbox.width / LETTER))
        axis.set(
            xlabel=fill(axis.get_xlabel(), letters), title=fill(axis.get_title("left"), letters)
        )
        if legend := axis.get_legend():
            box, room = legend.get_window_extent(), axis.bbox.padded(1)
            if not (room.contains(*box.min) and room.contains(*box.max)):
                below(figure, legend)
    for legend in [*figure.legends]:
        below(figure, legend)


def below(figure: Figure, legend: Legend) -> None:
    """Put a legend under all panels, in as many columns as there is room for."""
    words = [text.get_text() for text in legend.get_texts()]
    marks = [mark for mark in legend.legend_handles if mark]
    legend.remove()
    for columns in range(len(words), 0, -1):
        moved = figure.legend(marks, words, loc="outside lower center", ncols=columns, fontsize=8)
        if moved.get_window_extent().width <= figure.bbox.width:
            break
        moved.remove()


def size_of(width: float, page: Literal["wide", "narrow"]) -> str:
    """The style of a drawing: never wider than it was drawn, and the narrow one hidden until a
    style sheet shows it.
    """
    hidden = ";display:none" if page == "narrow" else ""
    return f"width:100%;max-width:{width:.0f}px;height:auto{hidden}"


def inline_svg(figure: Figure, number: str, page: Literal["wide", "narrow"]) -> str:
    """A drawing fit for a page: ink becomes currentColor, names become unique, the width gives way
    to the screen.
    """
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata=dict.fromkeys(NO_METADATA))
    svg = buffer.getvalue()
    # a page's font is not the one that was measured: let the digits of a number follow one another
    svg = re.sub(
        r"<!-- \$\\mathdefault.*?</text>",
        lambda number: re.sub(r'</tspan>\s*<tspan x="[^"]*"', "</tspan><tspan", number[0]),
        svg,
        flags=re.DOTALL,
    )
    root = lightened(ElementTree.fromstring(svg))
    width = float(root.attrib.pop("width").removesuffix("pt"))
    del root.attrib["height"]
    root.attrib |= {"class": page, "style": f"{size_of(width * 4 / 3, page)};{LINES}"}
    svg = ElementTree.tostring(root, encoding="unicode").replace(INK, "currentColor")
    prefix = page[0] + re.sub(r"\W", "-", number)
    svg = re.sub(r'(\bid="|url\(#)', rf"\g<1>{prefix}-", svg)
    return re.sub(r"\s*\n\s*", " ", svg)


def lightened(root: ElementTree.Element) -> ElementTree.Element:
    """The same drawing for a page that is styled and laid out as a whole, where an element costs
    more than a letter: a mark is a shape of its own, not the use of one, which gets a tree; no rule
    is for all elements; what many marks share is said once; names that nothing asks for, groups
    that say nothing, third decimals and space go.
    """
    linked = set(re.findall(r"url\(#([^)]+)\)", ElementTree.tostring(root, encoding="unicode")))
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
    marks = {path.get("id"): path.attrib["d"] for path in root.iter("path")}
    for element in root.iter():
        if element.tag == "use":
            x, y, mark = (element.attrib.pop(name) for name in ("x", "y", HREF))
            outline = marks[mark[1:]]
            disc = DISC.fullmatch(outline)
            element.tag = "circle" if disc else "path"
            element.attrib |= (
                {"cx": x, "cy": y, "r": disc[1]}
                if disc
                else {"d": outline, "transform": f"translate({x} {y})"}
            )
        elif element.tag == "image":  # what lies on a page knows no other name for its source
            element.set("href", "".join(element.attrib.pop(HREF).split()))
        if element.get("id") not in linked:
            element.attrib.pop("id", None)
        for name in {*element.attrib} - {"style", "viewBox"}:
            element.set(name, " ".join(re.sub(r"(\.\d\d)\d+", r"\1", element.attrib[name]).split()))
        if element.tag not in ("text", "tspan"):
            element.text = None
        for child in element:
            child.tail = (child.tail or "").strip() or None
    unwrapped(root)
    for group in root.iter("g"):
        styles = {child.get("style") for child in group}
        if len(group) > 2 and len(styles) == 1 and (style := styles.pop()):
            group.set("style", style)
            for child in group:
                del child.attrib["style"]
    return root


def unwrapped(element: ElementTree.Element) -> None:
    """Puts in the place of a group that says nothing what is in it; definitions of marks go, those
    of frames and of hatches stay.
    """
    for fixed, child in reversed([*enumerate(element)]):
        unwrapped(child)
        if child.tag == "defs" and not {part.tag for part in child} & {"clipPath", "pattern"}:
            del element[fixed]
        elif child.tag == "g" and not child.attrib:
            element[fixed : fixed + 1] = child


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


# ---------------------------------------------------------------- from a token to a neuron

#: its parts, and where they stand in a wide page and in a narrow one: one drawing with the views'
SHAPES = json.loads(files("ctxviews").joinpath("ui/pathshape.js").read_text("utf-8").split("`")[-2])


def path(lit: Iterable[str], caption: str) -> Picture:
    """The path of a token to a neuron, with the parts that a chapter is about lit: some of `token`,
    `place`, `content`, `kernel`, `denominator`, `row`, `value`, `neuron`. The `key` is the frame
    about content and kernel, which chapter 2 takes apart.

    Raises ValueError for another name.

    >>> cb.figures.path(["kernel", "content"], "Chapter 3 is about these two.")
    From token to neuron; lit: kernel, content. Chapter 3 is about these two.
    """
    lit = list(lit)
    if strange := set(lit) - {*SHAPES["boxes"], "key"}:
        there = [*SHAPES["boxes"]]
        raise ValueError(f"not on the path: {', '.join(sorted(strange))}; there are {there}")
    alt = f"From token to neuron; lit: {', '.join(lit)}. {caption}"
    drawn = path_drawing("wide", lit, alt) + path_drawing("narrow", lit, alt)
    return framed("picture path", drawn, caption, alt)


def path_drawing(page: Literal["wide", "narrow"], lit: list[str], alt: str) -> str:
    """The path as SVG."""
    shape = SHAPES[page]

    def ink(part: str) -> str:
        """Of a part's lines: strong where it is lit."""
        strong, plain = f'stroke="{COLORS[0]}" stroke-width="2"', 'stroke="currentColor"'
        return f'class="path-{part}" fill="none" {strong if part in lit else plain}'

    def text(x: float, y: float, words: str, size: int) -> str:
        small = r'<tspan dy="3" font-size="75%">i</tspan><tspan dy="-3">&#8203;</tspan>'
        words = html.escape(words).replace("_i", small)
        return f'<text x="{x}" y="{y}" font-size="{size}">{words}</text>'

    drawn = [
        f'<path d="{d}" {ink(part)} marker-end="url(#path-{page})"/>'
        for part, d in shape["arrows"].items()
    ]
    drawn += [
        f'<circle cx="{x}" cy="{y}" r="11" {ink(part)}/>{text(x, y + 5, sign, 15)}'
        for part, (x, y, sign) in shape["signs"].items()
    ]
    for part, (x, y, width) in shape["at"].items():
        name, below = SHAPES["boxes"][part]
        box = f'<rect x="{x + 1}" y="{y}" width="{width - 2}" height="40" rx="6" {ink(part)}/>'
        if part in lit:
            box = box.replace('fill="none"', f'fill="{COLORS[0]}" fill-opacity=".15"')
        drawn.append(
            box + text(x + width / 2, y + 18, name, 14) + text(x + width / 2, y + 33, below, 11)
        )
    (x, y, width, height), (center, base) = shape["frame"], shape["key"]
    frame = f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="8" stroke-dasharray="4 3"'
    drawn.append(f"{frame} {ink('key')}/>{text(center, base, 'the key, split', 12)}")
    tip = (
        f'<marker id="path-{page}" viewBox="0 0 6 6" refX="5" refY="3" markerWidth="6" '
        'markerHeight="6" orient="auto"><path d="M0 0 6 3 0 6z" fill="currentColor"/></marker>'
    )
    return (
        f'<svg class="{page}" viewBox="{" ".join(map(str, shape["view"]))}" role="img" '
        f'aria-label="{html.escape(alt)}" text-anchor="middle" fill="currentColor" '
        f'font-family="sans-serif" style="{size_of(shape["view"][2], page)}">'
        f"<defs>{tip}</defs>{''.join(drawn)}</svg>"
    )
