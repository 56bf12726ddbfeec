"""Pronoun probes: which candidate does a masked pronoun draw from, and does that agree with what the model predicts?

probe, Probe          one sentence, as in Figure 4 of the paper
read, run, Report     a whole data set: Winogender templates or a CSV file
"""
