"""The verb-number task (§4): from the words before a verb, is the verb singular or plural?

model, tokenizer = load_demo()                     the trained model that ships with attnx
train(files, out), evaluate(directory, files)      training and evaluation on files in Linzen's format
generate(100, attractors=1)                        sentences without any data
"""

from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification

from attnx.tasks.verb_number.beginning import Beginning
from attnx.tasks.verb_number.checkpoint import load, load_demo, save
from attnx.tasks.verb_number.config import LABELS, TAGS, VerbNumberConfig
from attnx.tasks.verb_number.evaluation import Accuracy, evaluate
from attnx.tasks.verb_number.generator import generate
from attnx.tasks.verb_number.linzen import read
from attnx.tasks.verb_number.model import VerbNumberForSequenceClassification, VerbNumberModel
from attnx.tasks.verb_number.recipe import Recipe
from attnx.tasks.verb_number.split import Split, split, split_files
from attnx.tasks.verb_number.tokenizer import build_tokenizer, vocabulary
from attnx.tasks.verb_number.training import train

AutoConfig.register(VerbNumberConfig.model_type, VerbNumberConfig, exist_ok=True)
AutoModel.register(VerbNumberConfig, VerbNumberModel, exist_ok=True)
AutoModelForSequenceClassification.register(VerbNumberConfig, VerbNumberForSequenceClassification, exist_ok=True)

__all__ = [
    "LABELS",
    "TAGS",
    "Accuracy",
    "Beginning",
    "Recipe",
    "Split",
    "VerbNumberConfig",
    "VerbNumberForSequenceClassification",
    "VerbNumberModel",
    "build_tokenizer",
    "evaluate",
    "generate",
    "load",
    "load_demo",
    "read",
    "save",
    "split",
    "split_files",
    "train",
    "vocabulary",
]
