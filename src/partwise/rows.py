"""What comes out of a run, one number at a time. Reports are made of rows and never see a model."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measured number.

    Args:
        where: a split ("test", "test/n_pairs=3"), a part's address, or "model".
        quantity: what was measured, such as "accuracy" or "accuracy.floor.most_frequent_value".
        value: the number itself.
        unit: "" for a share, else "nat", "bit", "parameter", ...
        n: how many observations the number is made of.
        step: training steps done when it was measured.
        experiment: digest of the run; filled in when the run is recorded.
    """

    where: str
    quantity: str
    value: float
    unit: str = ""
    n: int = 1
    step: int = 0
    experiment: str = ""
