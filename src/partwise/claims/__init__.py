"""What a paper says, each claim beside what was measured here, with a verdict and why.

A claim is data and a judge (judges.py); a paper's claims are one file (mixit.py) whose list stands in `PAPERS`
(page.py). The page is generated from the records below a folder of results; nothing in it is written by hand:

    partwise claims docs/results --out docs/results/claims.md
"""

from partwise.claims.claim import Claim, Finding, Study
from partwise.claims.page import page

__all__ = ["Claim", "Finding", "Study", "page"]
