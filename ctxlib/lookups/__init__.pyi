from . import (
    chat,
    explain,
    hooks,
    layers,
)
from .attribution import (
    Attribution,
    Reading,
    attribution,
    read_prompts,
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
from .congruence import (
    congruence,
    next_token_neurons,
    random_neurons,
)

__all__ = [
    "Attribution",
    "Reading",
    "add_direction",
    "attribution",
    "chat",
    "circuit_z",
    "congruence",
    "denominators_along",
    "explain",
    "hooks",
    "layers",
    "mean_z",
    "next_token_neurons",
    "queries_along",
    "random_neurons",
    "read_prompts",
    "replace_z",
    "self_normalized_z",
    "token_losses",
]
