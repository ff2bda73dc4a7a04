#!/usr/bin/env python3
"""Writes small_float_reference.h: what ml_dtypes makes of every code and of every f16."""
import ml_dtypes
import numpy as np

TYPES = ["float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn",
         "float6_e3m2fn", "float4_e2m1fn"]


def rows(values, width=12):
    return ",\n    ".join(", ".join(f"{v:#x}" for v in values[i:i + width]) for i in range(0, len(values), width))


def main():
    print("// Written by small_float_reference.py with ml_dtypes", ml_dtypes.__version__)
    print("#pragma once\n\n#include <array>\n#include <cstdint>\n#include <vector>\n\nnamespace gantry::reference {\n")
    print("/// `values`: each code's number, as bits of f32. `steps`: pairs, the first f16 (as bits) of those that become")
    print("/// a code, and that code.")
    print("struct SmallFloatReference {\n  std::vector<uint32_t> values, steps;\n};\n")
    print("/// In the order of DType.")
    print(f"inline const std::array<SmallFloatReference, {len(TYPES)}> kSmallFloats = {{{{")
    for name in TYPES:
        dtype = np.dtype(getattr(ml_dtypes, name))
        bits = ml_dtypes.finfo(dtype).bits
        values = np.arange(2**bits, dtype=np.uint8).view(dtype).astype(np.float32).view(np.uint32)
        half = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float32)
        codes = half.astype(dtype).view(np.uint8)
        starts = [0] + [i for i in range(1, 65536) if codes[i] != codes[i - 1]]
        pairs = [n for i in starts for n in (i, int(codes[i]))]
        print(f"    {{  // {name}\n    {{{rows([int(v) for v in values])}}},\n    {{{rows(pairs)}}}}},")
    print("}};\n\n}  // namespace gantry::reference")


main()
