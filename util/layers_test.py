# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Proves that check_layers finds each kind of violation, in small trees that have them: check_layers --self-test."""
import os
import re
import subprocess
import tempfile
from pathlib import Path

from layers import BACK_END, LEVELS, MAY_INCLUDE, SRC, level_of
from objects import ObjectError, read_calls, read_objects

# File, its text, how what must be said about it begins (None: nothing must be said).
CASES = [
    ('prov/tagrv/src/core/a.h', '', None),
    ('prov/tagrv/src/core/b.c', '#include "core/a.h"\n#include <stdio.h>\n', None),
    ('prov/tagrv/src/core/c.c', '#include "match/m.h"\n', ':1: core/ must not use match/'),
    ('prov/tagrv/src/core/d.c', '\n\n#include "a.h"\n', ':3: "a.h" does not name its layer'),
    ('prov/tagrv/src/core/e.c', '#include "core/gone.h"\n', ':1: "core/gone.h" is no file'),
    ('prov/tagrv/src/core/f.c', '#include "config.h"\n', None),
    ('prov/tagrv/src/match/m.h', '#include "core/a.h"\n', None),
    ('prov/tagrv/src/match/m_priv.h', '', None),
    ('prov/tagrv/src/match/m.c', '#include "match/m_priv.h"\n#include <uthash.h>\n', None),
    ('prov/tagrv/src/auth/a.c', '#include "core/a.h"\n#include <nettle/hmac.h>\n', None),
    ('prov/tagrv/src/auth/b.c', '#include "xport/xport.h"\n', ':1: auth/ must not use xport/'),
    ('prov/tagrv/src/match/mac.c', '#include <nettle/hmac.h>\n', ':1: <nettle/hmac.h> belongs to auth/'),
    ('prov/tagrv/src/match/n.c', '#include "xport/xport.h"\n', ':1: match/ must not use xport/'),
    ('prov/tagrv/src/match/o.c', '# include "proto/p.h"\n', ':1: match/ must not use proto/'),
    ('prov/tagrv/src/xport/xport.h', '', None),
    ('prov/tagrv/src/xport/stubs.h', '', None),
    ('prov/tagrv/src/xport/x.c', '#include "match/m.h"\n', ':1: xport/ must not use match/'),
    ('prov/tagrv/src/xport/y.c', '#include <infiniband/verbs.h>\n', ':1: <infiniband/verbs.h> belongs'),
    ('prov/tagrv/src/xport/z.c', '#include "xport/verbs/v.h"\n', ':1: xport/ must not use xport/verbs/'),
    ('prov/tagrv/src/xport/verbs/v.h', '#include <infiniband/verbs.h>\n#include <rdma/rdma_cma.h>\n', None),
    ('prov/tagrv/src/xport/verbs/v.c', '#include "xport/stubs.h"\n#include "xport/verbs/v.h"\n', None),
    ('prov/tagrv/src/xport/verbs/w.c', '#include "proto/p.h"\n', ':1: xport/verbs/ must not use proto/'),
    ('prov/tagrv/src/xport/loop/l.c', '#include "xport/verbs/v.h"\n', ':1: xport/loop/ must not use xport/verbs/'),
    ('prov/tagrv/src/xport/verbs/tm/t.h', '#include "xport/verbs/v.h"\n#include "xport/stubs.h"\n', None),
    ('prov/tagrv/src/xport/verbs/tm/t.c', '#include "proto/p.h"\n', ':1: xport/verbs/tm/ must not use proto/'),
    ('prov/tagrv/src/xport/verbs/x.c', '#include "xport/verbs/tm/t.h"\n', ':1: xport/verbs/ must not use xport/verbs/tm'),
    ('prov/tagrv/src/proto/p.h', '#include "match/m.h"\n#include "xport/xport.h"\n', None),
    ('prov/tagrv/src/proto/p.c', '#include <rdma/rdma_cma.h>\n', ':1: <rdma/rdma_cma.h> belongs'),
    ('prov/tagrv/src/proto/q.c', '#include "xport/stubs.h"\n', ':1: proto/ may use xport/numbers.h, xport/taglist.h, xport/xport.h only'),
    ('prov/tagrv/src/proto/r.c', '#include "match/m_priv.h"\n', ':1: match/m_priv.h is private'),
    ('prov/tagrv/src/proto/s.c', '#include "api/f.h"\n', ':1: proto/ must not use api/'),
    ('prov/tagrv/src/proto/t.h', '#include <uthash.h>\n', ':1: <uthash.h> in a header'),
    ('prov/tagrv/src/api/f.h', '#include "engine/e.h"\n#include "xport/xport.h"\n', None),
    ('prov/tagrv/src/api/g.c', '#include "api/info/i_priv.h"\n', ':1: api/info/i_priv.h is private'),
    ('prov/tagrv/src/api/h.c', '#include "wire/w.h"\n', ':1: api/ must not use wire/'),
    ('prov/tagrv/src/api/info/i_priv.h', '#include "api/nosys/n.h"\n', None),
    ('prov/tagrv/src/api/info/i.c', '#include "api/f.h"\n', ':1: api/info/ must not use api/'),
    ('prov/tagrv/src/api/nosys/n.h', '', None),
    ('prov/tagrv/src/api/nosys/o.c', '#include "proto/p.h"\n', ':1: api/nosys/ must not use proto/'),
    ('prov/tagrv/src/engine/e.h', '#include "proto/p.h"\n#include "object/o.h"\n#include "wire/w.h"\n', None),
    ('prov/tagrv/src/engine/f.c', '#include "api/f.h"\n', ':1: engine/ must not use api/'),
    ('prov/tagrv/src/proto/rndv/r.h', '#include "object/o.h"\n', None),
    ('prov/tagrv/src/proto/rndv/r.c', '#include "proto/p.h"\n', ':1: proto/rndv/ must not use proto/'),
    ('prov/tagrv/src/proto/packet/k.c', '#include "proto/rndv/r.h"\n', ':1: proto/packet/ must not use proto/rndv/'),
    ('prov/tagrv/src/proto/u.c', '#include "engine/e.h"\n', ':1: proto/ must not use engine/'),
    ('prov/tagrv/src/object/o.h', '#include "reg/r.h"\n', None),
    ('prov/tagrv/src/object/p.c', '#include "proto/p.h"\n', ':1: object/ must not use proto/'),
    ('prov/tagrv/src/object/q.c', 'int tagrv_q_ops;\n\nuse(&tagrv_loop_ops);\n', ':3: tagrv_loop_ops: only'),
    ('prov/tagrv/src/wire/w.h', '', None),
    ('prov/tagrv/src/wireup/w.c', '#include "object/o.h"\n', ':1: wireup/ must not use object/'),
    ('prov/tagrv/src/xport/xport.c', 'use(&tagrv_loop_ops, &tagrv_verbs_ops);\n', None),
    ('prov/tagrv/src/xport/loop/m.c', 'tagrv_loop_ops = { 0 };\n', None),
    ('prov/tagrv/src/xport/loop/n.c', 'use(&tagrv_verbs_ops);\n', ':1: tagrv_verbs_ops: only'),
    ('prov/tagrv/src/reg/r.h', '', None),
    ('prov/tagrv/src/select/s.c', '#include "reg/r.h"\n', ':1: select/ must not use reg/'),
    ('prov/tagrv/src/extra/g.c', '', ':1: extra/ is no layer'),
    ('fabtests/unit/api/info/test_i.c', '#include "api/info/i_priv.h"\n', None),
    ('fabtests/unit/match/test_q.c', '', None),
    ('fabtests/unit/match/test_m.c', '#include "match/m_priv.h"\n', None),
    ('fabtests/unit/proto/test_p.c', '#include "match/m_priv.h"\n', ':1: match/m_priv.h is private'),
    ('fabtests/common/c.h', '#include "match/m.h"\n', None),
    ('fabtests/functional/x.c', '#include "core/a.h"\n', ':1: functional/ uses public headers only'),
    ('prov/tagrv/src/proto/p_priv.h', '', None),
    ('fabtests/stress/sim.h', '#include "proto/p_priv.h"\n#include "xport/stubs.h"\n', None),
    ('fabtests/stress/sim_x.c', '#include "sim.h"\n', None),
    ('fabtests/stress/z.c', '#include "proto/p.h"\n', ':1: stress/ uses public headers only'),
    ('fabtests/benchmarks/matching/m.c', '#include "match/m.h"\n', None),
    ('fabtests/benchmarks/matching/n.c', '#include "match/m_priv.h"\n', ':1: match/m_priv.h is private'),
    ('fabtests/benchmarks/b.c', '#include "match/m.h"\n', ':1: benchmarks/ uses public headers only'),
    ('fabtests/examples/e.c', '#include "xport/stubs.h"\n#include "core/a.h"\n', None),
    ('fabtests/examples/f.c', '#include "match/m.h"\n', ':1: xport/example/ must not use match/'),
    ('fabtests/functional/y.c', '#include "x.h"\n', None),
]
UNLISTED = 'prov/tagrv/src/core/forgotten.c'
# Not in the table of files without a test of their name. The first three have a test; that of q.c stands elsewhere.
NO_ROW = {'prov/tagrv/src/match/m.c', 'prov/tagrv/src/api/info/i.c', 'prov/tagrv/src/proto/p.c',
          'prov/tagrv/src/proto/q.c', UNLISTED}
