# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# shellcheck shell=bash
#
# Completion in bash for the tools of tagrv. What a tool takes is read from its own --help, so that nothing here has to follow
# when an option is added; only values that --help does not list are known here. The files beside this one have the names of
# the tools, by which the package bash-completion finds them; without that package: source util/completion/tagrv.bash

# usage: _tagrv_help COMMAND
_tagrv_help()
{
	"${1/#\~/$HOME}" --help 2>/dev/null </dev/null
}

# Lines of --help begin with all names of an option, and two spaces are behind its value.
_tagrv_options()
{
	_tagrv_help "$1" | sed -n 's/^  *\(-.*\)/\1/p' | sed 's/  .*//' | grep -oE -- '(^|[ ,])--?[A-Za-z0-9][A-Za-z0-9-]*' | tr -d ' ,'
}

_tagrv_tests()
{
	echo all
	_tagrv_help "$1" | sed -n '/^Tests:/,$s/^  \([a-z_]*\) .*/\1/p'
}

# usage: _tagrv_named COMMAND OPTION; the list of words in its text, which ends at a bracket, and "or" is before the last one.
_tagrv_named()
{
	_tagrv_help "$1" | sed -n "/^ .*$2 [A-Z]/{N;s/^.*$2 [A-Z]*  *//;s/ (.*//;p}" | tr '\n' ' ' |
		sed 's/:.*//;s/ or / /g' | tr -d ,
}

_tagrv_providers()
{
	fi_info -l 2>/dev/null | sed -n 's/^\([^ ]*\):$/\1/p'
}

_tagrv_devices()
{
	fi_info -p tagrv 2>/dev/null | sed -n 's/^ *domain: //p' | sort -u
}

# usage: _tagrv_words CURRENT WORDS; values in a list follow the last comma.
_tagrv_words()
{
	local before=
	[[ $1 != *,* ]] || before=${1%,*},
	mapfile -t COMPREPLY < <(compgen -P "$before" -W "$2" -- "${1##*,}")
}

# usage: _tagrv_files CURRENT [END]; folders, and files with that end.
_tagrv_files()
{
	compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(compgen -d -- "$1"; [ "${2-}" = / ] || compgen -f -X "!*${2-}" -- "$1")
	mapfile -t COMPREPLY < <(printf '%s\n' "${COMPREPLY[@]}" | sort -u)
}

# usage: _tagrv_value COMMAND OPTION CURRENT; false: the option takes no value that could be listed.
_tagrv_value()
{
	case ${1##*/}$2 in
	tagrv_top-p | tagrv_top--pid) _tagrv_words "$3" "$(pgrep -u "$(id -u)" 2>/dev/null)" ;;
	tagrv_top-s | tagrv_top--sort) _tagrv_words "$3" "$(_tagrv_named "$1" --sort)" ;;
	tagrv_perf-t | tagrv_perf--tests) _tagrv_words "$3" "$(_tagrv_tests "$1")" ;;
	tagrv_perf-p | tagrv_perf--provider | tagrv_perf--compare | tagrv_pingpong-p | tagrv_pingpong--provider)
		_tagrv_words "$3" "$(_tagrv_providers)" ;;
	tagrv_pingpong-m | tagrv_pingpong--mode) _tagrv_words "$3" 'lat bw both rate reg' ;;
	tagrv_perf-d | tagrv_info-d | *--device | *--peer | *--dev-[ab] | *--domain-[ab]) _tagrv_words "$3" "$(_tagrv_devices)" ;;
	*--client) mapfile -t COMPREPLY < <(compgen -A hostname -- "$3") ;;
	*--plot | *--png) _tagrv_files "$3" .png ;;
	tagrv_info-r | *--report | *--profile) _tagrv_files "$3" ;;
	*--build) _tagrv_files "$3" / ;;
	*) return 1 ;;
	esac
}

_tagrv()
{
	local command=${COMP_WORDS[0]} current=${COMP_WORDS[COMP_CWORD]} at=$((COMP_CWORD - 1))
	COMPREPLY=()
	# "=" is a word of its own.
	[ "$current" != = ] || current=
	[ "${COMP_WORDS[at]}" != = ] || at=$((at - 1))
	[[ ${COMP_WORDS[COMP_CWORD]} != = ]] || at=$((COMP_CWORD - 1))
	! _tagrv_value "$command" "${COMP_WORDS[at]}" "$current" || return 0
	if [[ $current == -* ]]; then
		_tagrv_words "$current" "$(_tagrv_options "$command")"
	elif [ "${command##*/}" = tagrv_perf ]; then
		mapfile -t COMPREPLY < <(compgen -A hostname -- "$current")
	fi
}

complete -F _tagrv tagrv_info tagrv_perf tagrv_pingpong tagrv_top tagrv_tune
