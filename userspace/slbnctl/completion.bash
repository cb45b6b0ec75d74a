# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completion for slbnctl and slbnd. Commands and options are those that the
# programs themselves list in their help. In zsh: autoload bashcompinit.

# The words at the start of the lines of a help, such as "  sport, dport  ...".
_fairpath_words() {
	sed -nE 's/^  (-[^ ,]+(, --?[^ ,]+)*|[a-z][a-z-]*(, [a-z]+)*)( .*)?$/\1/p' |
		tr -d ','
}

_fairpath_reply() {
	mapfile -t COMPREPLY < <(compgen "${@:2}" -- "$1")
}

_slbnctl() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
	local -a path=()
	local n help words

	for ((n = 1; n < COMP_CWORD; n++)); do
		case ${COMP_WORDS[n]} in
		-s | --socket) ((n++)) ;;
		-*) ;;
		*) path+=("${COMP_WORDS[n]}") ;;
		esac
	done
	case $prev in
	-s | --socket | file | generate | fingerprint | metrics)
		_fairpath_reply "$cur" -f
		return
		;;
	dev)
		_fairpath_reply "$cur" -W "$(ls /sys/class/net)"
		return
		;;
	esac
	# Below the commands there are arguments.
	help=$("${COMP_WORDS[0]}" "${path[@]:0:2}" help 2>/dev/null) ||
		help=$("${COMP_WORDS[0]}" "${path[@]:0:1}" help 2>/dev/null)
	words=$(_fairpath_words <<<"$help")
	# The first argument of a link's command is its device.
	if [[ ${path[0]-} == l* && ${#path[@]} -eq 2 ]]; then
		words="dev $(ls /sys/class/net)"
	fi
	_fairpath_reply "$cur" -W "$words"
}

_slbnd() {
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}

	case $prev in
	--config | --socket | --key-file) _fairpath_reply "$cur" -f ;;
	--devices) _fairpath_reply "$cur" -W "$(ls /sys/class/net)" ;;
	--group) _fairpath_reply "$cur" -g ;;
	--log-level) _fairpath_reply "$cur" -W 'error warning info debug' ;;
	--sessions) _fairpath_reply "$cur" -W 'flow pair host prefix/' ;;
	*) _fairpath_reply "$cur" -W "$("${COMP_WORDS[0]}" --help | _fairpath_words)" ;;
	esac
}

complete -F _slbnctl slbnctl
complete -F _slbnd slbnd
