"""What a run says of a change is what the model says with the same hooks, at every position."""

from types import SimpleNamespace

import pytest
import torch
from by_hand import draw_text, draw_texts

import ctxbook as cb
import ctxlib as cx

POSITIONS = torch.tensor([2, 3, 7, 12])


@pytest.fixture(scope="module")
def texts():
    return [SimpleNamespace(tokens=t) for t in draw_texts(13, 20, 300)]


@pytest.fixture
def run(tiny, texts):
    return cb.InterventionRun.of(tiny, texts, POSITIONS)


@pytest.fixture
def silence(tiny):
    zero = torch.zeros(13, 2, tiny.cfg.d_head)
    return lambda rows: [cx.lookups.replace_z(0, [0, 2], zero)]


def test_the_loss_is_transformer_lens_own(tiny, texts, run):
    tokens = torch.stack([t.tokens[:13] for t in texts])
    own = tiny(tokens, return_type="loss", loss_per_token=True)[:, POSITIONS[:-1]]
    torch.testing.assert_close(run.loss(run.log_probs, run.rows), own, rtol=1e-4, atol=1e-5)
    logits = tiny(tokens).log_softmax(-1)[:, POSITIONS]
    torch.testing.assert_close(run.log_probs, logits, rtol=1e-4, atol=1e-5)
    shift = torch.randn(13, 300, generator=torch.Generator().manual_seed(0))
    some = torch.tensor([4, 11])
    shifted = (logits[some] + shift[some, None]).log_softmax(-1)
    found = run.loss(run.log_probs[some], some, shift)
    for k, position in enumerate(POSITIONS[:-1]):
        expected = -shifted[[0, 1], k, tokens[some, position + 1]]
        torch.testing.assert_close(found[:, k], expected, rtol=1e-4, atol=1e-5)


def test_no_change_does_nothing_and_a_change_what_the_hooks_do(tiny, run, silence):
    nothing = run.effect(lambda rows: [])
    assert not any(v.any() for v in (nothing.rise, nothing.kl, nothing.size))
    some = torch.tensor([12, 0, 5])
    found, whole = run.effect(silence, some), run.effect(silence)
    before, after = (
        tiny.run_with_hooks(run.tokens[some], fwd_hooks=hooks).double().log_softmax(-1)
        for hooks in ([], silence(some))
    )
    p, q = before[:, POSITIONS], after[:, POSITIONS]
    expected = torch.nn.functional.kl_div(q, p, log_target=True, reduction="none").sum(-1)
    torch.testing.assert_close(found.kl.double(), expected, rtol=1e-3, atol=1e-6)
    torch.testing.assert_close(found.size.double(), (p - q).var(-1), rtol=1e-3, atol=1e-6)
    came = run.tokens[some][:, POSITIONS[:-1] + 1, None]
    rise = (p - q)[:, :-1].gather(-1, came)[..., 0]
    torch.testing.assert_close(found.rise.double(), rise, rtol=1e-3, atol=1e-5)
    for part in ("rise", "kl", "size"):  # 13 texts are read in two batches
        torch.testing.assert_close(getattr(whole, part)[some], getattr(found, part))
    assert (found.kl > 0).all()


def test_a_token_in_the_last_place_is_read_but_is_no_target(tiny, texts):
    run = cb.InterventionRun.of(tiny, texts, torch.tensor([5, 6]), last=9)
    assert (run.tokens[:, 6] == 9).all() and run.tokens.shape == (13, 7)
    assert run.targets[:, 0].tolist() == [int(t.tokens[6]) for t in texts]
    with pytest.raises(ValueError, match="a text of 4 tokens, where 7 are read"):
        short = SimpleNamespace(tokens=draw_text(4))
        cb.InterventionRun.of(tiny, [*texts, short], torch.tensor([6]))


def test_a_part_of_the_first_layer_is_that_of_the_cache(tiny, run, silence):
    for part in ("attn.hook_z", "mlp.hook_pre"):
        _, cache = tiny.run_with_cache(run.tokens)
        torch.testing.assert_close(run.first_layer(part), cache[f"blocks.0.{part}"])
    assert not run.first_layer("attn.hook_z", silence(run.rows))[:, :, [0, 2]].any()
