# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Functions that make clean roots of Debian and run commands in them, for util/package and util/clean-root. To be sourced; the
# caller sources common.sh and sets 'roots', the folder that has the roots, and 'suite', the release, or '' for this machine's.

: "${roots:?}" "${suite=}"

# Release of this machine's distribution.
own_suite()
{
	# shellcheck source=/dev/null
	(. /etc/os-release && echo "${VERSION_CODENAME:-}")
}

# To be called before the other functions.
choose_suite()
{
	[ "$(id -u)" = 0 ] || die 'only root can make the roots: run it as root'
	[ -n "$suite" ] || suite=$(own_suite)
	[ -n "$suite" ] || die 'this release has no name: --suite NAME'
}

# What debootstrap and chroot make of what is mounted is only seen by the processes that they start: nothing stays mounted.
# usage: in_root NAME COMMAND...; runs the command without any variable of this machine but those that name a proxy.
in_root()
{
	local root=$roots/$1 name
	local -a proxies=()
	shift
	for name in http_proxy https_proxy ftp_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY; do
		[ -z "${!name:-}" ] || proxies+=("$name=${!name}")
	done
	# shellcheck disable=SC2016 # for the shell
	unshare --mount --propagation private sh -c '
		root=$1
		shift
		for dir in proc sys dev; do mount --rbind "/$dir" "$root/$dir"; done
		exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 "$@"' \
		in_root "$root" "${proxies[@]}" "$@"
}

# usage: apt_in ROOT ARGUMENT...
apt_in()
{
	local root=$1
	shift
	in_root "$root" env DEBIAN_FRONTEND=noninteractive apt-get -qy -o Dpkg::Use-Pty=0 "$@"
}

# usage: sources_of RELEASE; prints 'URI RELEASE COMPONENT' for each of the distribution's sources of binary packages in
# /etc/apt/sources.list and sources.list.d, as apt-get reads them: first those of the release itself, then its updates.
sources_of()
{
	# shellcheck disable=SC2016 # for apt-get
	apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Created-By: Packages' | sort -u |
		awk -v suite="$1" '
			$4 !~ "^(Debian|Ubuntu)$" || $3 !~ "^(main|universe)$" { next }
			{ $0 = $1 " " $2 " " $3 }
			$2 == suite { own = own $0 "\n" }
			$2 ~ "^" suite "-(updates|security)$" { more = more $0 "\n" }
			END { printf "%s%s", own, more }'
}

# The mirror of this machine's release has the others, too. apt-get knows sources only when it has fetched their lists, which images of
# containers often lack.
sources_of_suite()
{
	local sources
	[ -n "$(sources_of "$(own_suite)")" ] || apt-get -q update >&2
	sources=$(sources_of "$suite")
	[ -n "$sources" ] || sources=$(sources_of "$(own_suite)" | sed "s/ $(own_suite)\(-[a-z]*\)\{0,1\} / $suite\1 /")
	echo "$sources"
}

# usage: is_complete NAME; whether make_root has made it, of this suite.
is_complete()
{
	[ "$(cat "$roots/$1/complete" 2>&1)" = "$suite" ]
}

# usage: make_root NAME; the smallest system of the suite, up to date. One that is complete is left as it is.
make_root()
{
	local root=$roots/$1 sources mirror
	! is_complete "$1" || return 0
	sources=$(sources_of_suite)
	mirror=${sources%% *}
	[ -n "$mirror" ] || die "no source of $suite in /etc/apt/sources.list or sources.list.d"
	# The roots are thrown away: nothing needs to be safe on the disk.
	DPKG_FORCE=unsafe-io debootstrap --variant=minbase "$suite" "$root" "$mirror"
	sed 's/^/deb /' <<<"$sources" >"$root/etc/apt/sources.list"
	cat >"$root/etc/apt/apt.conf.d/10package" <<-END
	APT::Install-Recommends "false";
	Acquire::Languages "none";
	Dpkg::Options { "--force-unsafe-io"; };
	END
	apt-config dump | grep -E '^Acquire::(http|https)::[Pp]roxy(::[^ ]+)? ' >"$root/etc/apt/apt.conf.d/20proxy" || true
	cp /etc/resolv.conf /etc/hosts "$root/etc/"
	in_root "$1" apt-get -q -o APT::Update::Error-Mode=any update
	apt_in "$1" dist-upgrade
	echo "$suite" >"$root/complete"
}
