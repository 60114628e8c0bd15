# ---
# jupyter:
#   jupytext:
#     text_representation:
#       extension: .py
#       format_name: percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
r"""
# What of deeper layers?

**Nothing is measured yet.** This draft has the questions and the conditions, so that none of them is moved afterwards.

## Definitions

All heads are asked by ' the' at n, texts of half A estimate, texts of half B judge, intervals are by document. $s_i$ is a head's score of source $i$. BOS (source 0) is left out of all shares and distances, rows are renormalised over the sources $1 \ldots n$, and what BOS gets is a column of its own.

- *where*: $p_i$, the mean of the scores at source $i$ over half A, each text's scores centred first; the kernel is $\text{softmax}(p)$. *What*: $c_t$, the mean of $s_i - p_i$ over the sources of half A that hold token $t$ (shrunk towards zero for rare tokens). *The rest*: interaction, of the token with its place and of both with the text. Shares of the variance of scores on half B, sources weighted by the kernel.
- *positional head*: its rows on half B are on average within a TV of 0.1 of its kernel.
- *noise*: the outputs of the first layer's stable heads are multiplied by the text's denominator over the mean denominator, at all positions. Its size in the stream behind a layer: the variance of the difference at n over texts, as a share of the variance of the stream there (x_n is the same in all texts).
- *order*: the tokens of a text are shuffled in blocks of b (BOS and x_n stay). The change of what a layer's broad heads write at n, as a share of the variance of that over texts, b = 1 less b = 32. Bigrams: b = 1 less b = 2.
- *repetition*: of two pieces of text U, V of one domain make UU, VV (repeated) and UV, VU (not): the same tokens. A direction in the stream at n, fitted on half A, tells the two kinds apart on half B; the area under the curve.
- *circuit through layer 2*: kernel x content / mean denominator for the second layer's broad and stable heads, values from one of: mean of the current token, the states that the first layer's circuit predicts, the true states. 100 neurons of the second layer's MLP that its heads move most over half A.

## Conditions

| question | condition | reason |
| --- | --- | --- |
| Is the score a sum of where and what in the first layer, and less so behind it? | the interaction's share is larger in every deeper layer than in the first | a state knows the text, a token does not |
| What carries the content of a deeper score? | in the first layer *what* is at least 0.8 of what *where* leaves, in every deeper layer less | the same |
| Almost entirely positional heads, better behaved heads | as in `published.toml` | the post's words |
| Do later layers clean the noise? | `published.toml`, last layer over first; and noise of the same size dealt to other texts and places shrinks at least twice as much (in variance) on its way through the second layer's heads | denominators move by topic ([chapter 4](04_denominators)), and what is the same along a text no average removes |
| Bags of bigrams | `published.toml`, behind a local head (fewer than 10 effective tokens); where the first layer has none, the line does not apply, and the third layer is asked behind the second | the post's words |
| Do deeper heads read order? | the second layer's share is at least twice the first's | a bag of tokens has none |
| Repetitiveness | `published.toml`, behind the second layer; behind the first at most 0.6 | a bag of tokens adds up: UU + VV = UV + VU |
| Does the circuit work in layer 2? | median r of at least 0.9 with the states that the first layer's circuit predicts | a tenth is this book's reading of effectively |
| What does the prediction of the states cost? | r with predicted states at most 0.05 below r with true states | the same |
"""
