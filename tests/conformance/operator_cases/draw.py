"""What a case is made of, drawn from a generator of random numbers: types that an op's schema allows, shapes, values."""
import ml_dtypes
import numpy as np
from onnx import TensorProto, helper

from case import Case, Input

# Types that a file of ONNX holds, and that this program makes no values of.
OTHERS = {'complex64', 'complex128'}
TEXT = np.dtype(object)
TEXTS = ['', 'a', 'b', 'A', 'ab', 'Ab', 'a b', ' a  b ', 'b,a', ',', 'true', '17', '-2.5',
         'ä', 'Ä', 'ß', 'łódź', '日本', '🙂', 'é', 'x' * 40]
SIZES = [1, 2, 3, 4, 5, 7, 8, 9]
# Ops of which all dimensions are given: gantry needs those of weights, and how long positions are.
FIXED = {'Conv', 'ConvTranspose', 'DeformConv', 'ConvInteger', 'QLinearConv', 'RNN', 'GRU', 'LSTM', 'GatherND', 'Scatter',
         'ScatterElements', 'ScatterND', 'TensorScatter', 'Attention', 'LinearAttention', 'LinearClassifier',
         'RotaryEmbedding', 'OneHot', 'DFT', 'MaxUnpool'}
LONG_SIZES = [15, 16, 17, 31, 33, 64, 65, 100]


class Undefined(Exception):
    """What was drawn is something that ONNX says nothing of."""


def element_type(text):
    """numpy's type of 'tensor(float16)', object of strings; None of what is no tensor of either."""
    name = text.removeprefix('tensor(').removesuffix(')')
    if not text.startswith('tensor(') or name in OTHERS:
        return None
    return np.dtype(helper.tensor_dtype_to_np_dtype(getattr(TensorProto, name.upper())))


def is_float(dtype):
    """Whether it is a type of floating point, ml_dtypes' among them."""
    return dtype not in (bool, TEXT) and not is_integer(dtype)


def is_integer(dtype):
    if dtype in (bool, TEXT):
        return False
    try:
        ml_dtypes.iinfo(dtype)
        return True
    except ValueError:
        return False


