"""Predictors that are tables: the most frequent answer to each thing seen."""

import torch

from partwise.batch import IGNORE
from partwise.tasks.tables import most_frequent


def test_each_thing_seen_gets_its_most_frequent_answer():
    seen_BL = torch.tensor([[0, 0, 0, 2], [0, 2, 2, 2]])
    answers_BL = torch.tensor([[5, 5, 1, 3], [1, 3, 4, 3]])
    assert most_frequent(seen_BL, answers_BL, n_seen=3, n_answers=6).tolist() == [
        1,
        0,
        3,
    ]  # ties: the smaller; 0: unmet


def test_what_is_not_scored_does_not_count():
    seen_BL = torch.tensor([[0, 0, 1], [0, 1, 1]])
    answers_BL = torch.tensor([[IGNORE, 2, IGNORE], [IGNORE, IGNORE, 1]])
    assert most_frequent(seen_BL, answers_BL, n_seen=2, n_answers=3).tolist() == [2, 1]
