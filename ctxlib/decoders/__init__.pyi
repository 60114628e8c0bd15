from . import (
    explain,
)
from .adapter import (
    feeding,
    input_weights,
    norm_scale,
    output_weights,
)
from .causal import (
    add_direction,
    circuit_z,
    denominators_along,
    mean_z,
    queries_of,
    replace_z,
    self_normalised_z,
    token_losses,
)
from .from_model import (
    decomposition,
    true_rows,
)
from .lookups import (
    Attribution,
    Outcome,
    Reading,
    at_last_token,
    attribution,
    congruence,
    hold_neuron,
    next_token_neurons,
    outcome,
    pad,
    random_neurons,
    read_prompts,
)

__all__ = [
    "Attribution",
    "Outcome",
    "Reading",
    "add_direction",
    "at_last_token",
    "attribution",
    "circuit_z",
    "congruence",
    "decomposition",
    "denominators_along",
    "explain",
    "feeding",
    "hold_neuron",
    "input_weights",
    "mean_z",
    "next_token_neurons",
    "norm_scale",
    "outcome",
    "output_weights",
    "pad",
    "queries_of",
    "random_neurons",
    "read_prompts",
    "replace_z",
    "self_normalised_z",
    "token_losses",
    "true_rows",
]
