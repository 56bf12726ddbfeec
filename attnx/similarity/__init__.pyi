from attnx.similarity.explain import explain_similarity as explain_similarity
from attnx.similarity.result import Similarity as Similarity
from attnx.similarity.result import alignment_data as alignment_data
from attnx.similarity.result import blocks as blocks
from attnx.similarity.result import plot as plot
from attnx.similarity.result import rows as rows
