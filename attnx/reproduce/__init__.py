"""The paper's tables and figures, one file each, to be read beside the paper.

table1, table2                 agreement of raw attention, rollout and flow with blank-out and with input gradients
figure1, figure2, figure3      the layered graph of a sentence, and what CLS attends to through the layers
figure4                        two masked pronouns: what is predicted, and whom attention points at
subject                        how much relevance lies on the subject, on attractors, elsewhere
"""
