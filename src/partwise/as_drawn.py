"""Models as they are drawn, before anything is learned: probes on the test set, a record a model."""

import datetime
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from partwise import configs
from partwise.evaluation import evaluation_batch, headline_of, mode
from partwise.execution import Execution, environment
from partwise.experiment import Experiment
from partwise.records import AS_DRAWN, RunRecord, write_text


def look(
    experiments: Sequence[Experiment],
    out: Path,
    *,
    jobs: int = 1,
    fresh: bool = False,
    tell: Callable[[str], None] = lambda text: None,
) -> list[RunRecord]:
    """Build each experiment's model, measure its probes on its test set, and train nothing.

    Records are kept in OUT/as_drawn/<digest>.json, and a second start makes only those that are missing.

    Args:
        experiments: with probes; what they say of training does not matter here.
        out: folder of the results.
        jobs: models at once, in threads of this process: drawing weights takes most of the time and needs no Python.
        fresh: forget the records of an earlier start.
        tell: is told of each model.
    """
    execution = Execution(precision="float32", threads=1, device="cpu", environment=environment())

    def one(experiment: Experiment) -> RunRecord:
        path = out / AS_DRAWN / f"{experiment.digest}.json"
        if fresh or not path.is_file():
            record = _record(experiment, execution)
            write_text(path, record.to_json())
            tell(f"{experiment.arm}, seed {experiment.seed}: {record.seconds:.1f} s")
        return RunRecord.from_file(path)

    with execution.in_force(), ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(one, experiments))


def _record(experiment: Experiment, execution: Execution) -> RunRecord:
    started = time.perf_counter()
    data, model = experiment.build()
    batch = evaluation_batch(data, "test", n=experiment.test_size, seed=experiment.seed_of("data"))
    with mode(model, training=False):
        rows = [row for probe in experiment.probes for row in probe.measure(model, batch)]
    return RunRecord(
        digest=experiment.digest,
        **experiment.labels(),
        experiment=configs.to_plain(experiment),
        status="done",
        headline=vars(headline_of(data)),
        rows=rows,
        execution=execution.to_plain(),
        seconds=round(time.perf_counter() - started, 2),
        finished=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
    )
