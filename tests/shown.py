"""What a page shows, as tests read it: numbers as they are printed, tables, texts, sliders, and the
fragment of an address that holds a state.

    from shown import fragment, cells, check
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import numpy as np
import pytest
from playwright.sync_api import Locator, Page


def number(text: str) -> float:
    """A number as a view prints it."""
    return float(text.replace("\u2212", "-").replace(",", "").replace("+", ""))


def rounding(text: str) -> float:
    """How far its rounding may have moved it."""
    return 0.5 * 10.0 ** -len(text.partition(".")[2])


def check(texts: Sequence[str], truth: Any, near: Any = 0.0) -> None:
    """Holds numbers as a view prints them against those they should be, apart by no more than
    their rounding and `near`, which may be one for each.
    """
    apart = np.abs([*map(number, texts)] - np.asarray(truth))
    np.testing.assert_array_less(apart, near + np.array([*map(rounding, texts)]) + 1e-9)


def cells(scope: Page | Locator, rows: str = "tbody tr") -> list[list[str]]:
    """The texts of a table's cells, row by row."""
    return each(scope.locator(rows), "[...e.cells].map((cell) => cell.innerText.trim())")


def fragment(**state: Any) -> str:
    """The fragment of an address that gives a view these traits."""
    values = {n: ",".join(map(str, v)) if isinstance(v, list) else v for n, v in state.items()}
    if "threshold" in values:
        values["theta"] = values.pop("threshold")
    return "#" + urlencode(values, safe=",", quote_via=quote)


def readings(slider: Locator, *keys: str) -> Iterator[str]:
    """What a slider shows after each of these keys."""
    for key in keys:
        slider.press(key)
        yield slider.get_attribute("aria-valuetext") or ""


def loads(page: Page, ending: str) -> int:
    """How many files of a kind the page has loaded."""
    names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name)")
    return sum(name.endswith(ending) for name in names)


def each(found: Locator, what: str) -> list[Any]:
    """The value of an expression for every element that is found, as `e`."""
    return found.evaluate_all(f"all => all.map((e) => {what})")


def titles(text: Locator) -> list[str]:
    """What the tokens of a text say when they are pointed at: a name, a space, what it adds."""
    return each(text.locator("[data-place]"), "e.title")


def adds(labels: Iterable[str]) -> list[str]:
    """What these tokens add, as it is printed."""
    return [title.rpartition(" ")[2] for title in labels]


def named(token: str) -> str:
    """A token as the book's tables have it."""
    return token.replace(" ", "␣").replace("\n", "↵")


def explained(details: Locator, circuit: Any, tokens: Any, neuron: int, source: int) -> float:
    """Opens a "why here", holds its rows against a source's term as ctxlib has it, head by head:
    kernel, content, denominator, value, and what they add. Returns the sum that it prints.
    """
    details.locator("summary").click()
    details.locator("tbody tr").last.wait_for()
    *rows, [*_, whole] = cells(details)
    token, kernel = int(tokens[source]), float(circuit.kernel[source])
    for (_, *row), k, head in zip(rows, range(len(rows)), circuit.heads, strict=True):
        content = float(circuit.fixed.decomposition.content[head, token])
        denominator = float(circuit.denominators[k])
        term = kernel * float(circuit.weighted_values[token, k] @ circuit.readout[k][:, neuron])
        parts = np.array([kernel, content, denominator, term / kernel / content * denominator])
        check(row, [*parts, term], [*0.02 * abs(parts), 0.004])
        a, b, c, d, e = map(number, row)
        assert a * b / c * d == pytest.approx(e, rel=0.03, abs=0.003)
    check([whole], sum(number(row[-1]) for row in rows), len(rows) * rounding(whole))
    return number(whole)


#: Keeps what is written on any canvas from now on: the texts, and each with its place.
WRITTEN = """() => {
    [window.written, window.places] = [[], []];
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...at) {
        written.push(text);
        places.push([text, ...at]);
        write.call(this, text, ...at);
    };
}"""
