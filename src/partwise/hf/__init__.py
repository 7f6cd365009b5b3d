"""The lab's models as Hugging Face has them: saved, loaded, generated from and trained by transformers.

Importing this package imports transformers and registers the Auto classes, so that `AutoModelForCausalLM` and
`AutoModelForSequenceClassification` load a folder of ours. docs/hugging_face.md is the way in.
"""

from partwise.errors import MissingExtra

try:
    import transformers
except ImportError as error:
    raise MissingExtra(f'models for Hugging Face need transformers ({error}): pip install "partwise[hf]".') from None

from partwise.hf.configuration import PartwiseConfig
from partwise.hf.conversion import export_run, from_run, to_run
from partwise.hf.modeling import PartwiseForCausalLM, PartwiseForSequenceClassification

transformers.AutoConfig.register(PartwiseConfig.model_type, PartwiseConfig, exist_ok=True)
transformers.AutoModelForCausalLM.register(PartwiseConfig, PartwiseForCausalLM, exist_ok=True)
transformers.AutoModelForSequenceClassification.register(
    PartwiseConfig, PartwiseForSequenceClassification, exist_ok=True
)

__all__ = [
    "PartwiseConfig",
    "PartwiseForCausalLM",
    "PartwiseForSequenceClassification",
    "export_run",
    "from_run",
    "to_run",
]
