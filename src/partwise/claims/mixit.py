"""What Dong, Noci, Khodak, Li 2025 (arXiv:2506.01115) claim of synthetic tasks, and what their readers asked.

Their numbers are second-hand: a reader's write-up of version 3, a summary of version 2, and, for Zhong & Andreas 2024,
the proposal of a replication (docs/papers/mixit.md).
"""

from partwise.claims.claim import Claim, Study
from partwise.claims.depth import becomes_alike, border, lines_hold, stays_apart
from partwise.claims.judges import (
    answer,
    by_seed,
    fails,
    keeps,
    loses_capacity,
    number,
    ordered,
    rises,
    told,
    worsens,
)
from partwise.report import formats
from partwise.report.cell import Cell
from partwise.report.draws import draw_share
from partwise.report.statistics import ratio

PAIRS = [{"task.n_pairs": m} for m in (4, 8, 16)]
WIDE = 1024  # Zhong & Andreas; with 16 channels they report 1 to 87 %
PAPER_WIDTH = 512  # the smaller of the two that the scripts use
HEADS = [{"model.token_mixer.n_heads": n} for n in (4, 8, 16, 32, 64)]
WORDS = "as well as standard, in words"


def _scales(study: Study) -> str:
    """Frozen-QK beside standard at each scale of the draw."""
    solved: dict[bool, list[str]] = {True: [], False: []}
    parts = []
    for scale in (0.25, 1.0, 2.0, 4.0):
        arms = [study.find("needle", name, model__token_mixer__qk_scale=scale) for name in ("frozen_qk", "standard")]
        said = [f"{cell.architecture} {number(cell)} ({cell.solved}/{cell.n})" for cell in arms if cell]
        parts += [f"x{scale:g}: {', '.join(said)}"] if said else []
        if arms[0]:
            solved[arms[0].solved == arms[0].n].append(f"x{scale:g}")
    if not parts:
        return ""
    words = [f"all seeds solve it at {', '.join(solved[True]) or 'none'} of the usual scale"]
    words += [f"not all at {', '.join(solved[False])}"] if solved[False] else []
    return f"Frozen-QK: {'; '.join(words)}. {'; '.join(parts)}"


def _draws(study: Study) -> str:
    """Whose the variance is, arm by arm."""
    return "; ".join(filter(None, map(_share_of_draw, study.cells)))


def _share_of_draw(cell: Cell) -> str:
    found = draw_share(dict(zip(cell.draws, cell.values, strict=True))) if cell.headline else None
    if found is None:
        return ""
    place = (
        f"{cell.task} {cell.architecture} (sd {formats.number(found.sd, cell)} about {formats.number(cell.mean, cell)})"
    )
    if found.draw is None or found.seed is None:
        return f"{place}: all runs agree"
    text = f"{place}: draw {formats.percent(found.draw)} %, seed of all else {formats.percent(found.seed)} %"
    if found.low is None or found.high is None:
        return text
    return f"{text} (draw against rest {formats.percent(found.low)}–{formats.percent(found.high)} %)"


def _stages(study: Study) -> str:
    """What each late start keeps of standard's score, and what it saves of its FLOPs."""
    parts = []
    for task in ("needle", "memorization"):
        standard = study.find(task, "standard")
        arms = [cell for cell in study.cells if cell.headline and cell.n and cell.task == task]
        for cell in sorted(arms, key=lambda cell: -(cell.flops or 0.0)):
            if standard is None or not standard.flops or cell is standard:
                continue
            share = ratio(by_seed(cell), by_seed(standard))
            saved = 1 - (cell.flops or 0.0) / standard.flops
            if share.mean is not None and share.low is not None and share.high is not None:
                ends = f"[{formats.percent(share.low)}, {formats.percent(share.high)}]"
                score = f"{formats.percent(share.mean)} % {ends} of standard's score"
                parts.append(f"{task}, {cell.architecture}: {score} with {formats.percent(saved)} % fewer FLOPs")
    return "; ".join(parts)


def _patterns(study: Study) -> str:
    """Which patterns of blocks solve it."""
    heads = sorted((cell for cell in study.cells if cell.headline and cell.n), key=lambda cell: -(cell.mean or 0.0))
    return "; ".join(f"{cell.architecture}: {told(cell)}" for cell in heads)


