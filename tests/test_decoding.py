import pytest
import torch

from partwise import decoding
from partwise.architectures import architecture
from partwise.caches import Cache
from partwise.decoding import Decoder
from partwise.errors import ConfigError
from partwise.model import ModelConfig, Transformer
from partwise.packing import Packing
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


def test_nothing_to_read_and_another_number_of_rows_are_refused():
    decoder = Decoder(made())
    with pytest.raises(ConfigError, match=r"tokens of shape \(2, 0\): at least one position to read was expected"):
        decoder.read(tokens(length=0))
    decoder.read(tokens(n=2, length=3))
    with pytest.raises(ConfigError, match="3 rows to read on, and this decoder has read 2 so far"):
        decoder.read(tokens(n=3, length=1))
    assert decoder.seen == 3


def test_it_reads_in_eval_mode_and_leaves_each_mode_as_it_was():
    model, tokens_BL, modes = made(), tokens(), []
    model.train()
    model.blocks[1].eval()
    model.embed.register_forward_hook(lambda *_: modes.append(any(part.training for part in model.modules())))
    Decoder(model).read(tokens_BL)
    assert modes == [False]
    assert model.training and model.blocks[0].training and not model.blocks[1].training


def test_the_rows_of_a_cache_read_on_by_themselves():
    model, tokens_BL = made(), tokens(n=3)
    decoder = Decoder(model)
    decoder.read(tokens_BL[:, :5])
    taken = Decoder(model)
    taken.caches = [cache.rows(torch.tensor([2, 0, 2])) for cache in decoder.caches]
    decoder.read(tokens_BL[:, 5:8])  # what the first goes on to read does not reach the other
    torch.testing.assert_close(taken.read(tokens_BL[[2, 0, 2], 5:]), model(tokens_BL[[2, 0, 2]])[:, -1])


@pytest.mark.parametrize("way", ["forward", "forward_at", "forward_packed", "forward_next"])
def test_rope_past_the_length_it_was_made_for_says_so(way):
    mixer = made().blocks[0].token_mixer
    x_BLD, lengths_B = torch.zeros(2, LENGTH + 1, WIDTH).double(), torch.tensor([LENGTH, LENGTH + 1])
    packing, cache = Packing(lengths_B, LENGTH + 1), Cache(LENGTH + 1)
    cache.seen = LENGTH
    call = {
        "forward": lambda: mixer(x_BLD, None),
        "forward_at": lambda: mixer.forward_at(x_BLD, torch.zeros(2, 1, dtype=torch.long), None),
        "forward_packed": lambda: mixer.forward_packed(packing.pack(x_BLD), packing),
        "forward_next": lambda: mixer.forward_next(x_BLD[:, :1], cache),
    }[way]
    with pytest.raises(
        ConfigError, match=f"length {LENGTH + 1}, but this attention with rope was made for {LENGTH} at"
    ):
        call()


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
