"""The sentences of the paper's figures; the tokenizer adds `<eos>`."""

KEY = "the key to the cabinets"
ARTICLE = "the article on NNP large systems"
FEMALE = "here the NNS differ in that the female"

PAPER_SENTENCES = (KEY, ARTICLE, FEMALE)
