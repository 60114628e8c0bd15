"""The views: one ES module each, its state in traits."""

from __future__ import annotations

import html
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar
from uuid import uuid4
from weakref import WeakKeyDictionary, ref

import anywidget
import traitlets
from traitlets import Dict, Enum, Float, Int, List, Unicode

from ctxlib.circuit import ContextualCircuit
from ctxlib.fix import fix_query
from ctxlib.query import FixedQuery
from ctxlib.studies import Study, study
from ctxlib.texts.sources import passages
from ctxlib.texts.text import Text
from ctxlib.weights import LayerWeights
from ctxviews.bundle import HERE, bundled
from ctxviews.fixedfile import packed_destination
from ctxviews.layerfile import packed_layer, query_tokens
from ctxviews.neuronfile import packed_neuron
from ctxviews.picture import Picture
from ctxviews.record import denominator_record, position_record

if TYPE_CHECKING:
    from ctxlib.additive import AdditiveDecomposition


class View(anywidget.AnyWidget):
    """A view: one ES module beside this file, its state in traits.

    `picture` stands in where the module cannot run: in a notebook that nobody has run yet, on a
    page without JavaScript. Without one, a sentence does.
    """

    _css = (HERE / "views.css").read_text(encoding="utf-8")
    module: ClassVar[str]

    def __init__(self, picture: Picture | None = None, **state: Any):
        if unknown := sorted(state.keys() - self.trait_names()):
            turned = ", ".join(sorted(self.trait_names(turned=True)))
            raise TypeError(f"no setting {', '.join(unknown)}; there are {turned}")
        self.picture = picture
        super().__init__(**state)

    def state(self) -> dict[str, Any]:
        """Return what a reader can turn, by name."""
        return {name: getattr(self, name) for name in sorted(self.trait_names(turned=True))}

    def _repr_mimebundle_(self, **kwargs) -> tuple[dict, dict] | None:
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle or ({}, {})
        return data | {"text/html": self.place(), "text/plain": repr(self)}, metadata

    def place(self) -> str:
        """Return the element in which a built page puts the view, with the picture in it;
        what the view cannot compute there goes along.
        """
        along = {name: getattr(self, name) for name in self.trait_names(along=True)}
        everything = self.state() | along
        written = json.dumps(everything, allow_nan=False, sort_keys=True, separators=(",", ":"))
        state = html.escape(written, quote=True)
        unseen = f"<p>{type(self).__name__}: run this cell to see the view; it needs a kernel.</p>"
        inside = self.picture._repr_html_() if self.picture else unseen
        return f'<div data-view="{self.module}" data-state="{state}">{inside}</div>'

    def __repr__(self) -> str:
        return repr(self.picture) if self.picture else f"{type(self).__name__}({self.state()})"


Viewed = LayerWeights | FixedQuery | Study | str | os.PathLike


@dataclass(frozen=True)
class Prepared:
    """What the views of one thing share: how many there are of what a reader can choose, and the
    packed layer under a name of its own, which is made when a notebook asks for it.
    """

    pack: Callable[[], bytes]
    passages: int
    heads: int
    neurons: int
    positions: int
    query_tokens: list[int]
    name: str = field(default_factory=lambda: uuid4().hex)

    @cached_property
    def data(self) -> bytes:
        return self.pack()


PREPARED: WeakKeyDictionary[LayerWeights | FixedQuery | Study, Prepared] = WeakKeyDictionary()


def prepared(of: LayerWeights | FixedQuery | Study) -> Prepared:
    """Return what is kept once for weights, a query or a study, and released with it."""
    if of not in PREPARED:
        held = ref(of)  # what is kept must not keep its key
        if isinstance(of, LayerWeights) and not of.both_sides:
            sizes, tokens = (of.n_heads, of.n_neurons, of.n_ctx), query_tokens(of)
            count = len(passages(of))
        else:
            query = of.fixed if isinstance(of, Study) else of
            fixed = query if isinstance(query, FixedQuery) else fix_query(query)
            sizes, tokens = (fixed.n_heads, fixed.n_neurons, fixed.length), [fixed.token]
            count = len(of.passages if isinstance(of, Study) else passages(fixed))
        PREPARED[of] = Prepared(lambda: packed_once(held()), count, *sizes, tokens)
    return PREPARED[of]


