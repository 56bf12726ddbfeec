"""attnx as a Space, or on any machine: `python app.py`. Visitors can ask the models that are named here."""

from attnx.demo import Models, build, launch_options

MODELS = ()  # hub ids to offer beside the embedded models, such as "distilbert-base-uncased-finetuned-sst-2-english"

if __name__ == "__main__":
    build(Models(MODELS)).launch(**launch_options())
