"""What a reader turns.

With a kernel behind the page (Jupyter, Colab) the controls are live;
without one a figure stands in.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ipywidgets

from ctxviews.picture import Picture


class Turnable(ipywidgets.VBox):
    """Controls above a picture that follows them;
    on a page without a kernel, the picture for the first setting.

    `draw` takes the controls' values by keyword and returns a `Picture`.
    """

    def __init__(self, draw: Callable[..., Picture], **controls: ipywidgets.Widget):
        self.draw = draw
        self.controls = controls
        self.first = draw(**self.values())
        self.screen = ipywidgets.HTML(self.first._repr_html_())
        for control in controls.values():
            control.observe(self.redraw, names="value")
        row = ipywidgets.HBox(list(controls.values()), layout={"flex_flow": "row wrap"})
        super().__init__([row, self.screen])

    def values(self) -> dict:
        return {name: control.value for name, control in self.controls.items()}

    def redraw(self, change: object = None) -> None:
        self.screen.value = self.draw(**self.values())._repr_html_()

    def _repr_mimebundle_(self, **kwargs) -> dict:
        bundle = super()._repr_mimebundle_(**kwargs) or {}
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        return data | {"text/html": self.first._repr_html_(), "text/plain": repr(self.first)}


def slider(
    description: str, low: float, high: float, value: float, step: float = 1
) -> ipywidgets.Widget:
    """A slider over whole numbers, or over reals when `step` is a fraction;
    it reports when released, not while moving.
    """
    kind = (
        ipywidgets.IntSlider
        if all(float(x).is_integer() for x in (low, high, value, step))
        else ipywidgets.FloatSlider
    )
    return kind(
        value=value, min=low, max=high, step=step, description=description, continuous_update=False
    )


def choice(description: str, options: Sequence[object], value: object) -> ipywidgets.Dropdown:
    """A list to choose one of; `draw` gets the option itself, a number or a word."""
    return ipywidgets.Dropdown(options=options, value=value, description=description)