def packed_once(of: LayerWeights | FixedQuery | Study | None, name: str = "") -> bytes:
    """Return the packed layer of weights, for any query; of anything else for its own query, with a
    study's heads, or with the stable ones, and all where none is.
    """
    if isinstance(of, LayerWeights) and not of.both_sides:
        return packed_layer(of, name=name)
    return packed_destination(of if isinstance(of, Study) else study(of, or_all=True), name)


class LayerView(View):
    """A view that computes with a first layer: of weights, or where `any_layer` of a destination, a
    study or a stored layer's file.

    What is kept in sync is the packed layer's name; a notebook requests the layer itself when it
    has none of that name, so that it is sent once for all views of the same thing.
    """

    layer = Unicode(help="the name of the packed layer").tag(sync=True)
    any_layer: ClassVar[bool] = False

    def __init__(self, of: Viewed, picture: Picture | None = None, **state: Any):
        self.of = viewed(of, type(self))
        self.prepared = prepared(self.of)
        super().__init__(picture, layer=self.prepared.name, **state)
        self.on_msg(LayerView.send_layer)

    def send_layer(self, message: Any, buffers: Sequence[bytes]) -> None:
        """Send the packed layer to a notebook that requests it."""
        if message == {"wanted": "layer"}:
            self.send({"layer": self.prepared.name}, buffers=[self.prepared.data])


def viewed(of: Viewed, view: type[LayerView]) -> LayerWeights | FixedQuery | Study:
    """Return what a kind of view is given, opened where it is a stored layer's file. Raises
    ValueError where that view cannot show it.
    """
    learned = isinstance(of, LayerWeights) and not of.both_sides
    if learned or (view.any_layer and isinstance(of, Viewed)):
        return fix_query(of) if isinstance(of, str | os.PathLike) else of
    if view.any_layer:
        wanted = "LayerWeights, a destination, a study, or a stored layer's file"
    else:
        wanted = "LayerWeights of a decoder with learned positions: it moves the destination"
    raise ValueError(f"{view.__name__} of a {type(of).__name__}: give it {wanted}")


def whole(value: int, size: int, name: str) -> int:
    """Return the number, if it is one of 0 ... size - 1; raises traitlets.TraitError otherwise."""
    if 0 <= value < size:
        return value
    raise traitlets.TraitError(f"{name} {value}: there are 0 to {size - 1}")


class Whole(Int):
    """One of 0 ... size(view) - 1; -1 where that is the default, which leaves the choice to the
    view.
    """

    def __init__(self, default: int, size: Callable[[Any], int], noun: str):
        super().__init__(default)
        self.size, self.noun = size, noun

    def validate(self, obj: Any, value: Any) -> int:
        value = super().validate(obj, value)
        left = value == self.default_value == -1
        return value if left else whole(value, self.size(obj), self.noun)


class Heads(List):
    """Some of the layer's heads, in order; none leave the choice to the view."""

    def __init__(self) -> None:
        super().__init__(Int())

    def validate(self, obj: Any, value: Any) -> list[int]:
        heads = super().validate(obj, value) or []
        return sorted({whole(head, obj.prepared.heads, "head") for head in heads})


class QueryToken(Int):
    """The id of a query token whose circuit the packed layer has; -1 for the usual one."""

    def validate(self, obj: Any, value: Any) -> int:
        value, ids = super().validate(obj, value), obj.prepared.query_tokens
        if value in (-1, *ids):
            return value
        listed = ", ".join(map(str, ids))
        raise traitlets.TraitError(f"token {value}: the query tokens are {listed}, and -1")


passage_count = attrgetter("prepared.passages")  # of a view of a layer
head_count = attrgetter("prepared.heads")
neuron_count = attrgetter("prepared.neurons")
position_count = attrgetter("prepared.positions")


class Rows(LayerView):
    """A head's attention row over a passage, true and rebuilt from Equation 1 (chapter 2).

    `passage` counts the labelled passages; `n` is the destination, 0 the middle of the context;
    `octaves` is log2 of C over the median norm of a token embedding.
    """

    module = "rows"
    _esm = bundled("views/rows.js")
    passage = Whole(0, passage_count, "passage").tag(sync=True, turned=True)
    head = Whole(0, head_count, "head").tag(sync=True, turned=True)
    n = Whole(0, position_count, "position").tag(sync=True, turned=True)
    octaves = Float(0.0, min=-2.0, max=2.0).tag(sync=True, turned=True)


