import pytest
import torch

from partwise import decoding
from partwise.architectures import architecture
from partwise.decoding import Decoder
from partwise.errors import ConfigError
from partwise.model import ModelConfig, Transformer
from partwise.shapes import TaskShape
from partwise.token_mixers.attention import Attention, SelfAttention

LENGTH, WIDTH, BLOCKS = 13, 32, 2
SHAPE = TaskShape(length=LENGTH, vocabulary=7)
ROW = 4 * BLOCKS * WIDTH  # bytes of one float32 vector of the stream in each block


def made(name: str = "standard", **settings) -> Transformer:
    config = architecture(name).model(ModelConfig(n_blocks=BLOCKS, width=WIDTH, **settings))
    return Transformer(config, SHAPE, seed=0).double()


def tokens(n: int = 2, length: int = LENGTH) -> torch.Tensor:
    return torch.randint(7, (n, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", ["standard", "mixit", "interleaved", "uniform", "none", "shaped_published"])
@pytest.mark.parametrize("settings", [{}, {"positions": "one_hot", "order": "parallel"}], ids=["plain", "other"])
def test_each_next_position_is_that_of_the_whole(name, settings):
    model, tokens_BL = made(name, **settings), tokens()
    decoder, whole_BLV = Decoder(model), model(tokens_BL)
    torch.testing.assert_close(decoder.read(tokens_BL[:, :5]), whole_BLV[:, 4])
    for place in range(5, LENGTH):
        torch.testing.assert_close(decoder.read(tokens_BL[:, place : place + 1]), whole_BLV[:, place])


def test_a_long_prompt_is_read_in_pieces(monkeypatch):
    model, tokens_BL = made(), tokens()
    monkeypatch.setattr(decoding, "PIECE", 4)
    torch.testing.assert_close(Decoder(model).read(tokens_BL), model(tokens_BL)[:, -1])


def test_a_mixer_that_cannot_go_on_is_given_its_input_again(monkeypatch):
    monkeypatch.delattr(SelfAttention, "forward_next")
    model, tokens_BL = made(), tokens()
    decoder = Decoder(model)
    decoder.read(tokens_BL[:, :-1])
    torch.testing.assert_close(decoder.read(tokens_BL[:, -1:]), model(tokens_BL)[:, -1])


@pytest.mark.parametrize(
    ("name", "mixer", "rows"),
    [
        ("standard", Attention(), 2 * LENGTH),  # keys and values
        ("standard", Attention(n_kv_heads=2), LENGTH),  # half as many heads of each
        ("mixit", Attention(), LENGTH),  # values
        ("uniform", Attention(), 1),  # a sum
        ("none", Attention(), 0),
    ],
    ids=["standard", "grouped", "mixit", "uniform", "none"],
)
def test_a_cache_is_as_large_as_what_must_be_kept(name, mixer, rows):
    decoder = Decoder(made(name, token_mixer=mixer).float())
    assert decoder.cache_bytes() == 0
    decoder.read(tokens(n=3))
    assert decoder.cache_bytes() == 3 * rows * ROW


def test_a_shorter_length_takes_less_memory():
    decoder = Decoder(made().float(), length=4)
    decoder.read(tokens(n=1, length=2))
    assert decoder.cache_bytes() == 2 * 4 * ROW
    decoder.read(tokens(n=1, length=2))
    with pytest.raises(ConfigError, match="1 more positions after 4: 4 is the most"):
        decoder.read(tokens(n=1, length=1))


def test_a_two_way_model_is_refused():
    with pytest.raises(ConfigError, match="two-way model cannot be decoded"):
        Decoder(made(two_way=True))


def test_the_model_keeps_nothing():
    model, tokens_BL = made(), tokens()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    first, second = Decoder(model), Decoder(model)
    first.read(tokens_BL)
    assert torch.equal(second.read(tokens_BL), Decoder(model).read(tokens_BL))
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())
