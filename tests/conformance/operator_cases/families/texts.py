"""Ops of strings, and of n-grams."""
import numpy as np

from case import Input
from draw import TEXT, Undefined

WORDS = ['a', 'b', 'the', 'The', 'THE', 'Über', 'STRASSE', 'ärger', 'łÓDŹ', '', 'a b', '日本', 'é']
SPLIT = ['a,b', 'a,,b', ',a', 'a,', '', ' ', 'a b  c', '  a b', 'a\tb\nc', 'no', 'a--b', '--', 'ä,ö', 'a, b',
         ',,,', 'x,y,z,w']
PATTERNS = [r'[a-z]+', r'.*', r'', r'(a|b)*c?', r'\d{2,3}', r'[^@]+@[a-z]+\.(com|org)', r'\w+\s\w+',
            r'(?i)abc', r'a.c', r'[äö]+', r'.', r'(?s).*', r'\bab\b', r'a{0,2}b+', r'^a$', r'x?y*?z',
            r'(?i:a)BC', r'(?s-i:A.C|a.c)', r'(?m:a$\n^c)', r'(?i)Ä[ÖX]']
MATCHED = ['abc', 'ABC', 'a', 'b', 'aabbc', '12', '1234', 'me@mail.com', 'me@@mail.com', 'two words', '', 'a\nc', 'ä',
           'äö', '日', 'ab', 'aab', 'xyz', 'yyz', 'abcabc']


def joined(d):
    shape = d.shape()
    first, second = (shape, d.broadcast(shape)) if d.chance(0.5) else (d.broadcast(shape), d.broadcast(shape))
    return d.case([d.values(TEXT, first), d.values(TEXT, second)], outputs=[TEXT])


def split(d):
    attributes = {'delimiter': d.choice([',', ' ', '--', '', 'ä'])} if d.chance(0.8) else {}
    if d.chance(0.5):
        attributes['maxsplit'] = d.choice([0, 1, 2, 10]) if d.chance(0.8) else None
    x = d.texts(d.shape(most=3, empty=False)[:6], SPLIT)
    judges = ('reference',)  # ONNX Runtime finds no part in an empty string, where Python's split finds one
    return d.case([x], attributes, outputs=[TEXT, np.dtype(np.int64)], judges=judges)


def matched(d):
    return d.case([d.texts(d.shape(), MATCHED)], {'pattern': d.choice(PATTERNS)}, outputs=[np.dtype(bool)])


def normalised(d):
    count = d.choice([1, 2, 5, 9])
    shape = (count,) if d.chance(0.5) else (1, count)
    attributes = {'case_change_action': d.choice(['LOWER', 'UPPER', 'NONE'])} if d.chance(0.7) else {}
    attributes['is_case_sensitive'] = d.choice([0, 1])
    stop = [d.choice(WORDS) for _ in range(d.integer(0, 3))]
    if stop:
        attributes['stopwords'] = stop
    x = d.texts(shape, WORDS)
    return d.case([x], attributes, outputs=[TEXT], oracle=lambda run: [without_words(x, stop, **attributes)])


def without_words(x, stop, is_case_sensitive, case_change_action='NONE', stopwords=()):
    """StringNormalizer's definition; letters change one by one, so that ß stays."""
    fold = (lambda text: text) if is_case_sensitive else str.lower
    kept = [text for text in x.ravel() if fold(text) not in {fold(word) for word in stop}]
    one = {'LOWER': str.lower, 'UPPER': str.upper, 'NONE': str}[case_change_action]
    changed = [''.join(one(letter) if len(one(letter)) == 1 else letter for letter in text) for text in kept] or ['']
    return np.array(changed, TEXT).reshape((1, -1) if x.ndim == 2 else (-1,))


def term_frequencies(d):
    dtype = d.type('T', texts=True)
    words = ['a', 'b', 'c', 'd'] if dtype == TEXT else [1, 2, 3, 4]
    longest = d.integer(1, 3)
    shortest = d.integer(1, longest)
    grams = [distinct_grams(d, words, length) for length in range(1, longest + 1)]
    counts = [0] + [int(total) for total in np.cumsum([length * len(each) for length, each in enumerate(grams, 1)])][:-1]
    pool = [word for each in grams for gram in each for word in gram]
    number = sum(len(each) for each in grams)
    attributes = {'mode': d.choice(['TF', 'IDF', 'TFIDF']), 'min_gram_length': shortest, 'max_gram_length': longest,
                  'max_skip_count': d.choice([0, 0, 1, 2, 5]), 'ngram_counts': counts,
                  'ngram_indexes': [int(each) for each in d.random.permutation(number)],
                  'pool_strings' if dtype == TEXT else 'pool_int64s': pool}
    if d.chance(0.6):
        attributes['weights'] = [float(weight) for weight in d.random.integers(1, 9, number)]
    shape = (d.choice([1, 2, 5, 12]),) if d.chance(0.5) else (d.choice([1, 2, 3]), d.choice([1, 3, 12]))
    x = d.texts(shape, words) if dtype == TEXT else np.asarray(d.random.integers(1, 6, shape)).astype(dtype)
    # The reference takes the weight that stands where the column is, not the n-gram.
    judges = ('runtime',) if 'weights' in attributes and attributes['mode'] != 'TF' else ('reference', 'runtime')
    return d.case([x], attributes, outputs=[np.dtype(np.float32)], judges=judges)


def distinct_grams(d, words, length):
    return sorted({tuple(d.choice(words) for _ in range(length)) for _ in range(d.integer(1, 4))})


FAMILY = {'StringConcat': joined, 'StringSplit': split, 'RegexFullMatch': matched, 'StringNormalizer': normalised,
          'TfIdfVectorizer': term_frequencies}
