# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Makes processes that load libfabric start sooner, for util/check: it starts some ten thousand. To be sourced by it.
#
# Debian's libfabric 1.17 needs libpsm2 and libpsm_infinipath, for adapters of two other makers. Each of them spends 0.1 s,
# when it is loaded, to measure the processor's clock: more than all else that most unit tests do. The check gives libfabric
# libraries of the same names with functions that fail.

: "${top:?}"

# usage: psm_functions LIBFABRIC; prints 'NAME VERSION' for each function of the two that it needs. VERSION may be empty.
psm_functions()
{
	readelf --dyn-syms -W "$1" | sed -n 's/.* UND \(psm2\{0,1\}_[a-z0-9_]*\)@\{0,1\}\([A-Z0-9_.]*\).*/\1 \2/p'
}

# usage: write_psm PREFIX <FUNCTIONS; prints a library whose functions begin with PREFIX. They return an error number, or a
# text where a text is expected.
write_psm()
{
	local name
	while read -r name _; do
		case $name in
		"$1"*get_string*) printf 'const char *%s(void) { return "there is no such adapter"; }\n' "$name" ;;
		"$1"*) printf 'long %s(void) { return 1; }\n' "$name" ;;
		esac
	done
}

# usage: build_psm DIRECTORY LIBFABRIC
build_psm()
{
	local dir=$1 functions version
	functions=$(psm_functions "$2")
	version=$(awk '$1 ~ /^psm2_/ { print $2; exit }' <<<"$functions")
	echo "$functions" | write_psm psm_ >"$dir/psm.c"
	echo "$functions" | write_psm psm2_ >"$dir/psm2.c"
	echo "${version:-PSM2} { global: *; };" >"$dir/psm2.map"
	gcc -w -shared -fPIC -o "$dir/libpsm_infinipath.so.1" -Wl,-soname,libpsm_infinipath.so.1 "$dir/psm.c" &&
		gcc -w -shared -fPIC -o "$dir/libpsm2.so.2" -Wl,-soname,libpsm2.so.2 -Wl,--version-script="$dir/psm2.map" "$dir/psm2.c"
}

# The check is as right without this, and only slower: so nothing here makes it fail.
start_processes_sooner()
{
	local dir=$top/build/start libfabric
	libfabric=$(ldconfig -p | sed -n 's/.*libfabric\.so\.1 .*=> //p' | head -1)
	[ -n "$libfabric" ] && readelf -d "$libfabric" | grep -q 'NEEDED.*libpsm' || return 0
	mkdir -p "$dir"
	build_psm "$dir" "$libfabric" || return 0
	LD_LIBRARY_PATH=$dir LD_BIND_NOW=1 ldd -r "$libfabric" | grep -q 'undefined symbol\|not found\|version.*not' && return 0
	export LD_LIBRARY_PATH=$dir${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
}
