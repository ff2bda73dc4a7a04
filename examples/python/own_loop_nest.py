"""An operation with a loop nest of its own, between two that are expressions: a running maximum, which no expression
says, since each element depends on the one before."""
import numpy

from gantry import te

ROWS, COLUMNS = 7, 300

x = te.placeholder((ROWS, COLUMNS), "f32", "x")
doubled = te.compute((ROWS, COLUMNS), lambda r, c: x[r, c] * 2, "doubled")


def running_max(nest):
    """Along each row; a row a thread of the session, the maximum so far in a register."""
    values, result = nest.input(0), nest.result(0)

    def one_row(r):
        best = nest.local("best", "f32", 1)

        def one_element(c):
            nest.store(best, 0, te.maximum(best[0], values[r * COLUMNS + c]))
            nest.store(result, r * COLUMNS + c, best[0])

        nest.store(best, 0, float("-inf"))
        nest.loop("c", COLUMNS, one_element)

    nest.loop("r", ROWS, one_row, kind="parallel")


(best,) = te.extern_kernel([doubled], [x.shape], ["f32"], running_max, "best")
y = te.compute((ROWS, COLUMNS), lambda r, c: te.exp(best[r, c]), "y")
schedule = te.Schedule(y)
schedule[y].vectorize(schedule[y].split(schedule[y].axes[1], 8)[1])
print(te.lower(schedule, [x], name="running_max").steps[0].text)

array = numpy.random.default_rng(1).uniform(-1, 1, x.shape).astype("float32")
reference = numpy.exp(numpy.maximum.accumulate(2 * array.astype("float64"), axis=1))
numpy.testing.assert_allclose(te.build(schedule, [x], name="running_max")(array), reference, rtol=1e-6)
print("running maximum: right")
