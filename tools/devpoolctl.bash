# SPDX-License-Identifier: LGPL-2.1-or-later
# shellcheck shell=bash
#
# Completion of devpoolctl for bash.

_devpoolctl_devices()
{
	local d

	for d in /sys/class/devpool/*; do
		[ ! -e "$d" ] || echo "${d##*/}"
	done
}

# The ids of the pools that the caller may see
_devpoolctl_pools()
{
	devpoolctl pools 2>/dev/null | awk 'NR > 1 { print $2 }' | sort -u
}

# Options with what they take, ids, and devices have an = or a : in them, at which
# bash ends a word.
_devpoolctl()
{
	local cur line words command option

	line=${COMP_LINE:0:COMP_POINT}
	read -ra words <<<"$line"
	[[ $line != *[[:space:]] ]] || words+=('')
	cur=${words[-1]}
	command=${words[1]}
	COMPREPLY=()

	if [ ${#words[@]} -le 2 ]; then
		mapfile -t COMPREPLY < <(compgen -W \
			'list info pools stats trim snapshot --help --version' -- "$cur")
		return
	fi
	case $cur in
	--pool=*)
		# What stands before the last colon is not to be said again.
		cur=${cur#--pool=}
		mapfile -t COMPREPLY < <(compgen -W "$(_devpoolctl_pools)" -- "$cur")
		if [[ $COMP_WORDBREAKS = *:* && $cur = *:* ]]; then
			COMPREPLY=("${COMPREPLY[@]#"${cur%:*}:"}")
		fi
		return
		;;
	--*=*)
		return
		;;
	-*)
		option=--help
		case $command in
		list | info | pools) option+=' --bytes --json' ;;
		stats) option+=' --bytes --json --watch --watch= --count=' ;;
		snapshot) option+=' --bytes --json --pool=' ;;
		esac
		mapfile -t COMPREPLY < <(compgen -W "$option" -- "$cur")
		[[ ${COMPREPLY[*]} != *= ]] || compopt -o nospace
		return
		;;
	esac
	case $command in
	info | pools | stats | trim | snapshot)
		if [[ $cur = */* ]]; then
			compopt -o filenames
			mapfile -t COMPREPLY < <(compgen -f -- "$cur")
		else
			mapfile -t COMPREPLY < <(compgen -W "$(_devpoolctl_devices)" -- "$cur")
		fi
		;;
	esac
}

complete -F _devpoolctl devpoolctl
