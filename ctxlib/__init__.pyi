from . import (
    adapter,
    additive,
    checks,
    circuit,
    decompose,
    denominators,
    evaluation,
    exact,
    heads,
    lookups,
    models,
    neurons,
    planes,
    query,
    store,
    studies,
    texts,
    weights,
)
from .additive import fit_additive
from .circuit import ContextualCircuit, shared_kernel
from .decompose import (
    approx_rows,
    attention_rows,
    content_scores,
    positional_kernels,
    total_variation,
)
from .denominators import softmax_denominators, stable_heads
from .evaluation import evaluate
from .fix import fix_query
from .heads import effective_tokens, families
from .models import load
from .neurons import find_neurons, label_neurons
from .studies import study
from .weights import LayerWeights, layer_norm

__version__: str

__all__ = [
    "ContextualCircuit",
    "LayerWeights",
    "adapter",
    "additive",
    "approx_rows",
    "attention_rows",
    "checks",
    "circuit",
    "content_scores",
    "decompose",
    "denominators",
    "effective_tokens",
    "evaluate",
    "evaluation",
    "exact",
    "families",
    "find_neurons",
    "fit_additive",
    "fix_query",
    "heads",
    "label_neurons",
    "layer_norm",
    "load",
    "lookups",
    "models",
    "neurons",
    "planes",
    "positional_kernels",
    "query",
    "shared_kernel",
    "softmax_denominators",
    "stable_heads",
    "store",
    "studies",
    "study",
    "texts",
    "total_variation",
    "weights",
]
