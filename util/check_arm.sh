# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Commands of util/check's step aarch64: a build for 64-bit ARM by a cross compiler, whose unit tests an emulator runs. To be
# sourced by util/check.
#
# The libraries for ARM come from Debian, too. Their -dev packages cannot be installed beside those of this machine (some
# would replace each other), so they are unpacked in a folder: apt-get finds them with lists and a state of its own, needs no
# root for that, and changes nothing outside of build/.

: "${top:?}" "${install:?}" "${long:?}" "${jobs:?}"

arm_root=$top/build/aarch64-root
arm_packages=(libc6-dev libfabric-dev libibverbs-dev libjansson-dev libncurses-dev nettle-dev libcriterion-dev uthash-dev)
# Unpacked without what it depends on: of it only headers are used.
arm_headers=(systemtap-sdt-dev)

# What the step runs without --long: programs, and of some only the suites that depend on the processor. They have the order of
# memory accesses (rings, bells, locks, watched words), atomics, the layout of packets and records, floating point, pages.
arm_tests=(
	'core'
	'atomic *@(word|lock)*/*'
	'match @(match|posted|unexpected|place|keytab)/*'
	'reg'
	'auth'
	'select'
	'object'
	'xport @(shm*|watch|loop|multi_blob|verbs_blob|verbs_mem|verbs_check)*/*'
	'wireup @(wireup_rec|wireup_hello|conn)/*'
	'proto @(eager|batch*|intake|credit|prepared|rma_ask|rma_answer)/*'
)
arm_all=(core atomic match reg auth select object xport wireup proto engine api)

# usage: arm_apt ARGUMENT...; apt-get that knows the architecture of ARM only, and keeps all it writes in a folder of build/.
arm_apt()
{
	local dir=$arm_root.apt
	mkdir -p "$dir/state/lists/partial" "$dir/cache/archives/partial"
	: >"$dir/status"
	apt-get -q -o APT::Architecture=arm64 -o APT::Architectures::=arm64 -o APT::Sandbox::User= -o Acquire::Languages=none \
		-o Dir::State="$dir/state" -o Dir::State::status="$dir/status" -o Dir::Cache="$dir/cache" "$@"
}

# Unpacks the libraries for ARM in $arm_root, unless the same ones are there.
unpack_arm()
{
	local package new=$arm_root.new wanted="${arm_packages[*]} ${arm_headers[*]}"
	[ "$(cat "$arm_root/.unpacked" 2>/dev/null)" != "$wanted" ] || return 0
	have apt-get && have dpkg-deb || skip 'no packages for ARM: there is no apt-get'
	[ "$install" = 1 ] || skip 'no packages for ARM in build/ yet; without --no-install the step unpacks them there'
	rm -rf "$new"
	mkdir -p "$new"
	arm_apt update && arm_apt install -d -y --no-install-recommends "${arm_packages[@]}" ||
		skip 'no packages for ARM: apt-get cannot download them'
	(cd "$arm_root.apt/cache/archives" && arm_apt download "${arm_headers[@]}") ||
		skip 'no packages for ARM: apt-get cannot download them'
	for package in "$arm_root".apt/cache/archives/*.deb; do
		dpkg-deb -x "$package" "$new" || return 1
	done
	echo "$wanted" >"$new/.unpacked"
	rm -rf "$arm_root" "$arm_root.apt"
	mv "$new" "$arm_root"
}

# Assertions are on. Little is optimized, and of the tests nothing, which saves more time in compiling than it costs in running.
build_arm()
{
	local dir=$top/build/check-aarch64 cc="aarch64-linux-gnu-gcc --sysroot=$arm_root"
	[ ! -x /usr/lib/ccache/gcc ] || cc="ccache $cc"
	PKG_CONFIG_SYSROOT_DIR=$arm_root PKG_CONFIG_LIBDIR=$arm_root/usr/lib/aarch64-linux-gnu/pkgconfig:$arm_root/usr/share/pkgconfig \
		configure_in "$dir" --host=aarch64-linux-gnu CC="$cc" CFLAGS=-O1 --enable-werror --enable-debug --with-criterion=plain
	make -C "$dir" -j"$jobs" TAGRV_UNIT_CFLAGS=-O0 "$@"
}

# usage: run_arm NAME [FILTER]; runs a unit program and counts its tests.
run_arm()
{
	local out status=0 sum skips
	out=$(env -u LD_LIBRARY_PATH FI_TAGRV_PROFILE=none qemu-aarch64 -L "$arm_root" \
		"$top/build/check-aarch64/fabtests/unit/unit_$1" --jobs "$jobs" --spare 10 ${2:+--filter "$2"} 2>&1) || status=1
	echo "== unit_$1${2:+ $2}"
	sed '/^\[SKIP\]/d' <<<"$out"
	sum=$(sed -n 's/.*Synthesis: Tested: \([0-9]*\) | Passing: \([0-9]*\) .*/\1 \2/p' <<<"$out")
	[ -n "$sum" ] || { counts 0 1; return 1; }
	skips=$(grep -c '^\[SKIP\]' <<<"$out" || true)
	counts "${sum#* }" $((${sum% *} - ${sum#* })) "$skips"
	sed -n 's/^\[SKIP\] [^ ]* //p' <<<"$out" | sort | uniq -c |
		sed "s/^ *\([0-9]*\) \(.*\)/skipped: unit_$1: \1 x \2/"
	[ "${sum% *}" != 0 ] || { echo "unit_$1: no test has this name: $2"; return 1; }
	return $status
}

step_aarch64()
{
	local test name filter status=0 tests=("${arm_tests[@]}") targets=()
	[ "$(uname -m)" != aarch64 ] || skip 'this machine is one: the other steps have tested it'
	have aarch64-linux-gnu-gcc && have qemu-aarch64 ||
		skip 'no cross compiler (apt-get install gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)'
	[ "$long" = 0 ] || tests=("${arm_all[@]}")
	unpack_arm
	for test in "${tests[@]}"; do
		targets+=("fabtests/unit/unit_${test%% *}")
	done
	build_arm prov/tagrv/libtagrv-fi.la "${targets[@]}"
	for test in "${tests[@]}"; do
		read -r name filter <<<"$test"
		run_arm "$name" "$filter" || status=1
	done
	return $status
}
