"""Draw what the first README command shows, as it looks in a terminal.

python docs/terminal_picture.py
"""

import re
from io import StringIO
from pathlib import Path

from rich.console import Console

import attnx
from attnx.render.terminal import coloured

TEXT = "the key to the cabinets"
PICTURE = Path(__file__).parent / "images" / "terminal.svg"

model, tokenizer = attnx.load_demo()
console = Console(record=True, width=78, force_terminal=True, color_system="truecolor", file=StringIO())
console.print(f'[bold]$[/bold] attnx explain "{TEXT}"', highlight=False)
console.print(coloured(attnx.explain(model, tokenizer, TEXT)))
svg = console.export_svg(title="attnx")
# The export would load a font from the network; any monospaced one will do.
PICTURE.write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL))
