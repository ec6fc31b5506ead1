# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Draws the curves of a device, and where they cross."""
import shutil
import subprocess
from pathlib import Path

from curves import BEYOND, SMALLEST
from model import lines
from tools import Failed

GNUPLOT = """
set terminal pngcairo size 900,600
set output '%(png)s'
set title 'tagrv over %(title)s: time of one message by protocol' noenhanced
set xlabel 'bytes'
set ylabel 'half round trip (us)'
set logscale xy
set format x '%%.0s%%c'
set key left top
set grid
%(marks)s
plot %(plots)s
"""


def script(png, device, values, marks):
    """marks: (size or None, text) of vertical lines."""
    names = [curve.name for curve in device.curves]
    data = ''.join(f'$d{i} << EOD\n' + ''.join(f'{s} {t * 1e6}\n' for s, t in device.values(name).items()) + 'EOD\n'
                   for i, name in enumerate(names))
    plots = [f"$d{i} with linespoints title '{name}{', memory not registered' if name == 'pipeline' else ''}'"
             for i, name in enumerate(names)]
    for name, (fixed, slope) in lines(values, device.max_packet).items():
        if name in ('eager', 'get'):
            plots.append(f"[{SMALLEST}:{device.eager_limit * BEYOND}] ({fixed} + x * {slope}) * 1e6 "
                         f"with lines dashtype 2 title '{name}, model'")
    drawn = [f"set arrow {i} from {x}, graph 0 to {x}, graph 1 nohead lc {i + 4}\n"
             f"set label {i} '{text} {x}' at {x}, graph {0.05 * i} offset 1,0"
             for i, (x, text) in enumerate(marks, 1) if x]
    return data + GNUPLOT % {'png': png.replace("'", ''), 'title': device.title, 'marks': '\n'.join(drawn),
                             'plots': ', \\\n     '.join(plots)}


def require_gnuplot():
    if not shutil.which('gnuplot'):
        raise Failed('gnuplot is missing (apt-get install gnuplot, or use --no-png)')


def require_file(png):
    """Raises OSError if this file cannot be written."""
    path = Path(png).resolve()      # of a link, the file that it names
    was_there = path.exists()
    with open(path, 'ab'):
        pass
    if not was_there:
        path.unlink()


def draw(png, device, values, marks):
    try:
        # Where gnuplot cannot open its file, the picture goes to standard output.
        subprocess.run(['gnuplot'], input=script(png, device, values, marks), text=True, check=True,
                       stdout=subprocess.DEVNULL)
    except subprocess.CalledProcessError as err:
        raise Failed(f'gnuplot cannot draw {png}') from err
