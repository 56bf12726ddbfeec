"""The planted patch: pictures whose class one known patch tells, and a tiny ViT that was trained on them.

model, processor = load_demo()                    the trained model that ships with attnx
generate(100, seed=1)                             pictures, each with its planted patch
find(model, processor, pictures)                  how often each method's best patch is the planted one
"""