# Rows at the end of that table, and what must be said about each.
ROWS = [
    ('| `match/m.c` | `unit/match/test_m.c` |', 'match/m.c has a test of its own name'),
    ('| `proto/gone.c` | `unit/match/test_m.c` |', 'proto/gone.c is no file of prov/tagrv/src'),
    ('| `reg/untested.c` | `unit/gone.c`, `unit/match/test_m.c` |', 'unit/gone.c is no file of fabtests'),
    ('| `reg/unnamed.c` | many |', 'no test is named for reg/unnamed.c'),
]
WITH_ROWS = ['prov/tagrv/src/reg/untested.c', 'prov/tagrv/src/reg/unnamed.c']


def covered_table():
    """Text of fabtests/README.md, and what must be said about it."""
    names = sorted(name[len(str(SRC)) + 1:] for name, _, _ in CASES
                   if name.startswith(str(SRC)) and name.endswith('.c') and name not in NO_ROW)
    lines = ['# Tests', '', '| source | covered by |', '|---|---|']
    lines += [f'| `{name}` | `unit/match/test_m.c` |' for name in names]
    wanted = {f'fabtests/README.md:{len(lines) + i}: {said}' for i, (_, said) in enumerate(ROWS, 1)}
    wanted.add('fabtests/README.md:5: the rows of tests are not sorted')
    return '\n'.join(lines + [row for row, _ in ROWS]) + '\n', wanted


