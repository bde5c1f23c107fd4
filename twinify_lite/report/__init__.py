"""Pages for those who decide: the score of a twin, which stays in the house, and its certificate, which is public.

markup, svg, parts, page               escaped text, drawings in words, one file without scripts
bars, positions, heat, budget          the charts
figures, columns, guarantee            the sections
scoring; certifying, certified         the two pages
"""

from __future__ import annotations

from twinify_lite.report.certifying import Certificate, certificate
from twinify_lite.report.scoring import score_page

__all__ = ["Certificate", "certificate", "score_page"]
