"""How cases of each op are drawn: functions of a Draw, by the op's name."""
from families import (classical, control, elementwise, indexing, lists, norms, products, quantised, reductions, sampling,
                      sequences, shapes, texts, windows)

FAMILIES = {}
for family in (elementwise, reductions, shapes, indexing, windows, products, norms, quantised, sequences, sampling, control,
               lists, texts, classical):
    FAMILIES.update(family.FAMILY)

# Ops with many attributes and shapes that matter get more cases than one of a single element; others 1.
WEIGHTS = {name: 3 for name in (
    'Conv', 'ConvTranspose', 'MaxPool', 'AveragePool', 'LpPool', 'Gemm', 'MatMul', 'Slice', 'Pad', 'Reshape', 'Resize',
    'ScatterElements', 'ScatterND', 'Gather', 'GatherND', 'GatherElements', 'Cast', 'QuantizeLinear', 'DequantizeLinear',
    'Einsum', 'TopK', 'Unique', 'Split', 'Pow', 'Div', 'Mod', 'Where', 'Clip', 'Expand', 'OneHot', 'GRU', 'LSTM', 'RNN',
    'Attention', 'LayerNormalization', 'Loop', 'If', 'Scan', 'LinearAttention', 'GridSample', 'RoiAlign', 'DeformConv',
    'RotaryEmbedding', 'NonMaxSuppression', 'ConvTranspose', 'DFT')}
