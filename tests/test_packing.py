"""Positions in use, side by side and back."""

import pytest
import torch

from partwise.packing import Packing


@pytest.mark.parametrize("n_groups", [1, 2, 3, 9])
def test_packing_goes_there_and_back_and_rows_meet_their_mixer_padded_by_zeros(n_groups):
    lengths_B, seen = torch.tensor([1, 2, 4, 4, 5]), []
    x_BLD = torch.arange(5 * 6 * 2.0).reshape(5, 6, 2) + 1
    packing = Packing(lengths_B, 6, n_groups=n_groups)
    packed = packing.pack(x_BLD)
    assert packed.shape == (1, 16, 2)
    assert packed[0, :3, 0].tolist() == [1, 13, 15]
    back, used_BL = packing.unpack(packed), torch.arange(6) < lengths_B[:, None]
    assert back[used_BL].equal(x_BLD[used_BL])
    assert back[~used_BL].eq(0).all()

    def reversed_rows(a_BLD, lengths_B):
        seen.append((lengths_B.tolist(), a_BLD.shape[1]))
        assert a_BLD[~(torch.arange(a_BLD.shape[1]) < lengths_B[:, None])].eq(0).all()
        return -a_BLD

    assert packing.through(reversed_rows, packed).equal(-packed)
    assert [length for lengths, _ in seen for length in lengths] == lengths_B.tolist()
    assert all(longest == max(lengths) for lengths, longest in seen)
    assert len(seen) == min(n_groups, 5)


def test_reading_from_packed_rows_gives_the_positions_asked_for_and_the_last_one_for_padding():
    x_BLD = torch.arange(6.0).reshape(2, 3, 1)
    packing = Packing(torch.tensor([2, 3]), 3)
    assert packing.take(packing.pack(x_BLD), torch.tensor([[0, 2], [1, 2]])).flatten().tolist() == [0, 1, 4, 5]
