#!/usr/bin/env python3
"""Draws docs/speed.svg from the first table of benches/README.md: the time of tilec relative to the
fastest other runtime, a bar for each workload.

    python3 benches/speed_chart.py
"""
import html
import pathlib
import re

ROW = re.compile(r"\| (.+?) \| ([\d.]+) \| (.+?) ([\d.]+) \| [\d.]+ \|$")
LEFT, WIDTH, ROW_HEIGHT, BAR, TOP = 250, 800, 26, 16, 34
SCALE = 340  # pixels for a ratio of 1


def rows(markdown: str) -> list[tuple[str, float, str]]:
    """The workload, the ratio, and the fastest other of each row of the first such table."""
    found = []
    for line in markdown.splitlines():
        if match := ROW.match(line):
            name, own, other, time = match.groups()
            found.append((name.replace("`", ""), float(own) / float(time), other))
        elif found:
            break
    return found


def chart(table: list[tuple[str, float, str]]) -> str:
    height = TOP + ROW_HEIGHT * len(table) + 12
    one = LEFT + SCALE
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
        'font-family="sans-serif" font-size="13">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{one}" y="20" text-anchor="middle" fill="#555555">the fastest other = 1</text>',
    ]
    for number, (name, ratio, other) in enumerate(table):
        top = TOP + ROW_HEIGHT * number
        base = top + BAR - 3
        color = "#2b7a4b" if ratio <= 1.05 else "#c77d2e"
        lines += [
            f'<text x="{LEFT - 10}" y="{base}" text-anchor="end">{html.escape(name)}</text>',
            f'<rect x="{LEFT}" y="{top}" width="{ratio * SCALE:.0f}" height="{BAR}" fill="{color}"/>',
            f'<text x="{LEFT + max(ratio, 1) * SCALE + 10:.0f}" y="{base}" fill="#333333">'
            f"{ratio:.2f} ({html.escape(other)})</text>",
        ]
    lines += [
        f'<line x1="{one}" x2="{one}" y1="{TOP - 8}" y2="{height - 8}" stroke="#555555" '
        'stroke-dasharray="3 3"/>',
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    root = pathlib.Path(__file__).parent.parent
    table = rows((root / "benches/README.md").read_text())
    (root / "docs/speed.svg").write_text(chart(table))
