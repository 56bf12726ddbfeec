"""Model families, and the preparation of everything that a user can hand to `explain`: text, chat, image, audio."""
