from . import (
    explain,
)
from .adapter import (
    upstream_layers,
    input_weights,
    norm_scale,
    output_weights,
)
from .causal import (
    add_direction,
    circuit_z,
    denominators_along,
    mean_z,
    queries_along,
    replace_z,
    self_normalized_z,
    token_losses,
)
from .from_model import (
    ExactFromModel,
    AdditiveDecomposition,
    decomposition,
    true_rows,
    fit_additive,
)
from .lookups import (
    Attribution,
    Reading,
    at_last_token,
    attribution,
    congruence,
    next_token_neurons,
    pad,
    random_neurons,
    read_prompts,
)

__all__ = [
    "Attribution",
    "FirstLayer",
    "Reading",
    "TwoMeans",
    "add_direction",
    "at_last_token",
    "attribution",
    "circuit_z",
    "congruence",
    "decomposition",
    "denominators_along",
    "explain",
    "feeding",
    "input_weights",
    "mean_z",
    "next_token_neurons",
    "norm_scale",
    "output_weights",
    "pad",
    "queries_along",
    "random_neurons",
    "read_prompts",
    "replace_z",
    "self_normalised_z",
    "token_losses",
    "true_rows",
    "two_means",
]
