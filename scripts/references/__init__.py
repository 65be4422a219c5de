"""Pages of docs/ that are made from the code: ``python -m scripts.references`` (``make docs``) writes them."""