CLAIMS = [
    Claim(
        about="Retrieval (needle)",
        claim="Frozen-QK retrieves",
        paper=".970 beside standard's 1.00 (m = 30)",
        status="second-hand",
        study="small",
        judge=keeps("needle", "frozen_qk", *PAIRS),
    ),
    Claim(
        about="Retrieval (needle)",
        claim="Frozen-MLP retrieves",
        paper=WORDS,
        status="second-hand",
        study="small",
        judge=keeps("needle", "frozen_mlp", *PAIRS),
    ),
    Claim(
        about="Retrieval (needle)",
        claim="MixiT does not retrieve",
        paper=".112 (m = 30, where naming the most frequent value gets .155)",
        status="second-hand",
        study="small",
        judge=fails("needle", "mixit", *PAIRS),
    ),
    Claim(
        about="Retrieval (needle)",
        claim="MixiT falls behind as pairs are added",
        paper="poor from m = 20 on (figure 2)",
        status="second-hand",
        study="needle_by_m",
        judge=worsens("needle", "mixit", "task.n_pairs"),
    ),
    Claim(
        about="Retrieval (needle)",
        claim="Frozen-QK falls with m faster than standard",
        paper="in words (figure 2)",
        status="second-hand",
        study="needle_by_m",
        judge=worsens("needle", "frozen_qk", "task.n_pairs"),
    ),
    Claim(
        about="Chained retrieval (k_hop)",
        claim="Frozen-QK follows the hops",
        paper=".967 beside standard's .9999 (16 hops, 5 blocks)",
        status="second-hand",
        study="small",
        judge=keeps("k_hop", "frozen_qk"),
    ),
    Claim(
        about="Chained retrieval (k_hop)",
        claim="Frozen-MLP follows the hops",
        paper=WORDS,
        status="second-hand",
        study="small",
        judge=keeps("k_hop", "frozen_mlp"),
    ),
    Claim(
        about="Chained retrieval (k_hop)",
        claim="MixiT does not follow the hops",
        paper=".486 (a table of position, token and hops gets .48, or .59 to .63 at 16 hops alone)",
        status="second-hand",
        study="small",
        judge=fails("k_hop", "mixit"),
    ),
    Claim(
        about="Arithmetic",
        claim="MixiT adds (whole sums right, the first digit too)",
        paper=WORDS + " (table 3, with many heads; a token accuracy without the first digit)",
        status="second-hand",
        study="addition_by_heads",
        judge=keeps("addition", "mixit", *HEADS, width=PAPER_WIDTH),
    ),
    Claim(
        about="Arithmetic",
        claim="MixiT adds (token accuracy)",
        paper=WORDS + " (table 3, with many heads; without the first digit)",
        status="second-hand",
        study="addition_by_heads",
        judge=keeps("addition", "mixit", *HEADS, metric="accuracy", width=PAPER_WIDTH),
    ),
    Claim(
        about="Arithmetic",
        claim="MixiT's token accuracy on addition grows with heads",
        paper=".35 with few heads to .92 with 256 (table 5; without the first digit)",
        status="second-hand",
        study="addition_by_heads",
        judge=rises("addition", "mixit", "accuracy", "model.token_mixer.n_heads"),
    ),
    Claim(
        about="Arithmetic",
        claim="MixiT adds modulo p",
        paper=WORDS + " (p = 599)",
        status="second-hand",
        study="small",
        judge=keeps("modular_addition", "mixit", width=PAPER_WIDTH),
    ),
    Claim(
        about="Brackets",
        claim="MixiT recognizes balanced strings (all strings, as the paper has them)",
        paper=WORDS + " (counting alone gets .92 to .94)",
        status="second-hand",
        study="small",
        judge=keeps("brackets", "mixit", metric="accuracy", width=PAPER_WIDTH),
    ),
    Claim(
        about="Brackets",
        claim="MixiT recognizes balanced strings (ours: the hard split, where counting and right ends do not help)",
        paper=WORDS + " (the paper has no hard split)",
        status="second-hand",
        study="small",
        judge=keeps("brackets", "mixit", width=PAPER_WIDTH),
    ),
    Claim(
        about="Memorization",
        claim="Bits per trainable parameter fall from standard over Frozen-QK and MixiT to Frozen-MLP",
        paper="2.98, 2.25, 2.18, 1.13 (by accuracy)",
        status="second-hand",
        study="small",
        judge=ordered("memorization", ("standard", "frozen_qk", "mixit", "frozen_mlp")),
    ),
    *(
        Claim(
            about="Memorization",
            claim=f"{name} holds fewer bits per trainable parameter than standard",
            paper=f"{share:.2f} of standard's by accuracy (a table that standard fills, if its width was 128: the true "
            "share is then smaller)",
            status="second-hand",
            study="small",
            judge=loses_capacity("memorization", arm),
        )
        for name, arm, share in (
            ("Frozen-QK", "frozen_qk", 2.25 / 2.98),
            ("MixiT", "mixit", 2.18 / 2.98),
            ("Frozen-MLP", "frozen_mlp", 1.13 / 2.98),
        )
    ),
    Claim(
        about="Embeddings only",
        claim="A random Transformer of two blocks adds when its embeddings learn",
        paper="1.00 with 2 blocks, about .23 with 8 or 16 (table 6); about 1.00 (Zhong & Andreas, 1024 wide)",
        status="second-hand",
        study="small",
        judge=keeps("addition", "embeddings_only", width=WIDE),
    ),
    *(
        Claim(
            about="Embeddings only",
            claim=f"... {does}",
            paper="about 1.00 (Zhong & Andreas, 1024 wide)",
            status="second-hand",
            study="small",
            judge=keeps(task, "embeddings_only", *at, width=WIDE),
        )
        for does, task, at in (
            ("retrieves", "needle", PAIRS),
            ("adds modulo p", "modular_addition", []),
            ("recognizes balanced brackets", "brackets", []),
        )
    ),
    *(
        Claim(
            about="Depth, before anything is learned",
            claim=claim,
            paper=paper,
            status="second-hand",
            study="propagation",
            judge=judge,
        )
        for claim, paper, judge in (
            (
                "Tokens of a random Transformer become alike with depth",
                "covariance .0022 with 2 blocks, .054 with 32 (table 7)",
                becomes_alike("standard_published"),
            ),
            (
                "Tokens of MixiT stay apart: the architecture as its code has it, 4 heads",
                "flat from 2 to 32 blocks (table 7); heads not known",
                stays_apart("mixit_published"),
            ),
            ("... with 64 heads, of which one is the sink", "as above", stays_apart("mixit_published, 64 heads")),
            ("... with 4 heads and no sink", "as above", stays_apart("mixit_published, no sink")),
            ("... clean: standard with its mixer swapped", "as above", stays_apart("mixit")),
            (
                "MixiT's token covariance follows an SDE as width and depth grow together",
                "theorem, in words",
                lines_hold("propagation", "MixiT"),
            ),
        )
    ),
    *(
        Claim(
            about="What random heads can express",
            claim=claim,
            paper="theorem, in words",
            status="second-hand",
            study="propagation",
            judge=judge,
        )
        for claim, judge in (
            (
                "Random frozen queries and keys approximate retrieval, and more heads do so better",
                lines_hold("expressivity", "softmax"),
            ),
            (
                "Input-free mixing cannot, as long as all that follows is linear",
                lines_hold("expressivity", "mixing heads, linear readout"),
            ),
        )
    ),
    *(
        Claim(
            about="Questions of reviewers and readers",
            claim=question,
            paper="",
            status="not known",
            study=study,
            judge=answer(found),
        )
        for question, study, found in (
            ("Does Frozen-QK depend on the scale of its frozen queries and keys?", "qk_scale", _scales),
            ("Do results depend on the particular draw?", "frozen_draw", _draws),
            ("What does unfreezing later cost or save?", "unfreezing", _stages),
            ("Which blocks need attention?", "interleaved", _patterns),
            ("How many tokens does an MLP retrieve among, behind random mixing?", "propagation", border),
        )
    ),
]
