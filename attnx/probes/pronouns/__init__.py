"""Pronoun probes: which candidate does a masked pronoun draw from, and does that agree with what the model predicts?

probe, Probe          one sentence, as in Figure 4 of the paper
read, run, Report     a whole data set: Winogender templates or a CSV file
"""

from attnx.probes.pronouns.data_file import read
from attnx.probes.pronouns.outcome import Probe
from attnx.probes.pronouns.probe import probe, probe_each
from attnx.probes.pronouns.report import Report
from attnx.probes.pronouns.run import run
from attnx.probes.pronouns.sentence import Sentence, written_out

__all__ = ["Probe", "Report", "Sentence", "probe", "probe_each", "read", "run", "written_out"]
