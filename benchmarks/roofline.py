"""The roofline picture of docs/performance.md, as SVG."""
import math
import re


def kind_of(name):
    """The kind of a kernel by its ops: its algorithm if it has one, else its first heavy op."""
    bracketed = re.search(r'([\w.]+\[[^\]]*\])', name)
    if bracketed:
        return bracketed.group(1)
    parts = name.split('+')
    heavy = [p for p in parts if p.startswith(('nn.conv', 'nn.dense', 'matmul', 'nn.attention', 'nn.lstm', 'nn.gru',
                                               'nn.rnn'))]
    if heavy:
        return heavy[0]
    named = [p for p in parts if '.' in p or p in ('softmax', 'reduce', 'concat', 'transpose')]
    return named[0] if named else 'elementwise'


COLOURS = ['#4363d8', '#e6194b', '#3cb44b', '#f58231', '#911eb4', '#008080', '#9a6324', '#808000', '#000075', '#a9a9a9']


def picture(data, mode='native'):
    """Kernels as points over arithmetic intensity, the machine's peaks as roofs, one thread, both axes logarithmic."""
    peaks = data['peaks'].get('1')
    points = [(kind_of(k['name']), k) for key, kernels in data['profiles'].items() if key.endswith('|' + mode)
              for k in kernels if k['flops'] > 0 and k['bytes'] > 0 and k['total_ms'] > 0.01]
    if not peaks or not points:
        return None
    width, height, left, top = 900, 560, 70, 20
    low_x, high_x, low_y, high_y = -1, 3, -1, 4  # powers of ten: FLOP/byte, GFLOP/s

    def place(intensity, rate):
        x = (math.log10(intensity) - low_x) / (high_x - low_x)
        y = (math.log10(rate) - low_y) / (high_y - low_y)
        return left + min(max(x, 0), 1) * (width - left - 230), height - 50 - min(max(y, 0), 1) * (height - 50 - top)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
             'font-size="12">', f'<rect width="{width}" height="{height}" fill="white"/>']
    for power in range(low_x, high_x + 1):
        x, y = place(10 ** power, 10 ** low_y)
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{x:.1f}" y2="{top}" stroke="#ddd"/>'
                     f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="middle">{10 ** power:g}</text>')
    for power in range(low_y, high_y + 1):
        x, y = place(10 ** low_x, 10 ** power)
        end, _ = place(10 ** high_x, 1)
        parts.append(f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{end:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{10 ** power:g}</text>')
    x, y = place(10, 10 ** low_y)
    parts.append(f'<text x="{x:.1f}" y="{y + 38:.1f}">operations a byte of compulsory traffic</text>'
                 f'<text x="14" y="{height / 2:.0f}" transform="rotate(-90 14 {height / 2:.0f})" '
                 'text-anchor="middle">GFLOP/s, one thread</text>')
    roofs = [(peaks[k], label) for k, label in (('avx512_gflops', 'AVX-512'), ('avx2_gflops', 'AVX2'),
                                                ('neon_gflops', 'NEON'), ('avx512_bf16_gflops', 'AVX-512 bf16'),
                                                ('amx_bf16_gflops', 'AMX bf16')) if k in peaks]
    for peak, label in roofs:
        knee = peak / peaks['memory_gb_per_s']
        (x1, y1), (x2, y2) = place(min(max(knee, 10 ** low_x), 10 ** high_x), peak), place(10 ** high_x, peak)
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="black"/>'
                     f'<text x="{x2 - 4:.1f}" y="{y2 - 4:.1f}" text-anchor="end">{label} {peak:.0f}</text>')
    top_rate = max(peak for peak, _ in roofs)
    for key, label in (('memory_gb_per_s', 'memory'), ('l3_gb_per_s', 'third level'), ('l2_gb_per_s', 'second-level cache')):
        if key not in peaks:
            continue
        start = max(10 ** low_x, 10 ** low_y / peaks[key])
        (x1, y1), (x2, y2) = place(start, start * peaks[key]), place(min(top_rate / peaks[key], 10 ** high_x), top_rate)
        parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="black" '
                     f'stroke-dasharray="{"none" if key[0] == "m" else "4 3"}"/>'
                     f'<text x="{x1 + 8:.1f}" y="{y1 - 8:.1f}">{label} {peaks[key]:.0f} GB/s</text>')
    spent = {}
    for kind, k in points:
        spent[kind] = spent.get(kind, 0) + k['total_ms']
    ranked = sorted(spent, key=lambda kind: -spent[kind])
    colour = {kind: COLOURS[min(i, len(COLOURS) - 1)] for i, kind in enumerate(ranked)}
    for kind, k in points:
        x, y = place(k['flops'] / k['bytes'], k['flops'] / k['total_ms'] / 1e6)
        radius = min(2 + 1.5 * math.sqrt(k['total_ms']), 14)
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}" fill="{colour[kind]}" fill-opacity="0.55"/>')
    for i, kind in enumerate(ranked[:len(COLOURS)]):
        y = top + 14 + 20 * i
        label = kind if i < len(COLOURS) - 1 else 'others'
        parts.append(f'<circle cx="{width - 210}" cy="{y}" r="6" fill="{colour[kind]}"/>'
                     f'<text x="{width - 198}" y="{y + 4}">{label}</text>')
    return '\n'.join(parts) + '\n</svg>\n'
