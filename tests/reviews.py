"""Made-up reviews that single words tell apart, for tests."""

import csv
import random
import tempfile
from pathlib import Path

from partwise.corpora.labelled_files import LabelledFiles
from partwise.encoders.words import Words
from partwise.tasks.sentiment import Sentiment

_FOLDER = tempfile.TemporaryDirectory(prefix="partwise-reviews-")
GOOD, BAD = ("lovely", "superb", "touching"), ("dull", "awful", "clumsy")
OTHER = ("film", "plot", "actor", "scene", "music", "the", "a", "was", "and", "in", "of", "with", "it", "end", "story")


def reviews(folder: Path, *, n: int = 400, positive: float = 0.5, name: str = "reviews.csv") -> Path:
    """A file of n reviews of 3 to 16 words, two of which tell the label; one of these is among the first."""
    drawn, path = random.Random(0), folder / name
    with open(path, "w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(("text", "label"))
        for _ in range(n):
            label = int(drawn.random() < positive)
            words = drawn.choices(OTHER, k=drawn.randint(1, 14))
            for place in (drawn.randint(0, min(3, len(words))), drawn.randint(0, len(words))):
                words.insert(place, drawn.choice(GOOD if label else BAD))
            writer.writerow((" ".join(words), ("bad", "good")[label]))
    return path


def small_sentiment() -> Sentiment:
    """The task over 400 of them, of which it is given up to 9 words."""
    file = reviews(Path(_FOLDER.name))
    return Sentiment(corpus=LabelledFiles(files=(str(file),)), encoder=Words(vocabulary=60), length=10)