def write(tree, files):
    for name, text in files.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)


def build_tree(tree, table):
    write(tree, {name: text for name, text, _ in CASES})
    write(tree, {name: '' for name in [UNLISTED, *WITH_ROWS]})
    listed = ' '.join([name for name, _, _ in CASES] + WITH_ROWS)
    write(tree, {'prov/tagrv/Makefile.include': listed + ' prov/tagrv/src/core/gone.c',
                 'fabtests/Makefile.include': listed, 'fabtests/README.md': table})


def compare(wanted, violations):
    """Prints what was not said and what should not have been; returns whether there is either."""
    said = [f'{path}:{line}: {text}' for path, line, text in violations]
    missed = [w for w in wanted if not any(s.startswith(w) for s in said)]
    false = [s for s in said if not any(s.startswith(w) for w in wanted)]
    for text in missed:
        print(f'not found: {text}')
    for text in false:
        print(f'false alarm: {text}')
    return bool(missed or false)


def test_includes(check):
    table, wanted = covered_table()
    wanted |= {name + said for name, _, said in CASES if said}
    wanted |= {UNLISTED + ':1: prov/tagrv/Makefile.include does not list it',
               UNLISTED + ':1: no unit test of this name, and no row in fabtests/README.md',
               'prov/tagrv/src/proto/q.c:1: no unit test of this name, and no row in fabtests/README.md (unit/match/',
               'prov/tagrv/Makefile.include:1: prov/tagrv/src/core/gone.c does not exist'}
    with tempfile.TemporaryDirectory() as name:
        build_tree(Path(name), table)
        return compare(wanted, check(Path(name)))


