"""Draw what `attnx explain` shows in a terminal: the README's first command, and its layers.

python docs/terminal_picture.py
"""

import re
import shlex
from io import StringIO
from pathlib import Path

from rich.console import Console

import attnx
from attnx.views import show

TEXT = "the key to the cabinets"
IMAGES = Path(__file__).parent / "images"


def picture(name, options, explanation, **view):
    console = Console(record=True, width=72, force_terminal=True, color_system="truecolor", file=StringIO())
    console.print(f"[bold]$[/bold] attnx explain {shlex.quote(TEXT)} {options}".replace("'", '"'), highlight=False)
    show(explanation, console, **view)
    svg = console.export_svg(title="attnx")
    # The export would load a font from the network; any monospaced one will do.
    (IMAGES / name).write_text(re.sub(r"@font-face \{.*?\}", "", svg, flags=re.DOTALL), encoding="utf-8")


model, tokenizer = attnx.load_demo()
picture("terminal.svg", "", attnx.explain(model, tokenizer, TEXT))
picture("terminal-layers.svg", "--layers", attnx.explain(model, tokenizer, TEXT), layers=True)
