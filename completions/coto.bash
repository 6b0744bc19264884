# bash completion of coto. Made by tools/gendocs from src/schema; do not edit.
# shellcheck shell=bash
# Verbs, flags and images of coto image, pki and token, as these tell them.
_coto_tool() {
    local cur=$1 verb=$2 sub=$3 words
    if [[ -z $sub ]]; then
        words=$(coto "$verb" --help 2>/dev/null | sed -n 's/^  \([a-z]*\)  .*/\1/p')
    elif [[ $cur == -* ]]; then
        words=$(coto "$verb" "$sub" --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p')
        words+=' --help'
    elif [[ $verb:$sub =~ ^image:(show|verify|sign|sbom|remove)$ ]]; then
        words=$(coto image list 2>/dev/null | sed '1d;s/ .*//')
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
    fi
    mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
}
_coto() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}
    local verb=${COMP_WORDS[1]-}
    COMPREPLY=()
    local verbs='run test profiles policy doctor version help serve image pki token'
    local flags='--help --lang --env --user --user-name --hostname
        --workdir --timeout --cpu-time --memory --swap --cpus
        --pids --disk --tmp-size --inodes --output-limit --on-output-limit
        --nofile --fsize --iops --copy --mount --tmpfs
        --artifacts --rootfs --image --image-key --images-dir --workspace-writable
        --noexec --isolation --runtime --allow-runtime --require --allow-missing
        --seccomp --apparmor --cap-add --network --network-allow --idmap
        --report --report-include --prompt-hash --prompt-file --code --profile
        --policy --server --token-file --server-ca --client-certificate --client-key
        --json --quiet --verbose --raw --dry-run'
    if [[ $verb == test ]]; then flags+=' --runner --junit'; fi
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur")
        return
    fi
    if [[ $verb =~ ^(image|pki|token)$ ]]; then
        local sub=
        if ((COMP_CWORD > 2)); then sub=${COMP_WORDS[2]}; fi
        case $prev in
        --images-dir) mapfile -t COMPREPLY < <(compgen -d -- "$cur") ;;
        --format) mapfile -t COMPREPLY < <(compgen -W 'spdx cyclonedx' -- "$cur") ;;
        --key | --signature | --output) mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
        *) _coto_tool "$cur" "$verb" "$sub" ;;
        esac
        return
    fi
    case $verb:$prev in
    help:help)
        mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$cur")
        return
        ;;
    policy:policy)
        mapfile -t COMPREPLY < <(compgen -W 'explain check' -- "$cur")
        return
        ;;
    profiles:profiles)
        mapfile -t COMPREPLY < <(compgen -W 'list show --json' -- "$cur")
        return
        ;;
    profiles:show) prev=--profile ;;
    esac
    case $prev in
    --lang)
        mapfile -t COMPREPLY < <(compgen -W 'python node sh bash perl ruby php lua c c++ go rust java' -- "$cur")
        return
        ;;
    --env)
        return
        ;;
    --user)
        return
        ;;
    --user-name)
        return
        ;;
    --hostname)
        return
        ;;
    --workdir)
        return
        ;;
    --timeout)
        return
        ;;
    --cpu-time)
        return
        ;;
    --memory)
        return
        ;;
    --swap)
        return
        ;;
    --cpus)
        return
        ;;
    --pids)
        return
        ;;
    --disk)
        return
        ;;
    --tmp-size)
        return
        ;;
    --inodes)
        return
        ;;
    --output-limit)
        return
        ;;
    --on-output-limit)
        mapfile -t COMPREPLY < <(compgen -W 'cut kill' -- "$cur")
        return
        ;;
    --nofile)
        return
        ;;
    --fsize)
        return
        ;;
    --iops)
        return
        ;;
    --copy)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --mount)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --tmpfs)
        return
        ;;
    --artifacts)
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --rootfs)
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --image)
        return
        ;;
    --image-key)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --images-dir)
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --workspace-writable)
        mapfile -t COMPREPLY < <(compgen -W 'all output' -- "$cur")
        return
        ;;
    --isolation)
        mapfile -t COMPREPLY < <(compgen -W 'process subprocess container docker vm' -- "$cur")
        return
        ;;
    --runtime)
        return
        ;;
    --allow-runtime)
        return
        ;;
    --require)
        mapfile -t COMPREPLY < <(compgen -W 'user_namespace pid_namespace mount_namespace net_namespace ipc_namespace uts_namespace cgroup_namespace uid capabilities no_new_privs seccomp landlock root_read_only descriptors apparmor unique_uid timeout cpu_time memory swap cpus pids disk inodes output_limit nofile fsize iops all' -- "$cur")
        return
        ;;
    --allow-missing)
        mapfile -t COMPREPLY < <(compgen -W 'user_namespace pid_namespace mount_namespace net_namespace ipc_namespace uts_namespace cgroup_namespace uid capabilities no_new_privs seccomp landlock root_read_only descriptors apparmor unique_uid timeout cpu_time memory swap cpus pids disk inodes output_limit nofile fsize iops' -- "$cur")
        return
        ;;
    --seccomp)
        mapfile -t COMPREPLY < <(compgen -W 'strict default debug' -- "$cur")
        return
        ;;
    --apparmor)
        return
        ;;
    --cap-add)
        mapfile -t COMPREPLY < <(compgen -W 'chown fowner setuid setgid' -- "$cur")
        return
        ;;
    --network)
        mapfile -t COMPREPLY < <(compgen -W 'none allow-list' -- "$cur")
        return
        ;;
    --network-allow)
        return
        ;;
    --idmap)
        mapfile -t COMPREPLY < <(compgen -W 'auto single subuid' -- "$cur")
        return
        ;;
    --report)
        mapfile -t COMPREPLY < <(compgen -d -- "$cur")
        return
        ;;
    --report-include)
        mapfile -t COMPREPLY < <(compgen -W 'code prompt output env' -- "$cur")
        return
        ;;
    --prompt-hash)
        return
        ;;
    --prompt-file)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --code)
        return
        ;;
    --profile)
        mapfile -t COMPREPLY < <(compgen -W 'default antigravity deepresearch enis gemini ia-libre' -- "$cur")
        return
        ;;
    --policy)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --server)
        return
        ;;
    --token-file)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --server-ca)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --client-certificate)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --client-key)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    --runner)
        mapfile -t COMPREPLY < <(compgen -W 'go pytest unittest node ctest make' -- "$cur")
        return
        ;;
    --junit)
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
        return
        ;;
    esac
    if [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$flags" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}
complete -o filenames -F _coto coto
