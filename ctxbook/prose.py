"""Numbers in prose: the facts of a page, how they are written, and from where on a word for a
number is true. The thresholds of such words stand here, the same for every page, and were fixed
before any page used them, so that none is drawn around a result. "Hardly any" is said of what
"nearly all" leaves, and "almost the same" of what differs by less than "almost exactly" leaves.
"""

from __future__ import annotations

MOST = 0.5  #: "most" of a whole: more than half of it
NEARLY_ALL = 0.9  #: "nearly all" of a whole: more than nine tenths
ALMOST_EXACTLY = 0.95  #: a correlation above this, which explains more than nine tenths of variance
ABOUT = 0.1  #: "about" a number: less than a tenth of it away
