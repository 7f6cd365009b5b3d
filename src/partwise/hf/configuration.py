"""The config of our models for transformers: the parts as plain data, and the usual names, which agree with them."""

from typing import Annotated, Any

from transformers import PreTrainedConfig

from partwise.architectures import architecture
from partwise.configs import from_plain, to_plain
from partwise.errors import ConfigError, did_you_mean
from partwise.model import ModelConfig
from partwise.parts import LEARN_RULES, AllBut, LearnRule
from partwise.shapes import TaskShape
from partwise.token_mixers.attention import Attention

RULE = Annotated[LearnRule, LEARN_RULES]


class PartwiseConfig(PreTrainedConfig):
    """Which parts a model has, how large it is, and what of it learns.

        PartwiseConfig(architecture="mixit", vocab_size=256, hidden_size=64, num_attention_heads=4)
        PartwiseConfig(parts={"width": 64, "token_mixer": {"name": "attention", "n_heads": 4}}, vocab_size=256)

    Args:
        architecture: a name of the catalogue, or token mixers joined by a plus; None is standard. Beside `parts` it is
            only what the model is called.
        parts: fields of ModelConfig as plain data, `configs.to_plain`; afterwards all of them, defaults included, so
            that a saved config means the same for ever.
        learn: the rule that says what learns, as plain data; None is the architecture's, or everything. What never
            learns asks for no gradient.
        vocab_size: number of token ids.
        hidden_size: the stream's width; None is ModelConfig's default, or what `parts` say.
        num_hidden_layers: blocks; None as above.
        num_attention_heads: of each token mixer that has heads; None as above, or where the mixers differ in it.
        max_position_embeddings: the longest input. A random mixing matrix is drawn for it.
        tie_word_embeddings: the unembedding is the embedding's own tensor; None as above.
        pad_token_id, bos_token_id, eos_token_id: as in transformers; None where there is none.
        seed: what the weights are drawn from, before any are loaded.
        frozen_as_seed: `save_pretrained` leaves out what never learns (frozen weights, mixing matrices) and
            `from_pretrained` draws it again from `seed`, and checks that it is the same.
        frozen_sha256: of what was left out; written on saving.
        run: where an exported model comes from: its experiment, and the hash of its tensors (conversion.py).
        kwargs: what transformers' own configs take.

    Raises:
        ConfigError: a usual name contradicts the parts, or is misspelt; the parts are impossible.
    """

    __no_type_check__ = True  # said to run-time checkers: __init__ takes more names than its signature has
    model_type = "partwise"
    keys_to_ignore_at_inference = ["cache"]  # noqa: RUF012  # transformers adds lists to it

    architecture: str | None = None
    parts: dict[str, Any] | None = None
    learn: dict[str, Any] | None = None
    vocab_size: int = 256
    hidden_size: int | None = None
    num_hidden_layers: int | None = None
    num_attention_heads: int | None = None
    max_position_embeddings: int = 256
    tie_word_embeddings: bool | None = None
    pad_token_id: int | None = None
    bos_token_id: int | None = None
    eos_token_id: int | list[int] | None = None
    seed: int = 0
    frozen_as_seed: bool = False
    frozen_sha256: str | None = None
    run: dict[str, Any] | None = None

    def __post_init__(self, **kwargs: Any) -> None:
        for name in kwargs:
            near = did_you_mean(name, self.__dataclass_fields__, n=1)
            if near and not hasattr(PreTrainedConfig, name):
                raise ConfigError(f"PartwiseConfig has no {name!r}.{near}")
        super().__post_init__(**kwargs)
        if self.parts is None:
            named = architecture(self.architecture or "standard")
            model, learn = named.model(self._base()), named.learn
        else:
            model, learn = from_plain(ModelConfig, self.parts, at="parts"), AllBut()
        self.parts = to_plain(model)
        self.learn = to_plain(learn) if self.learn is None else self.learn
        for name, value in _usual(model).items():
            if getattr(self, name) is None:
                setattr(self, name, value)
        _ = self.model, self.learn_rule  # what can be wrong is said now, not when a model is built

    def _base(self) -> ModelConfig:
        """What an architecture changes: the defaults, at the sizes that were given."""
        usual = {"n_blocks": self.num_hidden_layers, "width": self.hidden_size, "tied": self.tie_word_embeddings}
        given: dict[str, Any] = {name: value for name, value in usual.items() if value is not None}
        if self.num_attention_heads is not None:
            given["token_mixer"] = Attention(n_heads=self.num_attention_heads)
        return ModelConfig(**given)

    @property
    def model(self) -> ModelConfig:
        """The parts.

        Raises:
            ConfigError: a usual name says otherwise than they do.
        """
        model = from_plain(ModelConfig, self.parts, at="parts")
        for name, value in _usual(model).items():
            own = getattr(self, name)
            if own != value:
                raise ConfigError(f"{name} is {own!r}, but the parts say {value!r}: set one of them, or both alike.")
        return model

    @property
    def learn_rule(self) -> LearnRule:
        """What learns, as a rule over the addresses of the lab's model."""
        return from_plain(RULE, self.learn, at="learn")

    def shape(self, n_outputs: int | None = None) -> TaskShape:
        """What a model must know of its input and output."""
        return TaskShape(length=self.max_position_embeddings, vocabulary=self.vocab_size, n_outputs=n_outputs)


def _usual(model: ModelConfig) -> dict[str, Any]:
    """The usual names and what the parts say of them; nothing of heads where no mixer has any."""
    usual: dict[str, Any] = {
        "hidden_size": model.width,
        "num_hidden_layers": model.n_blocks,
        "tie_word_embeddings": model.tied,
    }
    mixers: list[Any] = [model.block(index).token_mixer for index in range(model.n_blocks)]
    heads = {mixer.n_heads for mixer in mixers if hasattr(mixer, "n_heads")}
    if heads:
        usual["num_attention_heads"] = heads.pop() if len(heads) == 1 else None
    return usual