class Draw:
    """Draws one case of an op at a version of its schema.

    `types` fixes type parameters of the schema by name; others are drawn where they are first asked for.
    """

    def __init__(self, schema, opset, seed):
        self.schema, self.opset, self.version = schema, opset, schema.since_version
        self.op = schema.name
        self.random = np.random.default_rng(seed)
        self.types = {}

    def chance(self, probability):
        return bool(self.random.random() < probability)

    def integer(self, low, high):
        """From low to high, both among them."""
        return int(self.random.integers(low, high + 1))

    def choice(self, items):
        return items[self.integer(0, len(items) - 1)]

    def has(self, attribute):
        """Whether this version of the op has the attribute."""
        return attribute in self.schema.attributes

    def allowed(self, parameter):
        """The element types of a type parameter, or of 'tensor(int64)'."""
        for constraint in self.schema.type_constraints:
            if constraint.type_param_str == parameter:
                found = [element_type(text) for text in constraint.allowed_type_strs]
                return sorted((dtype for dtype in found if dtype is not None), key=str)
        return [element_type(parameter)]

    def type(self, parameter='T', fits=lambda dtype: True, texts=False):
        """The element type of a type parameter: float32 thrice as often as another. `texts`: strings are one, too."""
        if parameter not in self.types:
            allowed = [dtype for dtype in self.allowed(parameter) if fits(dtype) and (texts or dtype != TEXT)]
            if not allowed:
                raise Undefined(f'no type for {parameter}')
            allowed += [dtype for dtype in allowed if dtype == np.float32] * 2
            self.types[parameter] = self.choice(allowed)
        return self.types[parameter]

    def shape(self, least=0, most=4, empty=True, high=4):
        """Of rank least to most: mostly small, sometimes empty, all 1, long, or of a high rank."""
        kind = self.random.random()
        rank = self.integer(least, most)
        if kind < 0.1 and most >= 4:
            return tuple(self.choice([1, 2, 2, 3]) if axis < 6 else self.choice([1, 1, 1, 2])
                         for axis in range(self.choice([5, 6, 7, 8, 9, 16])))
        if kind < 0.2 and empty and rank > 0:
            shape = [self.choice(SIZES[:high]) for _ in range(rank)]
            shape[self.integer(0, rank - 1)] = 0
            return tuple(shape)
        if kind < 0.28:
            return (1,) * rank
        if kind < 0.4 and rank > 0:
            shape = [self.choice([1, 2, 3]) for _ in range(rank)]
            shape[self.integer(0, rank - 1)] = self.choice(LONG_SIZES)
            return tuple(shape)
        if kind < 0.48 and least == 0:
            return ()
        return tuple(self.choice(SIZES[:high] if rank > 2 else SIZES) for _ in range(rank))

    def broadcast(self, shape):
        """A shape that broadcasts to this one."""
        kept = shape[self.integer(0, len(shape)):] if self.chance(0.4) else shape
        return tuple(1 if self.chance(0.25) else size for size in kept)

    def axis(self, rank, negative=True):
        axis = self.integer(0, rank - 1)
        return axis - rank if negative and self.chance(0.4) else axis

    def axes(self, rank, least=1, negative=True):
        """Axes in any order."""
        count = self.integer(least, rank)
        chosen = self.random.permutation(rank)[:count]
        return [int(axis) - rank if negative and self.chance(0.3) else int(axis) for axis in chosen]

    def values(self, dtype, shape, kind='plain'):
        """Of these kinds: plain; whole: small integers, sums of which are exact; positive: from 0.25 on; unit: from -1
        to 1; special: plain with NaN, infinities, -0, denormals and extremes among them; extremes: special without NaN
        and 0, so that all have an order; infinite: plain with NaN and infinities."""
        dtype = np.dtype(dtype)
        if dtype == TEXT:
            return self.texts(shape)
        if dtype == bool:
            return self.random.integers(0, 2, shape).astype(bool) if shape != () else np.array(self.chance(0.5))
        if is_integer(dtype):
            return self._integers(dtype, shape, kind)
        if kind == 'whole':
            drawn = self.random.integers(-4, 5, shape).astype(np.float32)
        elif kind == 'unit':
            drawn = self.random.uniform(-1, 1, shape)
        else:
            drawn = np.asarray(self.random.normal(0, 2, shape))
        drawn = np.abs(drawn) + 0.25 if kind == 'positive' else drawn
        drawn = np.asarray(drawn, np.float32).astype(dtype)
        if kind not in ('special', 'extremes', 'infinite'):
            return drawn
        special = special_floats(dtype)
        wide = special.astype(np.float64)
        chosen = {'special': np.ones(wide.shape, bool), 'infinite': ~np.isfinite(wide),
                  'extremes': ~np.isnan(wide) & (wide != 0)}
        return self._mixed(drawn, special[chosen[kind]])

    def texts(self, shape, among=TEXTS):
        """Strings out of these."""
        return np.asarray(np.array(among, TEXT)[self.random.integers(0, len(among), shape)], TEXT)

    def _integers(self, dtype, shape, kind):
        limits = ml_dtypes.iinfo(dtype)
        low, high = max(int(limits.min), -9), min(int(limits.max), 9)
        low = max(low, 1) if kind == 'positive' else low
        drawn = np.asarray(self.random.integers(low, high + 1, shape)).astype(dtype)
        extremes = [limits.min, limits.min + 1, limits.max - 1, limits.max, 0, 1]
        return self._mixed(drawn, np.array([int(value) for value in extremes]).astype(dtype) if limits.max < 2**63
                           else np.array(extremes, dtype)) if kind in ('special', 'extremes') else drawn

    def _mixed(self, drawn, special):
        """With a third of the elements out of those that are special."""
        mask = np.asarray(self.random.random(drawn.shape) < 0.35)
        picked = np.asarray(special[self.random.integers(0, len(special), drawn.shape)])
        return np.where(mask, picked, drawn).astype(drawn.dtype)

    def input(self, parameter, shape, kind='plain', texts=False):
        return Input(self.values(self.type(parameter, texts=texts), shape, kind))

    def steering(self, values, dtype=np.int64):
        """What steers shapes or axes: an initialiser, or given when the model runs."""
        values = np.asarray(values, dtype)
        return Input(values, constant=self.chance(0.5) or values.size == 0, steers=True)  # an input's 0 would be open

    def case(self, inputs, attributes=None, outputs=None, scale=0.0, oracle=None, fixed=False,
             judges=('reference', 'runtime'), chain=None):
        """`outputs` are types of the outputs, None for one that is left out; usually that of the schema's first output.
        `fixed`: the model says the inputs' dimensions, which it leaves open in a quarter of the other cases.
        `judges`: which evaluators are asked, where one is known to be wrong."""
        types = [self.output_type(0)] if outputs is None else outputs
        inputs = [value if value is None or isinstance(value, Input) else Input(np.asarray(value)) for value in inputs]
        while inputs and inputs[-1] is None:
            inputs.pop()
        attributes = {name: value for name, value in (attributes or {}).items() if value is not None}
        symbolic = self.chance(0.25) and not fixed and self.op not in FIXED
        return Case(self.op, self.opset, inputs, types, attributes, scale, oracle, symbolic, judges=judges,
                    domain=self.schema.domain, chain=chain)

    def output_type(self, index):
        return self.type(self.schema.outputs[index].type_str)


def special_floats(dtype):
    limits = ml_dtypes.finfo(dtype)
    numbers = [0.0, -0.0, 1.0, float(limits.max), -float(limits.max), float(limits.tiny),
               float(limits.smallest_subnormal), -float(limits.smallest_subnormal)]
    return np.array(numbers + [np.nan, np.inf, -np.inf] * 2).astype(dtype)
