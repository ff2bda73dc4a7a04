"""Ops of ai.onnx.ml: encoders, scalers, linear models, trees."""
import numpy as np

from draw import TEXT, Undefined

FLOAT, INT64 = np.dtype(np.float32), np.dtype(np.int64)
MODES = ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_EQ', 'BRANCH_NEQ']


def table(d, least=1, most=5):
    """A shape of rows of features."""
    return d.choice([1, 2, 3, 9]), d.integer(least, most)


def numbers(d, shape, kind='whole'):
    return d.values(d.type(d.schema.inputs[0].type_str), shape, kind)


def label_encoder(d):
    """A map between two lists of any two types, some of which the input does not name."""
    kinds = {'strings': TEXT, 'int64s': INT64, 'floats': FLOAT}
    source, target = d.choice(list(kinds)), d.choice(list(kinds))
    if d.version < 2:
        raise Undefined('classes_strings alone')
    some = lambda kind, count: [str(at) for at in d.random.permutation(9)[:count]] if kind == 'strings' else \
        [{'int64s': int, 'floats': float}[kind](at) for at in d.random.permutation(9)[:count]]
    count = d.integer(1, 6)
    keys, values = some(source, count), some(target, count)
    attributes = {f'keys_{source}': keys, f'values_{target}': values}
    default = {'strings': '_Unused', 'int64s': -1, 'floats': -0.0}[target]
    if d.chance(0.5):
        default = {'strings': 'none', 'int64s': 77, 'floats': 0.5}[target]
        attributes[f'default_{target[:-1]}'] = default
    x = np.array([d.choice(some(source, 9)) for _ in range(d.integer(1, 9))], kinds[source])
    found = dict(zip(keys, values))
    result = np.array([found.get(key, default) for key in x.tolist()], kinds[target])
    return d.case([x], attributes, outputs=[kinds[target]], oracle=lambda run: [result])


def imputer(d):
    shape = table(d)
    x = numbers(d, shape)
    which = 'float' if x.dtype.kind == 'f' else 'int64'
    given = d.values(FLOAT, (d.choice([1, shape[1]]),), 'whole').astype(INT64 if which == 'int64' else FLOAT).tolist()
    replaced = d.choice([0, 1, -1] + ([float('nan')] if which == 'float' else []))
    if replaced != replaced:
        x = np.where(d.random.random(shape) < 0.3, np.asarray(np.nan, x.dtype), x)
    cast = float if which == 'float' else int
    return d.case([x], {f'imputed_value_{which}s': given, f'replaced_value_{which}': cast(replaced)}, outputs=[x.dtype])


def one_hot_encoder(d):
    dtype = d.type('T', texts=True)
    shape = d.shape(least=1, most=3, empty=False)[:4]
    names = ['a', 'b', 'c', 'd']
    count = d.integer(1, 4)
    x = d.texts(shape, names) if dtype == TEXT else np.asarray(d.random.integers(0, 4, shape)).astype(dtype)
    categories = {'cats_strings': names[:count]} if dtype == TEXT else {'cats_int64s': list(range(count))}
    if count < 4:
        categories['zeros'] = 1
    return d.case([x], categories, outputs=[FLOAT])


def binarizer(d):
    return d.case([numbers(d, table(d))], {'threshold': d.choice([-1.0, 0.0, 0.5])})


def scaler(d):
    shape = table(d)
    of = lambda: d.values(FLOAT, (d.choice([1, shape[1]]),), 'whole').tolist()
    offset = of()
    scale = [d.choice([0.5, 1.0, 2.0]) for _ in offset]
    return d.case([numbers(d, shape)], {'offset': offset, 'scale': scale}, outputs=[FLOAT])


def normalizer(d):
    return d.case([numbers(d, table(d))], {'norm': d.choice(['MAX', 'L1', 'L2'])}, outputs=[FLOAT])


def feature_extractor(d):
    shape = d.shape(least=2, most=3, empty=False)[:4]
    x = d.values(d.type('T', texts=True), shape, 'plain')
    places = np.asarray(d.random.integers(0, shape[-1], d.integer(1, 4))).astype(np.int64)
    return d.case([x, places], outputs=[x.dtype])


def feature_vectorizer(d):
    rows, dtype = d.choice([1, 3]), d.type('T1')
    widths = [d.integer(1, 3) for _ in range(d.integer(1, 3))]
    columns = [d.values(dtype, (rows, width), 'whole') for width in widths]
    return d.case(columns, {'inputdimensions': widths}, outputs=[FLOAT])


