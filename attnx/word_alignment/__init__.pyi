from attnx.word_alignment.align import NEW_TOKENS as NEW_TOKENS
from attnx.word_alignment.align import alignment as alignment
from attnx.word_alignment.result import Alignment as Alignment
from attnx.word_alignment.result import alignment_section as alignment_section
from attnx.word_alignment.result import blocks as blocks
from attnx.word_alignment.result import error_lines as error_lines
from attnx.word_alignment.result import grid as grid
from attnx.word_alignment.result import rows as rows
