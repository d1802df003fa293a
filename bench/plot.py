"""A plot of curves as SVG. Python's standard library only."""
import html
import math
import pathlib

COLOURS = ["#222222", "#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#17becf"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 820, 440, 60, 210, 20, 60


def ticks(low, high):
    """Round numbers between both, at most nine."""
    step = 10.0 ** math.floor(math.log10((high - low) or 1) - 1)
    step = next(step * factor for factor in (1, 2, 5, 10, 20, 50, 100) if (high - low) / (step * factor) <= 8)
    first = math.ceil(low / step - 1e-9)
    return [round(i * step, 10) for i in range(first, math.floor(high / step + 1e-9) + 1)]


def draw(path, curves, title):
    """curves: [(label, [(x, y), ...])] in the order of the legend; those of one label have one colour."""
    points = [point for _, curve in curves for point in curve]
    right = max(x for x, _ in points)
    low, high = min(y for _, y in points), max(y for _, y in points)
    labels = list(dict.fromkeys(label for label, _ in curves))

    def across(x):
        return LEFT + (WIDTH - LEFT - RIGHT) * x / right

    def up(y):
        return HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (y - low) / ((high - low) or 1)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
             f'font-size="12"><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>']
    for y in ticks(low, high):
        parts.append(f'<path d="M{across(0):.1f} {up(y):.1f}H{across(right):.1f}" stroke="#dddddd"/>'
                     f'<text x="{LEFT - 8}" y="{up(y) + 4:.1f}" text-anchor="end">{y:g}</text>')
    for x in ticks(0, right):
        parts.append(f'<path d="M{across(x):.1f} {HEIGHT - BOTTOM}v5" stroke="#888888"/>'
                     f'<text x="{across(x):.1f}" y="{HEIGHT - BOTTOM + 20}" text-anchor="middle">{x:g}</text>')
    for label, curve in curves:
        line = " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in curve)
        colour = COLOURS[labels.index(label) % len(COLOURS)]
        parts.append(f'<polyline points="{line}" stroke="{colour}" fill="none" opacity="0.8"/>')
    for i, label in enumerate(labels):
        parts.append(f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 10 + 18 * i}" fill="{COLOURS[i % len(COLOURS)]}">'
                     f'{html.escape(label)}</text>')
    parts.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 12}" text-anchor="middle">{html.escape(title)}</text></svg>')
    pathlib.Path(path).write_text("\n".join(parts) + "\n")