class Kernels(LayerView):
    """The positional kernels of heads over the distance from the destination (chapter 3).

    `heads` are drawn, all of them if the list is empty. `n` is the position of the query and
    `token` the id of its token; -1 is the position and the token at which the heads' families were
    determined.
    """

    module = "kernels"
    _esm = bundled("views/kernels.js")
    heads = Heads().tag(sync=True, turned=True)
    n = Int(-1).tag(sync=True, turned=True)
    token = QueryToken(-1).tag(sync=True, turned=True)

    @traitlets.validate("n")
    def _n(self, proposal: dict) -> int:
        if proposal["value"] == -1 or 1 <= proposal["value"] < self.prepared.positions:
            return proposal["value"]
        raise traitlets.TraitError(
            f"destination {proposal['value']}: there are 1 to {self.prepared.positions - 1}"
        )


class Denominators(View):
    """How far denominators stray from their mean: the band that theory allows and where texts fall
    (chapter 4).

    All heads are measured at one destination: over `texts`, of which n + 1 tokens are
    needed, and over the labelled `passages`. `text` marks a passage (-1: none), `bound` is the
    inequality behind the band, `level` the share of texts that it promises. Raises ValueError as
    `cx.softmax_denominators` does.
    """

    module = "denominators"
    _esm = bundled("views/denominators.js")
    record = Dict(help="what was measured, relative to each head's mean").tag(sync=True, along=True)
    head = Whole(0, lambda view: len(view.record["heads"]), "head").tag(sync=True, turned=True)
    text = Whole(-1, lambda view: len(view.record["passages"]), "passage").tag(
        sync=True, turned=True
    )
    bound = Enum(("Chebyshev", "Hoeffding", "Bernstein", "normal, i.i.d."), "Chebyshev").tag(
        sync=True, turned=True
    )
    level = Float(0.95, min=0.5, max=0.999).tag(sync=True, turned=True)

    def __init__(
        self,
        fixed: FixedQuery,
        texts: Sequence[Text],
        passages: Sequence[Text],
        picture: Picture | None = None,
        **state: Any,
    ):
        record = denominator_record(fixed, texts, passages)
        super().__init__(picture, record=record, **state)


class NeuronExplorer(LayerView):
    """Which neurons a set of heads can move far, and what moves one (chapter 6): of weights, or at
    the one destination of a `cx.fix_query`, a study or a stored layer's file, of any model.

    No `heads` mean the stable ones, `threshold` 0 the rule's, `neuron` -1 the one with the largest
    top, `passage` -1 the one with the largest summary. `search` is a token as a reader types it:
    the view shows the neurons that it drives. A head that is pressed leaves the threshold alone.
    """

    module = "neurons"
    any_layer = True
    _esm = bundled("views/neurons.js")
    heads = Heads().tag(sync=True, turned=True)
    threshold = Float(0.0).tag(sync=True, turned=True)
    neuron = Whole(-1, neuron_count, "neuron").tag(sync=True, turned=True)
    passage = Whole(-1, passage_count, "passage").tag(sync=True, turned=True)
    search = Unicode("").tag(sync=True, turned=True)

    @traitlets.validate("threshold")
    def _threshold(self, proposal: dict) -> float:
        if 0 <= proposal["value"] < math.inf:
            return proposal["value"]
        raise traitlets.TraitError(
            f"threshold {proposal['value']}: give a number above 0, or 0 for the rule's"
        )


class LiveReader(LayerView):
    """What the heads add to the neurons on a text, or two, while it is typed (chapters 5, 11): of
    weights, or of a destination, a study or a stored layer's file, where a shorter text is read as
    if it stood right before the destination.

    `text` and `other` are the texts; while both are empty, a paragraph in British spelling stands
    there. `heads` are the circuit's, [] for the stable ones. `neuron` is the one that shades the
    tokens; -1 leaves it to the view, which takes the one that a text alone excites most, or in
    which two texts differ most. Of a text longer than the context the beginning is read.

    A model that reads a text from both sides has one text, read around its middle, and `neuron` -1
    is the neuron that this text excites most. A model whose tokenizer a page cannot follow has
    none, and the page says so.
    """

    module = "reader"
    any_layer = True
    _esm = bundled("views/reader.js")
    text = Unicode("").tag(sync=True, turned=True)
    other = Unicode("").tag(sync=True, turned=True)
    heads = Heads().tag(sync=True, turned=True)
    neuron = Whole(-1, neuron_count, "neuron").tag(sync=True, turned=True)


