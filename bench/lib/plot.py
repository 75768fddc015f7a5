"""The plot of what operations cost beside others, as SVG that suits light and dark pages."""
import math
import statistics

WIDTH, HEIGHT = 360, 210
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 44, 40
TICKS = 4
TITLES = {"growth-provision": "provision (ms)", "growth-exec": "exec of true (ms)",
          "growth-list": "a page of the list (ms)", "growth-memory": "memory of all (MiB)"}
STYLE = """
  svg { --paper: #ffffff; --ink: #1f2328; --soft: #59636e; --line: #d1d9e0; --mark: #0969da; }
  @media (prefers-color-scheme: dark) {
    svg { --paper: #0d1117; --ink: #f0f6fc; --soft: #9198a1; --line: #3d444d; --mark: #4493f8; }
  }
  .paper { fill: var(--paper); }
  text { font: 12px system-ui, sans-serif; fill: var(--soft); }
  .title { font-weight: 600; font-size: 13px; fill: var(--ink); }
  .grid { stroke: var(--line); stroke-width: 1; }
  .spread { fill: var(--mark); opacity: 0.15; }
  .median { fill: none; stroke: var(--mark); stroke-width: 2; stroke-linejoin: round; }
  .point { fill: var(--paper); stroke: var(--mark); stroke-width: 2; }
  .value { fill: var(--ink); }
"""


def number(value):
    if value >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if value >= 10 else f"{value:.2f}".rstrip("0").rstrip(".")


def step(largest):
    """Of a scale: 1, 2 or 5 times a power of ten, a few of which reach the largest."""
    rough = largest / TICKS
    power = 10 ** math.floor(math.log10(rough))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)


def spread(samples):
    """(5th of a hundred, median, 95th)"""
    ordered = sorted(samples)
    last = len(ordered) - 1
    return ordered[round(last * 0.05)], statistics.median(ordered), ordered[round(last * 0.95)]


class Panel:
    def __init__(self, levels, left, top):
        self.counts = [level["executions"] for level in levels]
        self.spreads = [spread(level["samples"]) for level in levels]
        self.step = step(max(high for _, _, high in self.spreads))
        self.top_value = self.step * math.ceil(max(h for _, _, h in self.spreads) / self.step)
        self.left, self.top = left, top

    def x(self, count):
        share = math.log10(count / self.counts[0]) / math.log10(self.counts[-1] / self.counts[0])
        return round(self.left + LEFT + 14 + share * (WIDTH - LEFT - RIGHT - 40), 1)

    def y(self, value):
        return round(self.top + HEIGHT - BOTTOM - value / self.top_value * (HEIGHT - TOP - BOTTOM), 1)

    def scale(self):
        lines = []
        for i in range(round(self.top_value / self.step) + 1):
            y = self.y(i * self.step)
            lines.append(f'<line class="grid" x1="{self.left + LEFT}" x2="{self.left + WIDTH - RIGHT}" '
                         f'y1="{y}" y2="{y}"/>')
            lines.append(f'<text x="{self.left + LEFT - 8}" y="{y + 4}" text-anchor="end">'
                         f'{i * self.step:g}</text>')
        for count in self.counts:
            lines.append(f'<text x="{self.x(count)}" y="{self.top + HEIGHT - BOTTOM + 18}" '
                         f'text-anchor="middle">{count:,}</text>')
        return lines

    def draw(self, title):
        at = [self.x(count) for count in self.counts]
        low = [f"{x},{self.y(s[0])}" for x, s in zip(at, self.spreads)]
        high = [f"{x},{self.y(s[2])}" for x, s in zip(at, self.spreads)]
        middle = [(x, self.y(s[1])) for x, s in zip(at, self.spreads)]
        lines = [f'<text class="title" x="{self.left + 16}" y="{self.top + 24}">{title}</text>',
                 *self.scale(),
                 f'<polygon class="spread" points="{" ".join(low + high[::-1])}"/>',
                 f'<polyline class="median" points="{" ".join(f"{x},{y}" for x, y in middle)}"/>']
        for (x, y), (_, median, _) in zip(middle, self.spreads):
            lines.append(f'<circle class="point" cx="{x}" cy="{y}" r="3.5"/>')
            lines.append(f'<text class="value" x="{x}" y="{y - 9}" text-anchor="middle">'
                         f'{number(median)}</text>')
        return lines


def growth(levels):
    """`levels`: {row: [{executions, samples}]}. Returns the SVG's text."""
    lines = []
    for i, (name, title) in enumerate(TITLES.items()):
        lines += Panel(levels[name], i % 2 * WIDTH, i // 2 * HEIGHT).draw(title)
    note = "executions at once; the line is the median, the band goes from the 5th to the 95th of a hundred"
    width, height = 2 * WIDTH, 2 * HEIGHT + 28
    body = "\n".join(f"  {line}" for line in lines)
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img">\n'
            f'  <title>What operations cost beside 1, 10, 100 and 1,000 executions</title>\n'
            f'  <style>{STYLE}  </style>\n'
            f'  <rect class="paper" width="{width}" height="{height}" rx="6"/>\n{body}\n'
            f'  <text x="{width // 2}" y="{height - 12}" text-anchor="middle">{note}</text>\n</svg>\n')
