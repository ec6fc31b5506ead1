# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Names in documents: each file, function, constant, struct, field and test that a document names in `backquotes` exists.

  `proto/send.c`, `send.c`   a file of the tree: by its path from the top, prov/tagrv/src, prov/tagrv/docs, fabtests or the
                             document's folder, or by its end, if it is in the folder of sources or tests
  `tagrv_send_next()`        a function: its name, with a bracket behind it, is in the code; the same without tagrv_
  `TAGRV_PKT_FIN`            a word of the code
  `struct tagrv_op`          a struct or enum
  `peer->pending`            a member of struct tagrv_peer; `op->rndv->next`: what follows is a word of the code
  `eager/random_packets`     a unit test, if its suite exists
"""
import fnmatch
import re
from pathlib import Path

SRC = Path('prov/tagrv/src')
CODE = (SRC, Path('fabtests'), Path('include'), Path('util'))
MAKEFILES = ('prov/tagrv/Makefile.include', 'fabtests/Makefile.include')
BASES = (Path('.'), SRC, Path('prov/tagrv'), Path('prov/tagrv/docs'), Path('fabtests'), Path('fabtests/unit'))
# Variables whose struct is tagrv_NAME.
FIELDS = ('op', 'peer', 'lane', 'engine', 'dom', 'rx', 'waker')
FILE = re.compile(r'^[\w.*/-]+\.(c|h|\[ch\]|md|py)$')
COMMENT = re.compile(r'/\*.*?\*/', re.S)
WORD = re.compile(r'\w+')


def members(texts, struct):
    """Members of a struct, those of nested structs left out."""
    bodies = [re.search(rf'^struct {struct} \{{\n(.*?)^\}};', text, re.M | re.S) for text in texts]
    body = next(match.group(1) for match in bodies if match)
    return set(WORD.findall(re.sub(r'struct \{[^{}]*\}', '', body)))


class Code:
    """Files, words and tests of a tree."""

    def __init__(self, tree):
        self.tree = tree
        paths = [p for top in CODE for p in sorted((tree / top).rglob('*.[ch]'))]
        scripts = (tree / 'util').glob('*.py')
        self.files = {str(p.relative_to(tree)) for p in (*paths, *scripts)}
        self.programs = {p.name for top in ('util', 'fabtests') for p in (tree / top).rglob('*') if not p.suffix}
        text = {p: COMMENT.sub('', p.read_text()) for p in paths}
        makefiles = [(tree / name).read_text() for name in MAKEFILES]
        self.words = {word for body in (*text.values(), *makefiles) for word in WORD.findall(body)}
        self.called = {name for body in text.values() for name in re.findall(r'(\w+)\(', body)}
        self.structs = {name for body in text.values() for name in re.findall(r'(?:struct|enum) (\w+) \{', body)}
        self.fields = {name: members(text.values(), f'tagrv_{name}') for name in FIELDS}
        tests = [name for body in text.values() for name in re.findall(r'^\s*Test\((\w+,\s*\w+)', body, re.M)]
        self.tests = {re.sub(r',\s*', '/', name) for name in tests}
        self.suites = {name.split('/')[0] for name in self.tests}
        # Suites whose tests a macro makes: conformance/NAME by ON_ALL(NAME).
        made = {name for body in text.values() for name in re.findall(r'^[A-Z_]+\((?:\w+, )?(\w+)\)', body, re.M)}
        self.made = {f'{suite}/{name}' for suite in ('conformance', 'model') for name in made}

    def has_file(self, name, folder):
        if any(list((self.tree / base).glob(name)) for base in (*BASES, folder)):
            return True
        pattern = '*/' + name.replace('[ch]', 'c')
        return any(fnmatch.fnmatchcase(f, pattern) for f in self.files)

    def has_test(self, name):
        suite = name.split('/')[0]
        return suite not in self.suites or bool(fnmatch.filter(self.tests | self.made, name))


# What stands for a name, or for one that a program makes.
OPEN = re.compile(r'NAME|LAYER|FOLDER|^crash-')


def problem_of(code, name, folder):
    """What is wrong with the text between two backquotes; None: nothing is."""
    if OPEN.search(name):
        return None
    if FILE.match(name):
        return None if code.has_file(name, folder) else 'file'
    if re.match(r'^\w+\(\)$', name):
        plain = name[:-2]
        return None if {plain, 'tagrv_' + plain} & code.called else 'function'
    if re.match(r'^(struct|enum) (tagrv|fi_tagrv|shm|verbs)_\w+$', name):
        return None if name.split()[1] in code.structs else 'definition of'
    if re.match(r'^(tagrv|TAGRV)_[\w]+[a-zA-Z0-9]$', name):
        return None if name in code.words | code.programs else 'name'
    match = re.match(r'^(\w+)((?:->\w+(?:\.\w+)*)+)$', name)
    if match and match.group(1) in FIELDS:
        first, *rest = WORD.findall(match.group(2))
        known = first in code.fields[match.group(1)] and code.words.issuperset(rest)
        return None if known else 'field'
    if re.match(r'^[a-z_]+/[a-z_*]+$', name) and not (code.tree / SRC / name).exists():
        return None if code.has_test(name) else 'test'
    return None


def documents(tree):
    yield from (tree / name for name in ('ARCHITECTURE.md', 'CONTRIBUTING.md', 'README.md', 'fabtests/README.md'))
    yield from sorted((tree / 'prov/tagrv').rglob('*.md'))


def problems(tree):
    code = Code(tree)
    for path in filter(Path.exists, documents(tree)):
        for number, line in enumerate(path.read_text().splitlines(), 1):
            for name in re.findall(r'`([^`]+)`', line):
                what = problem_of(code, name, path.parent.relative_to(tree))
                if what:
                    yield f'{path.relative_to(tree)}:{number}: there is no {what} {name}'
