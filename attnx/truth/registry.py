"""The suites by name, those first that need nothing of the user."""

from __future__ import annotations

from attnx.registry import Registry
from attnx.truth.suite import Suite
from attnx.truth.suites.cues import CUES
from attnx.truth.suites.dates import DATES
from attnx.truth.suites.documents import DOCUMENTS
from attnx.truth.suites.faithfulness import FAITHFULNESS
from attnx.truth.suites.names import NAMES
from attnx.truth.suites.patch import PATCH
from attnx.truth.suites.recall import RECALL
from attnx.truth.suites.subject import SUBJECT

SUITES: Registry[Suite] = Registry("suite", row=Suite)
for _row in (RECALL, DOCUMENTS, DATES, SUBJECT, PATCH, CUES, NAMES, FAITHFULNESS):
    SUITES.add(_row.name, _row)
