"""Context from Weights: find the neurons that respond to what a text is about, from a language
model's weights and one calibration text (`import ctxlib as cx`).

What to call, in order:

    model = cx.load("mini")               a model: a name, a folder, a GGUF file
    texts = cx.texts.collection(model)    a thousand held-out texts; your own: cx.texts.labeled
    fixed = cx.fix_query(model)           one query token, " the", at one position
    heads = cx.stable_heads(fixed, texts)     the heads whose denominators hardly vary
    circuit = cx.ContextualCircuit.calibrate(fixed, texts[0], heads)
    neurons = cx.find_neurons(circuit)    one row a neuron, with the tokens that move it
    labels = cx.label_neurons(...)        the kind of text that each responds to
    scores = cx.evaluate(circuit, texts)  compared with the model itself: r, FVU

`cx.study(model)` does all of this at once, and so does `python -m ctxlib MODEL`. The modules read
top to bottom in the order in which data flows: texts, models, weights, decompose, exact, query,
additive, planes, store, fix, heads, denominators, circuit, neurons, evaluation, studies. `lookups`
goes on to the heads and neurons of all layers.
"""

import lazy_loader as _lazy

__getattr__, __dir__, __all__ = _lazy.attach_stub(__name__, __file__)
__version__ = "0.3.0"
