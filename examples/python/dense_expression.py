"""A dense layer with bias and ReLU as tensor expressions, scheduled, printed step by step, built and checked."""
import numpy

from gantry import te

ROWS, DEPTH, UNITS = 64, 256, 128

# What: y[r, u] = max(bias[u] + sum over k of x[r, k] * w[k, u], 0)
x = te.placeholder((ROWS, DEPTH), "f32", "x")
w = te.placeholder((DEPTH, UNITS), "f32", "w")
bias = te.placeholder((UNITS,), "f32", "bias")
k = te.reduce_axis(DEPTH, "k")
product = te.compute((ROWS, UNITS), lambda r, u: te.sum(x[r, k] * w[k, u], k), "product")
y = te.compute((ROWS, UNITS), lambda r, u: te.maximum(product[r, u] + bias[u], 0), "y")

# How: tiles of 4 rows by 16 units, whose sums stay in registers, rows of tiles on the threads.
schedule = te.Schedule(y)
out, sums = schedule[y], schedule[product]
row, unit, row_in_tile, unit_in_tile = out.tile(*out.axes, 4, 16)
out.vectorize(unit_in_tile)
out.unroll(row_in_tile)
out.parallel(row)
sums.scope = "local"
sums.compute_at(out, unit)
sums.reorder(k, *sums.axes)
sums.unroll(sums.axes[0])
sums.vectorize(sums.axes[1])

for step in te.lower(schedule, [x, w, bias], name="dense").steps:
    if step.changed:
        print(f"--- {step.name}\n{step.text}")

draw = numpy.random.default_rng(1)
arrays = [draw.standard_normal(tensor.shape).astype("float32") for tensor in (x, w, bias)]
reference = numpy.maximum(arrays[0].astype("float64") @ arrays[1] + arrays[2], 0)
for what, how in (("this schedule", schedule), ("the target's own rule", te.schedule_for(y))):
    module = te.build(how, [x, w, bias], name="dense")
    numpy.testing.assert_allclose(module(*arrays), reference, atol=1e-4)
    times = [step.ms for _ in range(20) for step in module.session(threads=1).time_steps(*arrays)]
    print(f"{what}: right; fastest of 20 runs on one thread: {min(times):.4f} ms")
