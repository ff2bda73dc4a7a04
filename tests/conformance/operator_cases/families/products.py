"""Products of matrices, sums of products, determinants."""
import numpy as np

from case import Input
from draw import Undefined

EQUATIONS = ['ij,jk->ik', 'ij,jk', 'bij,bjk->bik', 'ij->ji', 'ii->i', 'ii', 'ij->', 'i,j->ij', 'i,i->', '...ij,...jk->...ik',
             '...ii->...i', 'bn,anm,bm->ba', 'ij,ij->ij', 'i,i', 'ijk,jil->kl', 'i...->...', 'a,b,c->abc', ' ij , jk -> ik ']


def matmul_shapes(d):
    k = d.choice([0, 1, 2, 3, 5, 17]) if d.chance(0.5) else d.choice([1, 2, 3, 4])
    a, b = (d.choice([1, 2, 3, 9]), k), (k, d.choice([1, 2, 3, 33]))
    if d.chance(0.1):
        a = (0, k)
    kind = d.random.random()
    if kind < 0.15:
        return (k,), b
    if kind < 0.3:
        return a, (k,)
    if kind < 0.35:
        return (k,), (k,)
    batch = d.shape(most=3)[:6] if d.chance(0.6) else ()
    return (d.broadcast(batch) if d.chance(0.5) else batch) + a, (d.broadcast(batch) if d.chance(0.5) else batch) + b


def matmul(d):
    first, second = matmul_shapes(d)
    kind = d.choice(['whole', 'whole', 'whole', 'special'])
    return d.case([d.input('T', first, kind), Input(d.values(d.type('T'), second, 'whole'), constant=d.chance(0.5))], scale=64)


def gemm(d):
    m, n, k = (d.choice([1, 2, 3, 9, 17]) for _ in range(3))
    if d.chance(0.15):
        m, n, k = [(0, n, k), (m, 0, k), (m, n, 0)][d.integer(0, 2)]
    dtype = d.type('T')
    attributes = {name: d.choice([0, 1]) for name in ('transA', 'transB') if d.chance(0.6)}
    attributes.update({name: d.choice([0.0, 0.5, 1.0, 2.0]) for name in ('alpha', 'beta') if d.chance(0.5)})
    a = d.values(dtype, (k, m) if attributes.get('transA') else (m, k), 'whole')
    b = d.values(dtype, (n, k) if attributes.get('transB') else (k, n), 'whole')
    c = d.values(dtype, d.broadcast((m, n)), 'whole')
    oracle = None
    if d.version < 7:
        if d.chance(0.5):
            c = d.values(dtype, (m, n), 'whole')
        else:
            attributes['broadcast'] = 1
        oracle = lambda run: run('Gemm', 13, [a, b, c], {key: value for key, value in attributes.items() if key != 'broadcast'})
    if d.version >= 11 and d.chance(0.3):
        c = None
    return d.case([a, Input(b, constant=d.chance(0.5)), c], attributes, scale=64, oracle=oracle)


def random_equation(d):
    """Terms of letters that may meet within and between them."""
    letters_of = lambda: ''.join(d.choice('abcd') for _ in range(d.integer(0 if d.chance(0.1) else 1, 3)))
    terms = [letters_of() for _ in range(d.integer(1, 3))]
    letters = sorted(set(''.join(terms)))
    kept = [letters[at] for at in d.random.permutation(len(letters))[:d.integer(0, len(letters))]]
    return ','.join(terms) + (f"->{''.join(kept)}" if d.chance(0.8) else '')


def einsum(d):
    equation = d.choice(EQUATIONS) if d.chance(0.5) else random_equation(d)
    sizes = {letter: d.choice([0, 1, 2, 3, 5] if d.chance(0.2) else [1, 2, 3, 5]) for letter in 'abcdijklmn'}
    batch = tuple(d.choice([1, 2, 3]) for _ in range(d.integer(0, 2)))
    inputs = []
    for term in equation.split('->')[0].replace(' ', '').split(','):
        shape = ()
        while term:
            shape += batch if term.startswith('...') else (sizes[term[0]],)
            term = term[3:] if term.startswith('...') else term[1:]
        inputs.append(d.values(d.type('T'), shape, 'whole'))
    return d.case(inputs, {'equation': equation}, scale=64)


def det(d):
    n = d.choice([1, 2, 3, 4])
    shape = d.shape(most=2)[:3] + (n, n)
    return d.case([d.input('T', shape, 'whole')], scale=64)


def matmul_integer(d):
    first, second = matmul_shapes(d)
    zeros = [d.values(d.type('T1'), ()) if d.chance(0.6) else None, d.values(d.type('T2'), ()) if d.chance(0.4) else None]
    return d.case([d.input('T1', first, 'special'), Input(d.values(d.type('T2'), second, 'special'), constant=d.chance(0.5))]
                  + zeros, outputs=[np.dtype(np.int32)])


FAMILY = {'MatMul': matmul, 'Gemm': gemm, 'Einsum': einsum, 'Det': det, 'MatMulInteger': matmul_integer}
