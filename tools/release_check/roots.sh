# SPDX-License-Identifier: Apache-2.0
# Functions for steps that install the release in an empty system: `. "$HERE/roots.sh"`. A step that
# uses them needs root and the package debootstrap.

# Prints the mirror from which this machine installs Debian's packages.
mirror() {
    apt-get indextargets --format '$(SITE)' 'Created-By: Packages' |
        grep '/debian/\?$' | sort --unique | head --lines=1
}

# Makes an empty root of a Debian suite with more packages: new_root SUITE FOLDER [PACKAGE ...]
# The first root of a suite stays in $ROOTS; the others are copies of it.
new_root() {
    local suite=$1 folder=$2 base=$ROOTS/$1
    shift 2
    if [ ! -e "$base.complete" ]; then
        mkdir -p "$ROOTS" && rm -rf "$base" || return 1
        debootstrap --variant=minbase "$suite" "$base" "$(mirror)" >"$base.log" 2>&1 ||
            { tail "$base.log" >&2; return 1; }
        touch "$base.complete"
    fi
    mkdir -p "$folder" && cp -a "$base/." "$folder" || return 1
    [ $# -eq 0 ] || in_root "$folder" sh -c \
        'apt-get update -qq && apt-get install -qq -y --no-install-recommends "$@" >/dev/null' \
        sh "$@"
}

# Runs a command in a root: in_root FOLDER COMMAND ... Its pip uses the indexes of this machine.
# What is mounted in the root for the command is not seen outside of it.
in_root() {
    local folder=$1
    shift
    cp --dereference /etc/resolv.conf "$folder/etc/resolv.conf" &&
        cp /etc/ssl/certs/ca-certificates.crt "$folder/etc/pip-certificates.crt" &&
        python3 -m pip config list | pip_settings >"$folder/etc/pip.conf" || return 1
    # shellcheck disable=SC2016
    unshare --mount --propagation private bash -c '
        folder=$1
        shift
        mount -t proc proc "$folder/proc" && mount --rbind /dev "$folder/dev" || exit 1
        for index in $(grep --only-matching "/[a-z][^ ]*" "$folder/etc/pip.conf"); do
            index=${index%/simple}  # the files of a local index are beside it
            [ ! -d "$index" ] && continue
            mkdir -p "$folder$index" && mount --rbind "$index" "$folder$index" || exit 1
        done
        exec env -i HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
            PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
            chroot "$folder" "$@"
    ' bash "$folder" "$@"
}

# Converts the lines of `pip config list` to a configuration file.
pip_settings() {
    python3 -c '
import ast, sys
values = {}
for line in sys.stdin:
    name, _, value = line.partition("=")
    values[name.rpartition(".")[2]] = " ".join(ast.literal_eval(value).split())
values["cert"] = "/etc/pip-certificates.crt"
print("[global]")
for key in ("index-url", "extra-index-url", "find-links", "cert", "trusted-host"):
    if key in values:
        print(f"{key} = {values[key]}")
'
}
