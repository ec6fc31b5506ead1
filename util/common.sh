# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Functions that util/check, util/demo and compare-verbs share: devices, packages
# and incremental builds. To be sourced; the caller sets 'tool' (its own name), 'top'
# (the source tree) and, for packages, 'install' (0 or 1).

die()
{
	printf '%s: %s\n' "${tool:?}" "$*" >&2
	exit 1
}

have()
{
	command -v "$1" >/dev/null 2>&1
}

# Prints the RDMA devices that tagrv can use: InfiniBand or RoCE (iWARP and EFA have another node type) with an active port.
active_devices()
{
	local device port
	for device in /sys/class/infiniband/*; do
		grep -qs '^1:' "$device/node_type" || continue
		for port in "$device"/ports/*; do
			grep -qs ': ACTIVE$' "$port/state" && grep -qsE '^(InfiniBand|Ethernet)$' "$port/link_layer" || continue
			echo "${device##*/}"
			break
		done
	done
}

# --- packages -----------------------------------------------------------------

# Package of Debian and Ubuntu -> a test that succeeds when it is installed.
declare -A needs=(
	[autoconf]='have autoreconf'
	[automake]='have automake'
	[binutils]='have nm'
	[ccache]='have ccache'
	[clang]='have clang'
	[debootstrap]='have debootstrap'
	[gcc]='have gcc'
	[gcc-aarch64-linux-gnu]='have aarch64-linux-gnu-gcc'
	[gdb]='have gdb'
	[libc6-dev-arm64-cross]='[ -e /usr/aarch64-linux-gnu/include/stdio.h ]'
	[libc6-dev]='[ -e /usr/include/stdio.h ]'
	[libtool]='have libtoolize'
	[lintian]='have lintian'
	[libclang-rt-dev]='have clang && compgen -G "$(clang -print-resource-dir)/lib/*/libclang_rt.fuzzer*"'
	[make]='have make'
	[pkg-config]='have pkg-config'
	[libfabric-dev]='pkg-config --exists libfabric'
	[libfabric-bin]='have fi_info && have fi_pingpong'
	[libibverbs-dev]='pkg-config --exists libibverbs'
	[libcriterion-dev]='pkg-config --exists criterion'
	[systemtap-sdt-dev]='[ -e /usr/include/sys/sdt.h ] || compgen -G "/usr/include/*/sys/sdt.h"'
	[gnuplot-nox]='have gnuplot'
	[libjansson-dev]='pkg-config --exists jansson'
	[libncurses-dev]='pkg-config --exists ncursesw'
	[nettle-dev]='pkg-config --exists nettle'
	[uthash-dev]='[ -e /usr/include/uthash.h ]'
	[pandoc]='have pandoc'
	[perl]='have perl'
	[python3]='have python3'
	[python3-yaml]='python3 -c "import yaml"'
	[qemu-user]='have qemu-aarch64'
	[shellcheck]='have shellcheck'
	[xz-utils]='have xz'
	[openmpi-bin]='have mpirun.openmpi'
	[libopenmpi-dev]='have mpicc.openmpi'
	[hpcc]='have hpcc'
	[netpipe-openmpi]='have NPopenmpi'
)

# shellcheck disable=SC2034 # for the caller
build_packages=(autoconf automake binutils gcc libc6-dev libtool make pkg-config
	libfabric-dev libibverbs-dev libjansson-dev libncurses-dev nettle-dev uthash-dev)

# usage: missing_of PACKAGE...; prints those that are missing
missing_of()
{
	local package
	for package; do
		eval "${needs[$package]}" >/dev/null 2>&1 || echo "$package"
	done
}

# Prints the missing packages that the virtual machine needs.
missing_of_vm()
{
	"${top:?}/util/rxe-vm" --packages | while read -r package; do
		dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q ' installed$' || echo "$package"
	done
}

apt_install()
{
	local as_root=()
	if [ "$(id -u)" != 0 ]; then
		have sudo || die "not root, and no sudo; as root: apt-get install --no-install-recommends $*"
		as_root=(sudo)
		[ -t 0 ] || as_root=(sudo -n)
	fi
	local apt=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o Dpkg::Use-Pty=0)
	"${apt[@]}" install -y --no-install-recommends "$@" </dev/null >/dev/null 2>&1 && return
	echo 'updating the package lists'
	"${apt[@]}" update </dev/null >/dev/null 2>&1 || echo 'apt-get update had problems'
	"${apt[@]}" install -y --no-install-recommends "$@" </dev/null >/dev/null ||
		die "cannot install: $*"
}

# usage: require_packages PACKAGE...; installs them, or with install=0 names them and stops
require_packages()
{
	local missing
	mapfile -t missing < <(printf '%s\n' "$@" | sort -u | sed '/^$/d')
	[ ${#missing[@]} -gt 0 ] || return 0
	have apt-get || die "please install what Debian calls: ${missing[*]}"
	[ "${install:?}" = 1 ] || die "missing packages; as root: apt-get install --no-install-recommends ${missing[*]}"
	echo "installing ${missing[*]}"
	apt_install "${missing[@]}"
}

# --- build --------------------------------------------------------------------

bootstrap()
{
	[ -x "$top/configure" ] || (cd "$top" && ./autogen.sh)
}

# usage: configure_in DIRECTORY ARGUMENT...; does nothing if DIRECTORY was configured with the same arguments before
configure_in()
{
	local dir=$1
	shift
	# In a source tree that is configured itself, 'configure' refuses to run for other directories.
	[ ! -e "$top/config.status" ] || die 'the tree itself is configured: run make distclean there first'
	mkdir -p "$dir"
	[ -f "$dir/Makefile" ] && [ "$(cat "$dir/.configured" 2>/dev/null)" = "$*" ] && return
	(cd "$dir" && "$top/configure" "$@") || return 1
	echo "$*" >"$dir/.configured"
}
