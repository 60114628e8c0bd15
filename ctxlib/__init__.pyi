from . import (
    chat,
    claims,
    decoders,
    denominators,
    evaluation,
    models,
    neurons,
    nulls,
    plots,
    split,
    texts,
    widgets,
)
from .circuit import ContextualCircuit, shared_kernel
from .denominators import softmax_denominators, stable_heads
from .evaluation import evaluate
from .models import load
from .neurons import find_neurons, label_neurons
from .place import destination, families
from .decomposition import (
    attention_rows,
    content_scores,
    effective_tokens,
    positional_kernels,
    approx_rows,
    total_variation,
)
from .studies import study
from .weights import LayerWeights, layer_norm

__version__: str

__all__ = [
    "ContextualCircuit",
    "LayerWeights",
    "attention_rows",
    "chat",
    "claims",
    "content_scores",
    "decoders",
    "denominators",
    "destination",
    "effective_tokens",
    "evaluate",
    "evaluation",
    "families",
    "find_neurons",
    "label_neurons",
    "layer_norm",
    "load",
    "models",
    "neurons",
    "nulls",
    "plots",
    "positional_kernels",
    "rebuilt_rows",
    "shared_kernel",
    "softmax_denominators",
    "split",
    "stable_heads",
    "study",
    "texts",
    "total_variation",
    "widgets",
]
