"""What goes into a model, and which of its positions are worth computing."""

import math

import torch

from partwise.batch import IGNORE, Batch

_ = IGNORE


def batch_of(targets, lengths=None):
    targets_BL = torch.tensor(targets)
    tokens_BL = torch.arange(targets_BL.numel()).reshape(targets_BL.shape)
    return Batch(
        tokens_BL=tokens_BL, targets_BL=targets_BL, lengths_B=None if lengths is None else torch.tensor(lengths)
    )


def test_scored_is_where_a_target_stands():
    assert batch_of([[_, 3], [0, _]]).scored_BL.tolist() == [[False, True], [True, False]]
    assert batch_of([[math.nan, 3.0], [0.0, math.nan]]).scored_BL.tolist() == [[False, True], [True, False]]


def test_used_is_what_stands_before_the_padding():
    assert batch_of([[_, 3, 1], [0, _, _]], [3, 1]).used_BL.tolist() == [[True] * 3, [True, False, False]]
    assert batch_of([[_, 3]]).used_BL.tolist() == [[True, True]]


def test_read_gives_each_scored_position_once_and_fills_short_rows_with_unscored_ones():
    read_BQ, targets_BQ = batch_of([[_, 7, _, 8], [5, _, _, _], [_, _, _, _]]).read()
    assert read_BQ.shape == (3, 2)
    assert read_BQ[0].tolist() == [1, 3]
    assert targets_BQ.tolist() == [[7, 8], [5, _], [_, _]]
    assert read_BQ[1, 0] == 0
    assert targets_BQ.eq(_).sum() == 3


def test_read_saves_nothing_where_a_row_is_scored_throughout():
    read_BQ, targets_BQ = batch_of([[1, 2], [_, 3]]).read()
    assert read_BQ is None
    assert targets_BQ.tolist() == [[1, 2], [_, 3]]


def test_read_of_a_batch_without_any_target_is_one_unscored_position():
    read_BQ, targets_BQ = batch_of([[_, _, _]]).read()
    assert read_BQ.shape == (1, 1)
    assert targets_BQ.tolist() == [[_]]


def test_read_of_real_targets_fills_with_nan():
    read_BQ, targets_BQ = batch_of([[math.nan, 1.5, 2.5], [math.nan, 0.5, math.nan]]).read()
    assert read_BQ[0].tolist() == [1, 2]
    assert targets_BQ[1, 0] == 0.5
    assert targets_BQ[1, 1].isnan()


def test_a_packed_batch_has_its_rows_in_the_order_of_their_lengths_cut_to_the_longest():
    whole = batch_of([[_, 9, _, _], [1, _, 2, _], [_, _, _, _], [7, _, _, _]], [2, 3, 0, 1])
    packed = whole.packed()
    assert packed.lengths_B.tolist() == [0, 1, 2, 3]
    assert packed.tokens_BL.tolist() == [[8, 9, 10], [12, 13, 14], [0, 1, 2], [4, 5, 6]]
    assert packed.targets_BL.tolist() == [[_, _, _], [7, _, _], [_, 9, _], [1, _, 2]]
    assert packed.packing.pack(packed.tokens_BL).tolist() == [[12, 0, 1, 4, 5, 6]]
    assert packed.rows(0, 2).packing is None


def test_full_rows_are_not_packed():
    full = batch_of([[1, 2], [3, 4]])
    assert full.packed() is full


def test_rows_cut_everything_alike():
    whole = Batch(
        tokens_BL=torch.arange(6).reshape(3, 2),
        targets_BL=torch.arange(6).reshape(3, 2),
        lengths_B=torch.tensor([2, 1, 2]),
        marks={"answer": torch.tensor([1, 0, 1])},
        strata={"n": torch.tensor([5, 6, 7])},
    )
    part = whole.rows(1, 3)
    assert len(part) == 2
    assert part.tokens_BL.tolist() == [[2, 3], [4, 5]]
    assert part.lengths_B.tolist() == [1, 2]
    assert part.marks["answer"].tolist() == [0, 1]
    assert part.strata["n"].tolist() == [6, 7]
    assert whole.rows(2, 9).strata["n"].tolist() == [7]
    moved = whole.to("meta")
    assert {moved.tokens_BL.device.type, moved.marks["answer"].device.type, moved.strata["n"].device.type} == {"meta"}