def weights(d, count):
    return (d.values(FLOAT, (count,), 'whole') / 4).tolist()


def linear_regressor(d):
    rows, features = table(d)
    targets = d.integer(1, 3)
    attributes = {'coefficients': weights(d, targets * features), 'targets': targets}
    if d.chance(0.6):
        attributes['intercepts'] = weights(d, targets)
    x = numbers(d, (rows, features))
    products = x.astype(np.float64) @ np.reshape(attributes['coefficients'], (targets, features)).T
    return d.case([x], attributes, outputs=[FLOAT], scale=4, oracle=lambda run: [products + attributes.get('intercepts', 0)])


def linear_classifier(d):
    rows, features = table(d)
    classes = d.integer(2, 4)
    texts = d.chance(0.5)
    labels = {'classlabels_strings': list('pqrs'[:classes])} if texts else {'classlabels_ints': list(range(3, 3 + classes))}
    attributes = dict(labels, coefficients=weights(d, classes * features), intercepts=weights(d, classes),
                      post_transform=d.choice(['NONE', 'SOFTMAX', 'LOGISTIC']))
    x = (numbers(d, (rows, features)) + np.arange(features) / 7).astype(d.type('T1'))  # so that no two scores are equal
    return d.case([x], attributes, outputs=[TEXT if texts else INT64, FLOAT], scale=4)


class Tree:
    """Nodes of random trees as the attributes of TreeEnsembleRegressor have them."""

    def __init__(self, d, features, targets):
        self.d, self.features, self.targets = d, features, targets
        self.nodes, self.leaves = [], []

    def grow(self, tree, depth):
        """The id of the node that is made."""
        identity = sum(1 for node in self.nodes if node['treeids'] == tree)
        node = {'treeids': tree, 'nodeids': identity, 'featureids': 0, 'values': 0.0, 'modes': 'LEAF', 'truenodeids': 0,
                'falsenodeids': 0, 'missing_value_tracks_true': 0}
        self.nodes.append(node)
        if depth == 0 or self.d.chance(0.2):
            for target in range(self.targets):  # ONNX Runtime adds no base to a target without a leaf
                weight = self.d.integer(-8, 8) / 4
                self.leaves.append({'treeids': tree, 'nodeids': identity, 'ids': target, 'weights': weight})
            return identity
        node.update(featureids=self.d.integer(0, self.features - 1), values=self.d.integer(-6, 6) / 2,
                    modes=self.d.choice(MODES), missing_value_tracks_true=self.d.choice([0, 1]))
        node['truenodeids'] = self.grow(tree, depth - 1)
        node['falsenodeids'] = self.grow(tree, depth - 1)
        return identity

    def attributes(self, leaf):
        """`leaf`: what attributes of leaves are called."""
        nodes = {f'nodes_{name}': [node[name] for node in self.nodes] for name in self.nodes[0]}
        return dict(nodes, **{f'{leaf}_{name}': [each[name] for each in self.leaves] for name in self.leaves[0]})


def tree_regressor(d):
    rows, features = table(d)
    targets = d.integer(1, 3)
    trees = Tree(d, features, targets)
    count = d.choice([1, 2, 3, 8, 11])
    for tree in range(count):
        trees.grow(tree, d.integer(0, 6))
    attributes = dict(trees.attributes('target'), n_targets=targets,
                      aggregate_function=d.choice(['SUM', 'AVERAGE', 'MIN', 'MAX']), post_transform='NONE')
    if d.chance(0.4):
        attributes['base_values'] = weights(d, targets)
    x = numbers(d, (rows, features), 'whole')
    if x.dtype.kind == 'f' and d.chance(0.3):
        x = np.where(d.random.random(x.shape) < 0.2, np.asarray(np.nan, x.dtype), x)
    return d.case([x], attributes, outputs=[FLOAT], scale=4, judges=('runtime',))


FAMILY = {'LabelEncoder': label_encoder, 'Imputer': imputer, 'OneHotEncoder': one_hot_encoder, 'Binarizer': binarizer,
          'Scaler': scaler, 'Normalizer': normalizer, 'ArrayFeatureExtractor': feature_extractor,
          'FeatureVectorizer': feature_vectorizer, 'LinearRegressor': linear_regressor,
          'LinearClassifier': linear_classifier, 'TreeEnsembleRegressor': tree_regressor}
