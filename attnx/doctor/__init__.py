"""What is wrong on this machine, and what to do about it: `attnx doctor`.

examine()     every check, each a file of this room, as a list of findings
text, as_json the findings as a report
"""