def test_table():
    """What a folder may include stands below it, so that no includes of folders form a circle."""
    wrong = [(folder, used) for folder, uses in MAY_INCLUDE.items() for used in uses
             if level_of(folder) >= level_of(used)]
    for folder, used in wrong:
        print(f'layers.py lets {folder}/ include {used}/, which is not below it')
    missing = {f for level in LEVELS for f in level} ^ set(MAY_INCLUDE)
    for folder in missing:
        print(f'layers.py has {folder}/ in one table only')
    return bool(wrong or missing or BACK_END not in MAY_INCLUDE)


# --- calls ------------------------------------------------------------------------------------------------------------

# File, its text, what must be said about it.
CALL_CASES = [
    ('core/low.c', 'int tagrv_low(void) { return 1; }', None),
    ('match/mid.c', 'int tagrv_low(void);\nint tagrv_mid(void) { return tagrv_low(); }', None),
    ('core/up.c', 'int tagrv_mid(void);\nint tagrv_up(void) { return tagrv_mid(); }',
     ':1: tagrv_up uses tagrv_mid of match/mid.c: core/ must not call match/'),
    ('core/table.c', 'int tagrv_mid(void);\nint (*const tagrv_table[])(void) = {\ntagrv_mid };',
     ':1: tagrv_table uses tagrv_mid of match/mid.c: core/ must not call match/'),
    ('reg/reg.c', 'int tagrv_low(void);\nint tagrv_reg(void) { return tagrv_low(); }', None),
    ('wireup/side.c', '\nint tagrv_reg(void);\nint tagrv_side(void) { return tagrv_reg(); }',
     ':2: tagrv_side uses tagrv_reg of reg/reg.c: wireup/ must not call reg/'),
    ('object/obj.c', 'int tagrv_mid(void);\nint tagrv_obj(void) { return tagrv_mid(); }', None),
    ('object/up.c', 'int tagrv_pro(void);\nint tagrv_obj_up(void) { return tagrv_pro(); }',
     ':1: tagrv_obj_up uses tagrv_pro of proto/pro.c: object/ must not call proto/'),
    ('proto/pro.c', 'int tagrv_obj(void);\nint tagrv_pro(void) { return tagrv_obj(); }', None),
    ('proto/up.c', 'int tagrv_eng(void);\nint tagrv_pro_up(void) { return tagrv_eng(); }',
     ':1: tagrv_pro_up uses tagrv_eng of engine/eng.c: proto/ must not call engine/'),
    ('engine/eng.c', 'int tagrv_pro(void);\nint tagrv_eng(void) { return tagrv_pro(); }', None),
    ('api/api.c', 'int tagrv_info(void);\nint tagrv_api(void) { return tagrv_info(); }', None),
    ('api/info/info.c', 'int tagrv_no(void);\nint tagrv_info(void) { return tagrv_no(); }', None),
    ('api/info/up.c', 'int tagrv_api(void);\nint tagrv_info_up(void) { return tagrv_api(); }',
     ':1: tagrv_info_up uses tagrv_api of api/api.c: api/info/ must not call api/'),
    ('api/nosys/no.c', 'int tagrv_no(void) { return 0; }', None),
    ('xport/stub.c', 'int tagrv_stub(void) { return 0; }', None),
    ('xport/shm/shm.c', 'int tagrv_stub(void);\nint (*const tagrv_shm_ops)(void) = tagrv_stub;\n'
     'int tagrv_shm_own(void) { return 0; }', None),
    ('xport/xport.c', 'extern int (*const tagrv_shm_ops)(void);\nconst void *tagrv_xports = &tagrv_shm_ops;', None),
    ('xport/other.c', 'extern int (*const tagrv_shm_ops)(void);\nconst void *tagrv_other = &tagrv_shm_ops;',
     ':1: tagrv_other uses tagrv_shm_ops of xport/shm/shm.c: xport/ must not call xport/shm/'),
    ('xport/loop/loop.c', 'int tagrv_shm_own(void);\nint tagrv_loop(void) { return tagrv_shm_own(); }',
     ':1: tagrv_loop uses tagrv_shm_own of xport/shm/shm.c: xport/loop/ must not call xport/shm/'),
    ('xport/verbs/verbs.c', 'int tagrv_mid(void);\nint tagrv_verbs(void) { return tagrv_mid(); }',
     ':1: tagrv_verbs uses tagrv_mid of match/mid.c: xport/verbs/ must not call match/'),
    ('xport/verbs/tm/tm.c', 'int tagrv_verbs_buf(void);\nint tagrv_verbs_tm_own(void) { return tagrv_verbs_buf(); }\n'
     'int (*const tagrv_verbs_tm_ops)(void) = tagrv_verbs_tm_own;', None),
    ('xport/verbs/verbs_buf.c', 'int tagrv_low(void);\nint tagrv_verbs_buf(void) { return tagrv_low(); }', None),
    ('xport/verbs/verbs_list.c', 'extern int (*const tagrv_verbs_tm_ops)(void);\nint tagrv_verbs_tm_own(void);\n'
     'const void *tagrv_list = &tagrv_verbs_tm_ops;\nint tagrv_list_own(void) { return tagrv_verbs_tm_own(); }',
     ':2: tagrv_list_own uses tagrv_verbs_tm_own of xport/verbs/tm/tm.c: xport/verbs/ must not call xport/verbs/tm/'),
    ('xport/verbs/verbs_other.c', 'extern int (*const tagrv_verbs_tm_ops)(void);\n'
     'const void *tagrv_verbs_other = &tagrv_verbs_tm_ops;',
     ':1: tagrv_verbs_other uses tagrv_verbs_tm_ops of xport/verbs/tm/tm.c: xport/verbs/ must not call xport/verbs/tm/'),
    ('select/sel.c', 'int tagrv_shm_own(void);\nint tagrv_sel(void) { return tagrv_shm_own(); }',
     ':1: tagrv_sel uses tagrv_shm_own of xport/shm/shm.c: select/ must not call xport/shm/'),
]
CIRCLES = ['api, api/info', 'core, match', 'engine, object, proto', 'xport, xport/shm', 'xport/verbs, xport/verbs/tm']


