# bash completion of coto. Made by tools/gendocs from src/schema; do not edit.
# shellcheck shell=bash
# These four use cur, the word so far, and head, what stays before it, of _coto.
_coto_words() {
    mapfile -t COMPREPLY < <(compgen -P "$head" -W "$1" -- "$cur")
}
_coto_list() {
    local last=${cur##*,}
    mapfile -t COMPREPLY < <(compgen -P "$head${cur%"$last"}" -W "$1" -- "$last")
}
_coto_paths() {
    compopt -o filenames 2>/dev/null
    mapfile -t COMPREPLY < <(compgen -P "$head" "$1" -- "$cur")
}
_coto_value() {
    case $1 in
    FILE | PATH) _coto_paths -f ;;
    DIR) _coto_paths -d ;;
    FORMAT) _coto_words 'spdx cyclonedx' ;;
    *'|'*) _coto_words "${1//|/ }" ;;
    esac
}
# Flags and operands of coto serve, image, pki and token, as these tell them.
_coto_tool() {
    local verb=$1 sub=$2 prev=$3 rows kind
    local -a call=(coto "$verb" --help)
    if [[ -n $sub ]]; then call=(coto "$verb" "$sub" --help); fi
    rows=$("${call[@]}" 2>/dev/null | sed -n 's/^[ *] \(--[a-z-]*\)\( [^ ][^ ]*\)\{0,1\}.*/\1\2/p')
    kind=$(sed -n "s/^$prev //p" <<<"$rows")
    if [[ $verb$prev =~ ^serve--(allow-)?profile$ ]]; then
        _coto_words 'default antigravity deepresearch enis gemini ia-libre'
    elif [[ $prev == --* && -n $kind ]]; then
        _coto_value "$kind"
    elif [[ $cur == -* ]]; then
        _coto_words "$(cut -d' ' -f1 <<<"$rows") --help"
    elif [[ $verb:$sub =~ ^image:(show|verify|sign|sbom|remove)$ ]]; then
        _coto_words "$(coto image list 2>/dev/null | sed '1d;s/ .*//')"
    elif [[ $prev == "$sub" ]] && kind=$("${call[@]}" 2>/dev/null | sed -n 's/^usage: coto [a-z]* [a-z]* \([a-z0-9]*|[a-z0-9|]*\) .*/\1/p') && [[ -n $kind ]]; then
        _coto_value "$kind"
    elif [[ $verb != serve ]]; then
        _coto_paths -f
    fi
}
_coto_options() {
    local verb=$1 prev=$2
    local flags='--help --lang --env --user --user-name --hostname
        --workdir --modules --cold --timeout --cpu-time --memory
        --swap --cpus --pids --disk --tmp-size --inodes
        --output-limit --on-output-limit --nofile --ptys --fsize --iops
        --copy --mount --tmpfs --artifacts --rootfs --image
        --image-key --images-dir --workspace-writable --noexec --isolation --runtime
        --allow-runtime --require --allow-missing --seccomp --apparmor --cap-add
        --network --network-allow --idmap --report --report-include --prompt-hash
        --prompt-file --code --profile --policy --json --quiet --verbose
        --raw --dry-run'
    if [[ $verb == test ]]; then flags+=' --runner --junit'; else flags+=' --server --token-file --server-ca --client-certificate --client-key'; fi
    case $prev in
    --lang) _coto_words 'python node sh bash perl ruby php lua c c++ go rust java' ;;
    --env) ;;
    --user) ;;
    --user-name) ;;
    --hostname) ;;
    --workdir) ;;
    --modules) ;;
    --timeout) ;;
    --cpu-time) ;;
    --memory) ;;
    --swap) ;;
    --cpus) ;;
    --pids) ;;
    --disk) ;;
    --tmp-size) ;;
    --inodes) ;;
    --output-limit) ;;
    --on-output-limit) _coto_words 'cut kill' ;;
    --nofile) ;;
    --ptys) ;;
    --fsize) ;;
    --iops) ;;
    --copy) _coto_paths -f ;;
    --mount) _coto_paths -f ;;
    --tmpfs) ;;
    --artifacts) _coto_paths -d ;;
    --rootfs) _coto_paths -d ;;
    --image) _coto_words "$(coto image list 2>/dev/null | sed '1d;s/ .*//')" ;;
    --image-key) _coto_paths -f ;;
    --images-dir) _coto_paths -d ;;
    --workspace-writable) _coto_words 'all output' ;;
    --isolation) _coto_words 'process subprocess container docker vm' ;;
    --runtime) _coto_words 'runc crun runsc kata-runtime' ;;
    --allow-runtime) _coto_list 'runc crun runsc kata-runtime' ;;
    --require) _coto_list 'user_namespace pid_namespace mount_namespace net_namespace ipc_namespace uts_namespace cgroup_namespace uid capabilities no_new_privs seccomp landlock root_read_only descriptors apparmor unique_uid timeout cpu_time memory swap cpus pids disk inodes output_limit nofile fsize iops all' ;;
    --allow-missing) _coto_list 'user_namespace pid_namespace mount_namespace net_namespace ipc_namespace uts_namespace cgroup_namespace uid capabilities no_new_privs seccomp landlock root_read_only descriptors apparmor unique_uid timeout cpu_time memory swap cpus pids disk inodes output_limit nofile fsize iops' ;;
    --seccomp) _coto_words 'strict default debug' ;;
    --apparmor) ;;
    --cap-add) _coto_list 'chown fowner setuid setgid' ;;
    --network) _coto_words 'none allow-list' ;;
    --network-allow) ;;
    --idmap) _coto_words 'auto single subuid' ;;
    --report) _coto_paths -d ;;
    --report-include) _coto_list 'code prompt output env' ;;
    --prompt-hash) ;;
    --prompt-file) _coto_paths -f ;;
    --code) ;;
    --profile) _coto_words 'default antigravity deepresearch enis gemini ia-libre' ;;
    --policy) _coto_paths -f ;;
    --server) ;;
    --token-file) _coto_paths -f ;;
    --server-ca) _coto_paths -f ;;
    --client-certificate) _coto_paths -f ;;
    --client-key) _coto_paths -f ;;
    --runner) _coto_words 'go pytest unittest node ctest make' ;;
    --junit) _coto_paths -f ;;
    *)
        if [[ $cur == -* ]]; then
            _coto_words "$flags"
        else
            _coto_paths -f
        fi
        ;;
    esac
}
_coto() {
    # Words as blanks part them: readline parts them at = and : too.
    local line=${COMP_LINE:0:COMP_POINT} words head='' char kept='' count
    read -ra words <<<"$line"
    if [[ $line == *[[:blank:]] ]]; then words+=(''); fi
    count=$((${#words[@]} - 1))
    local whole=${words[count]} verb=${words[1]-} prev=${words[count - 1]}
    local cur=$whole
    local verbs='run test profiles policy doctor version help serve image pki token'
    COMPREPLY=()
    if [[ $cur == --*=* ]]; then
        prev=${cur%%=*} head=${cur%%=*}= cur=${cur#*=}
    fi
    if ((count == 1)); then
        _coto_words "$verbs --help"
        return
    fi
    case $verb:${words[2]-} in
    help:*)
        if ((count == 2)); then _coto_words "$verbs"; fi
        ;;
    serve:*) _coto_tool serve '' "$prev" ;;
    image:* | pki:* | token:*)
        if ((count == 2)); then
            _coto_words "$(coto "$verb" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p') --help"
        else
            _coto_tool "$verb" "${words[2]}" "$prev"
        fi
        ;;
    profiles:*)
        if ((count == 2)); then
            _coto_words 'list show --json --help'
        elif [[ $prev == show ]]; then
            _coto_words 'default antigravity deepresearch enis gemini ia-libre'
        else
            _coto_words '--json --help'
        fi
        ;;
    doctor:* | version:*) _coto_words '--json --help' ;;
    policy:check)
        if ((count == 2)); then
            _coto_words check
        elif [[ $cur == -* ]]; then
            _coto_words '--json --help'
        else
            _coto_paths -f
        fi
        ;;
    *)
        if [[ $verb == policy ]] && ((count == 2)); then
            _coto_words 'explain check --help'
        else
            _coto_options "$verb" "$prev"
        fi
        ;;
    esac
    for char in = :; do
        if [[ $whole == *$char* && $COMP_WORDBREAKS == *$char* ]]; then
            char=${whole%"${whole##*"$char"}"}
            if ((${#char} > ${#kept})); then kept=$char; fi
        fi
    done
    COMPREPLY=("${COMPREPLY[@]#"$kept"}")
}
complete -F _coto coto
