"""A run of the lab to a folder that transformers loads, and back: the same bits both ways."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from partwise import configs
from partwise.checkpoint import fingerprint, save_tensors, weights
from partwise.errors import ConfigError, DamagedFile
from partwise.experiment import Experiment, load_run, weights_note
from partwise.hf.card import card
from partwise.hf.configuration import PartwiseConfig
from partwise.hf.modeling import PartwiseForCausalLM, PartwiseForSequenceClassification
from partwise.parts import census
from partwise.records import RunRecord, write_json, write_text
from partwise.shapes import TaskShape

RECORD = "record.json"


def from_run(folder: Path | str, *, frozen_as_seed: bool = False) -> Any:
    """The model of a finished run: PartwiseForSequenceClassification if its task has outputs of its own, and
    PartwiseForCausalLM if they are its tokens.

    Args:
        folder: of the run, OUT/runs/<digest>.
        frozen_as_seed: `save_pretrained` will leave out what never learned and keep the seed that drew it.

    Raises:
        DamagedFile: no finished run is there.
        ConfigError: its task has real-valued inputs, or real targets.
    """
    experiment, trained = load_run(folder)
    shape = trained.shape
    if shape.vocabulary is None or shape.real_targets:
        raise ConfigError(
            f"{folder} is a run on real numbers; models of Hugging Face read tokens and name tokens or classes."
        )
    settings: dict[str, Any] = {} if shape.n_outputs is None else {"num_labels": shape.n_outputs}
    config = PartwiseConfig(
        architecture=experiment.arm,
        parts=configs.to_plain(experiment.model),
        learn=configs.to_plain(experiment.learn),
        vocab_size=shape.vocabulary,
        max_position_embeddings=shape.length,
        seed=experiment.seed_of("frozen"),
        frozen_as_seed=frozen_as_seed,
        run={**weights_note(experiment, shape), "sha256": fingerprint(weights(trained))},
        **settings,
    )
    kind = PartwiseForCausalLM if shape.n_outputs is None else PartwiseForSequenceClassification
    model = kind(config)
    model.model.load_state_dict(trained.state_dict())
    return model.eval()


def export_run(folder: Path | str, to: Path | str, *, frozen_as_seed: bool = False) -> Any:
    """Write the model of a finished run as a folder that transformers loads, with its record and a model card.

    Args:
        folder: of the run, or a folder that holds one run.
        to: the new folder.
        frozen_as_seed: see `from_run`.

    Returns:
        The model.

    Raises:
        DamagedFile, ConfigError: as `from_run`; or several runs are there.
    """
    place = one_run(Path(folder))
    model = from_run(place, frozen_as_seed=frozen_as_seed)
    record = RunRecord.from_file(place / RECORD)
    rule = model.config.learn_rule
    model.save_pretrained(to)
    shutil.copyfile(place / RECORD, Path(to) / RECORD)
    write_text(Path(to) / "README.md", card(record, census(model.model, rule), type(model).__name__))
    return model


def to_run(folder: Path | str, to: Path | str) -> Experiment:
    """Write an exported model as the run's folder that it came from; `load_run`, tables and probes read it.

    Args:
        folder: what `export_run` wrote.
        to: the run's folder.

    Raises:
        ConfigError: it was not exported from a run, or its tensors are not those of the run any more.
    """
    config = AutoConfig.from_pretrained(folder)
    if not isinstance(config, PartwiseConfig) or config.run is None:
        raise ConfigError(f"{folder} was not exported from a run, so there is no experiment to name it by.")
    kind = PartwiseForCausalLM if "PartwiseForCausalLM" in config.architectures else PartwiseForSequenceClassification
    tensors = weights(kind.from_pretrained(folder, dtype=torch.float32).model)
    if fingerprint(tensors) != config.run["sha256"]:
        raise ConfigError(
            f"{folder} holds other weights than its run ended with, so its record is not theirs; "
            "the lab's model is inside: from_pretrained(...).model."
        )
    experiment = configs.from_plain(Experiment, config.run["experiment"])
    plain, to = configs.to_plain(experiment), Path(to)
    save_tensors(to / "model.safetensors", tensors, weights_note(experiment, TaskShape(**config.run["shape"])))
    write_json(to / "experiment.json", plain)
    shutil.copyfile(Path(folder) / RECORD, to / RECORD)
    return experiment


def one_run(folder: Path) -> Path:
    """The folder itself if it is a run's, or the one run below it.

    Raises:
        DamagedFile: there is none.
        ConfigError: there are several.
    """
    if (folder / RECORD).is_file():
        return folder
    places = sorted(path.parent for path in (folder / "runs").glob(f"*/{RECORD}"))
    if not places:
        raise DamagedFile(f"no finished run is in {folder}: no record.json in it or in its runs.")
    if len(places) > 1:
        said = ", ".join(f"{place.name} ({_label(place)})" for place in places[:6])
        raise ConfigError(f"{folder} holds {len(places)} runs; name one of {folder}/runs: {said}.")
    return places[0]


def _label(place: Path) -> str:
    plain = json.loads((place / RECORD).read_text(encoding="utf-8"))
    return f"{plain['experiment']['task']['name']} {plain['architecture']} seed {plain['experiment']['seed']}"