class Spellings(View):
    """Texts in two spellings, shaded for one neuron: each word by what the heads of a circuit add
    in the model, a strip below it by the circuit's prediction, which the view computes again for
    any words (chapter 0).

    `texts` are two, each with its name, its tokens and both lists of numbers, one a token; `full`
    is what has the full shade. `british` and `american` are what a reader typed in their place.
    Raises ValueError as `packed_neuron` does.
    """

    module = "spellings"
    _esm = bundled("views/spellings.js")
    layer = Unicode(help="the name of the packed neuron").tag(sync=True)
    file = Unicode("neuron.bin", help="where a built page has it").tag(along=True)
    record = Dict(help="both texts").tag(sync=True, along=True)
    british = Unicode("").tag(sync=True, turned=True)
    american = Unicode("").tag(sync=True, turned=True)

    def __init__(
        self,
        circuit: ContextualCircuit,
        neuron: int,
        texts: Sequence[tuple[str, Sequence[str], Sequence[float], Sequence[float]]],
        full: float,
        picture: Picture | None = None,
        **state: Any,
    ):
        data, heads = packed_neuron(circuit, neuron), len(circuit.heads)
        self.prepared = Prepared(lambda: data, 0, heads, 1, circuit.fixed.length, [])
        two = [
            {
                "name": name,
                "words": [
                    {"text": text, "model": round(float(m), 3), "predicted": round(float(p), 3)}
                    for text, m, p in zip(*of, strict=True)
                ],
            }
            for name, *of in texts
        ]
        record = {"texts": two, "full": full}
        super().__init__(picture, layer=self.prepared.name, record=record, **state)
        self.on_msg(LayerView.send_layer)


class Positions(View):
    """What a head's scores depend on in models that keep positions in different ways: position,
    content, and both (chapter 13).

    `splits` are of first layers at one n, by the name of their positions. `kind` counts them,
    `head` the heads of a layer. Raises ValueError for no layers, and for layers at different
    positions.
    """

    module = "positions"
    _esm = bundled("views/positions.js")
    record = Dict(help="what the view shows of each first layer").tag(sync=True, along=True)
    kind = Whole(0, lambda view: len(view.record["kinds"]), "kind").tag(sync=True, turned=True)
    head = Whole(0, lambda view: view.most_heads(), "head").tag(sync=True, turned=True)

    def __init__(
        self,
        splits: Mapping[str, AdditiveDecomposition],
        picture: Picture | None = None,
        **state: Any,
    ):
        super().__init__(picture, record=position_record(splits), **state)

    def most_heads(self) -> int:
        return max(len(kind["heads"]) for kind in self.record["kinds"])


class LookUps(View):
    """Which heads wake a neuron on a prompt, and what they look up there (chapter 15).

    `record` is what `look_up_record` makes of an attribution. `neuron` and `prompt` count its
    neurons and a neuron's prompts; `heads` are counted through all layers (head i of layer k is
    k * n_heads + i), and none stands for the one with the largest rise on the prompt.
    """

    module = "lookups"
    _esm = bundled("views/lookups.js")
    record = Dict(help="neurons, their prompts, and the terms of both").tag(sync=True, along=True)
    neuron = Whole(0, lambda view: len(view.record["neurons"]), "neuron").tag(
        sync=True, turned=True
    )
    prompt = Int(0).tag(sync=True, turned=True)
    heads = List(Int()).tag(sync=True, turned=True)

    def __init__(self, record: dict[str, Any], picture: Picture | None = None, **state: Any):
        super().__init__(picture, record=record, **state)

    @traitlets.validate("record")
    def _record(self, proposal: dict) -> dict[str, Any]:
        if not proposal["value"].get("neurons"):
            raise traitlets.TraitError("a record without neurons: make it with look_up_record")
        return proposal["value"]

    @traitlets.validate("prompt")
    def _prompt(self, proposal: dict) -> int:
        return whole(proposal["value"], len(self._shown()["prompts"]), "prompt")

    @traitlets.validate("heads")
    def _heads(self, proposal: dict) -> list[int]:
        listed = self._shown()["heads"]
        if unknown := [head for head in proposal["value"] if head not in listed]:
            raise traitlets.TraitError(f"heads {unknown}: this neuron's record has {listed}")
        return proposal["value"]

    def _shown(self) -> dict[str, Any]:
        return self.record["neurons"][self.neuron]
