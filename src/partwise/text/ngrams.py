"""How well one predicts text that only counted short sequences: interpolated n-grams after Kneser and Ney.

The floors of language modelling. Counting and looking up are sorts and searches over whole arrays.
"""

from dataclasses import dataclass

import numpy as np

UNSEEN = -1


@dataclass(frozen=True)
class _Counts:
    """Of all k-grams of one k: how often each came, and what its context came to.

    A k-gram (h w) has the id of its place among the sorted keys; its context h is a (k-1)-gram.

    Args:
        kept_G: the k-gram's own count less its discount, over the count of its context.
        backed_H: for each context, the share that the shorter context decides; 1 for one that was never followed.
    """

    kept_G: np.ndarray
    backed_H: np.ndarray


class NGrams:
    """Interpolated n-grams with modified Kneser-Ney discounts:

        p_k(w | h) = max(a(h w) - D(a(h w)), 0) / a(h) + b(h) p_(k-1)(w | h')
        a(h) = sum_w a(h w),   b(h) = sum_w D(a(h w)) / a(h),   p_0 = 1 / V

    h' is h without its first token. For the longest context that a position has, a(h w) is the number of times that
    (h w) came; for those that it backs off to, the number of different tokens that came before (h w). D has three
    values, for counts of 1, 2 and more, made of how many k-grams came 1, 2, 3 and 4 times. Probabilities sum to one
    over the V ids, for every context.

    Args:
        stream_N: what is counted, ids below `n_ids`.
        order: the longest n-gram.
        n_ids: V.

    Source: Chen & Goodman 1999, An empirical study of smoothing techniques, section 3. Unlike there, a position that
    has a shorter context than order - 1 (at the start of a row) uses the true counts of that length.
    """

    def __init__(self, stream_N: np.ndarray, *, order: int, n_ids: int):
        self.n_ids, self.order = n_ids, order
        stream_N = np.asarray(stream_N, dtype=np.int64)
        self._keys: list[np.ndarray] = [np.arange(n_ids)]  # [k - 1]: sorted, context id * V + token
        self._true: list[_Counts] = []
        self._spread: list[_Counts] = []  # by how many tokens a k-gram followed
        ends_N, counts_G = stream_N, np.bincount(stream_N, minlength=n_ids)
        for k in range(1, order + 1):
            n_contexts = 1 if k == 1 else len(self._keys[k - 2])
            contexts_G = self._keys[k - 1] // n_ids
            self._true.append(_discounted(counts_G, contexts_G, n_contexts))
            if k == order or len(ends_N) < 2:
                break
            # ends_N[i] is the id of the k-gram that ends at place i + k - 1
            longer_N = ends_N[:-1] * n_ids + stream_N[k:]
            keys, first, longer_ends_N, longer_G = np.unique(
                longer_N, return_index=True, return_inverse=True, return_counts=True
            )
            before_G = np.bincount(ends_N[1:][first], minlength=len(self._keys[k - 1]))
            self._spread.append(_discounted(before_G, contexts_G, n_contexts))
            self._keys.append(keys)
            ends_N, counts_G = longer_ends_N.reshape(-1), longer_G

    def nats(self, tokens_BL: np.ndarray, targets_BL: np.ndarray, *, order: int) -> np.ndarray:
        """-log p(target | tokens up to here) in nats, float64 (B, L), by n-grams of at most this order.

        A position sees what its row holds up to it and nothing else.
        """
        order = min(order, len(self._true))
        p_BL = np.full(targets_BL.shape, 1 / self.n_ids)  # by the shorter n-grams
        contexts_BL = np.zeros(targets_BL.shape, dtype=np.int64)  # ids of the last k - 1 tokens: of none, the only one
        found_BL = p_BL
        for k in range(1, order + 1):
            grams_BL = self._ids(k, contexts_BL, targets_BL)
            longest_L = np.minimum(order, np.arange(targets_BL.shape[1]) + 2) == k
            true_BL = _interpolated(self._true[k - 1], grams_BL, contexts_BL, p_BL)
            found_BL = np.where(longest_L, true_BL, found_BL)
            if k < order:
                p_BL = _interpolated(self._spread[k - 1], grams_BL, contexts_BL, p_BL)
                before_BL = contexts_BL if k == 1 else _shifted(contexts_BL)
                contexts_BL = self._ids(k, before_BL, tokens_BL)
        return -np.log(found_BL)

    def _ids(self, k: int, contexts_BL: np.ndarray, tokens_BL: np.ndarray) -> np.ndarray:
        """Of each k-gram (context, token), its id; UNSEEN if it never came."""
        keys = self._keys[k - 1]
        wanted_BL = contexts_BL * self.n_ids + tokens_BL
        places_BL = np.searchsorted(keys, wanted_BL).clip(max=len(keys) - 1)
        return np.where((keys[places_BL] == wanted_BL) & (contexts_BL != UNSEEN), places_BL, UNSEEN)


def _shifted(contexts_BL: np.ndarray) -> np.ndarray:
    """Those of the position before."""
    return np.concatenate((np.full_like(contexts_BL[:, :1], UNSEEN), contexts_BL[:, :-1]), axis=1)


def _interpolated(counts: _Counts, grams_BL: np.ndarray, contexts_BL: np.ndarray, p_BL: np.ndarray) -> np.ndarray:
    kept_BL = np.where(grams_BL == UNSEEN, 0.0, counts.kept_G[grams_BL])
    return kept_BL + np.where(contexts_BL == UNSEEN, 1.0, counts.backed_H[contexts_BL]) * p_BL


def _discounted(counts_G: np.ndarray, contexts_G: np.ndarray, n_contexts: int) -> _Counts:
    taken_G = _discounts(counts_G)[counts_G.clip(max=3)]
    whole_H, taken_H = (np.bincount(contexts_G, weights=each, minlength=n_contexts) for each in (counts_G, taken_G))
    followed_H = whole_H > 0
    whole_H = np.where(followed_H, whole_H, 1.0)
    return _Counts((counts_G - taken_G) / whole_H[contexts_G], np.where(followed_H, taken_H / whole_H, 1.0))


def _discounts(counts_G: np.ndarray) -> np.ndarray:
    """What is taken off a count of 0, 1, 2 and more: 0, and

        D_i = i - (i + 1) Y n_(i+1) / n_i,    Y = n_1 / (n_1 + 2 n_2)

    with n_i the number of k-grams of count i. Half of one where that cannot be said, as of a few bytes that all come
    often; never less than a tenth, so that what was never seen has some probability.
    """
    n = np.bincount(counts_G.clip(max=5), minlength=6).astype(float)
    if not n[1:5].all():
        return np.array([0.0, 0.5, 0.5, 0.5])
    y = n[1] / (n[1] + 2 * n[2])
    return np.array([0.0, *(np.clip(i - (i + 1) * y * n[i + 1] / n[i], 0.1, i) for i in (1, 2, 3))])
