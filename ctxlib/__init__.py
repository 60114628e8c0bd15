"""Context from Weights: find the neurons that react to what a text is about,
from a model's weights.

Data flows one way: weights -> keys -> kernels. `import ctxlib as cx`.
"""

from ctxlib import claims, plots, texts, widgets
from ctxlib.kernels import effective_tokens, positional_kernels
from ctxlib.keys import (
    attention_pattern,
    attention_rows,
    content_keys,
    exact_scores,
    positional_keys,
    rebuilt_pattern,
    rebuilt_rows,
    rebuilt_scores,
    total_variation,
)
from ctxlib.models import load
from ctxlib.weights import LayerWeights, layer_norm, layer_norm_scale

__version__ = "0.1.0"

__all__ = [
    "LayerWeights",
    "attention_pattern",
    "attention_rows",
    "claims",
    "content_keys",
    "effective_tokens",
    "exact_scores",
    "layer_norm",
    "layer_norm_scale",
    "load",
    "plots",
    "positional_kernels",
    "positional_keys",
    "rebuilt_pattern",
    "rebuilt_rows",
    "rebuilt_scores",
    "texts",
    "total_variation",
    "widgets",
]
