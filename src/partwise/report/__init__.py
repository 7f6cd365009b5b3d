"""Tables, figures and sentences from records of runs. It knows rows and never a model: nothing here imports torch.

render(records, "text" | "md" | "csv" | "latex" | "json")      a table
draw(records, path)                                            a figure: what each arm reached, and how it got there
draw_over(records, path, View(over="task.n_pairs"))            a figure: the scores against a setting
draw_steps(records, path, ["induction.retrieval"])             a figure: what probes found while models trained
draw_places(records, path, Places(panels=...))                  the same, a line a place; `onsets` says when
compare(a, b)                                                  two runs, or two folders of runs
cells(records), verdicts(cells), warnings(cells)               what those are made of
"""

from partwise.report.cell import Cell
from partwise.report.cells import cells
from partwise.report.compare import compare
from partwise.report.draws import DrawShare, draw_share
from partwise.report.figure import draw
from partwise.report.lines import View, draw_over
from partwise.report.matching import warnings
from partwise.report.origin import origin
from partwise.report.paper import PaperValue, paper_values
from partwise.report.places import Panel, Places, draw_places, onsets
from partwise.report.statistics import Interval, Retained, Score, interval, retained, wilson
from partwise.report.steps import draw_steps
from partwise.report.table import render
from partwise.report.verdict import verdicts

__all__ = [
    "Cell",
    "DrawShare",
    "Interval",
    "Panel",
    "PaperValue",
    "Places",
    "Retained",
    "Score",
    "View",
    "cells",
    "compare",
    "draw",
    "draw_over",
    "draw_places",
    "draw_share",
    "draw_steps",
    "interval",
    "onsets",
    "origin",
    "paper_values",
    "render",
    "retained",
    "verdicts",
    "warnings",
    "wilson",
]
