from . import (
    chat,
    circuit,
    claims,
    decoders,
    denominators,
    destination,
    evaluation,
    models,
    neurons,
    plots,
    split,
    studies,
    texts,
    weights,
    widgets,
)
from .circuit import ContextualCircuit, shared_kernel
from .decoders.from_model import FirstLayer
from .denominators import (
    softmax_denominators,
    stable_heads,
)
from .destination import (
    families,
    true_contribution,
)
from .evaluation import (
    Moments,
    evaluate,
)
from .models import load
from .neurons import (
    find_neurons,
    label_neurons,
)
from .split import (
    attention_pattern,
    attention_rows,
    content_keys,
    content_scores,
    effective_tokens,
    positional_kernels,
    positional_keys,
    rebuilt_pattern,
    rebuilt_rows,
    total_variation,
)
from .studies import study
from .weights import LayerWeights, layer_norm

__version__: str

__all__ = [
    "ContextualCircuit",
    "FirstLayer",
    "LayerWeights",
    "Moments",
    "attention_pattern",
    "attention_rows",
    "chat",
    "circuit",
    "claims",
    "content_keys",
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
    "plots",
    "positional_kernels",
    "positional_keys",
    "rebuilt_pattern",
    "rebuilt_rows",
    "shared_kernel",
    "softmax_denominators",
    "split",
    "stable_heads",
    "studies",
    "study",
    "texts",
    "total_variation",
    "true_contribution",
    "weights",
    "widgets",
]