def compile_to(build, tree, source, *flags):
    """Puts the object where libtool does."""
    output = build / SRC / Path(source).parent / '.libs' / f'libtagrv_la-{Path(source).stem}.o'
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run([*os.environ.get('CC', 'cc').split(), '-O1', *flags, '-c', '-o', output, tree / SRC / source],
                   check=True)


def refused(tree, build, text):
    """Whether read_objects() gives up, with this text."""
    try:
        read_objects(tree, build)
    except ObjectError as err:
        if re.search(text, str(err)):
            return True
    print(f'not found: {text}')
    return False


def test_unbuilt(tree, build):
    """Objects that say nothing about the sources are refused."""
    source = tree / SRC / 'core/low.c'
    made = source.stat().st_mtime
    os.utime(source, (made + 3600, made + 3600))
    old = refused(tree, build, r'libtagrv_la-low\.o is older than prov/tagrv/src/core/low\.c')
    os.utime(source, (made, made))
    write(tree, {SRC / 'core/unbuilt.c': ''})
    unbuilt = refused(tree, build, r'no object file of prov/tagrv/src/core/unbuilt\.c')
    compile_to(build, tree, 'core/unbuilt.c', '-flto')
    return not (old and unbuilt and refused(tree, build, 'LTO code only|is no 64-bit .*-flto'))


def test_calls(check_calls):
    wanted = {f'{SRC / name}{said}' for name, _, said in CALL_CASES if said}
    wanted |= {f'{SRC}:1: these folders call each other in a circle: {names}' for names in CIRCLES}
    with tempfile.TemporaryDirectory() as name:
        tree, build = Path(name) / 'tree', Path(name) / 'build'
        write(tree, {SRC / source: text for source, text, _ in CALL_CASES})
        for source, _, _ in CALL_CASES:
            compile_to(build, tree, source)
        calls = list(read_calls(read_objects(tree, build)))
        wrong = compare(wanted, check_calls(tree, calls))
        return test_unbuilt(tree, build) or wrong


def self_test(check, check_calls):
    """Exit status of check_layers --self-test."""
    return 1 if any([test_table(), test_includes(check), test_calls(check_calls)]) else 0
