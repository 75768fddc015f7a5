# shellcheck shell=bash
# Which Debian or Ubuntu packages each group of tasks needs, and how they get here. Sourced.
#
# A tool is looked for by its command, so that one from elsewhere (another Docker, another Node)
# is left alone; a library by its package. apt runs only when something is missing.

EXECHOST_MISSING=()

need_command() {
    command -v "$1" >/dev/null 2>&1 || EXECHOST_MISSING+=("$2")
}

need_package() {
    local name state
    for name in "$@"; do
        state=$(dpkg-query -W -f='${db:Status-Status}' "$name" 2>/dev/null || true)
        [ "$state" = installed ] || EXECHOST_MISSING+=("$name")
    done
}

packages_build() {
    need_command cmake cmake
    need_command ninja ninja-build
    need_command gcc gcc
    need_command pkg-config pkg-config
    need_command npm npm
    need_package libc6-dev libarchive-dev libcurl4-openssl-dev libexpat1-dev libgnutls28-dev libjansson-dev \
        libmicrohttpd-dev libseccomp-dev libsqlite3-dev libssl-dev libzstd-dev python3 python3-yaml \
        zlib1g-dev
}

packages_engine() {
    need_command dockerd docker.io
    # dockerd loads its AppArmor profile with a tool that docker.io only recommends.
    if [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" = Y ]; then
        need_command apparmor_parser apparmor
    fi
}

packages_npm() {
    need_command npm npm
}

packages_run() {
    packages_build
    need_command bwrap bubblewrap
    need_command git git
    need_command curl curl
    need_package busybox-static ca-certificates
}

packages_test() {
    packages_run
    packages_engine
    packages_objects
    need_command skopeo skopeo
    need_command openssl openssl
    need_command clang clang
    # One version everywhere: the next one lays out and warns differently.
    need_command clang-format-14 clang-format-14
    need_command clang-tidy-14 clang-tidy-14
    need_command cppcheck cppcheck
    need_command docker-registry docker-registry
    need_command node nodejs
    need_command chromium chromium
    need_command npm npm
    need_command strace strace
    need_package libclang-rt-dev libcmocka-dev python3-jsonschema
}

# S3 servers.
packages_objects() {
    need_command ceph-mon ceph-mon
    need_command ceph-osd ceph-osd
    need_command radosgw radosgw
    need_package python3-swift
}

packages_fuzz() {
    packages_build
    need_command clang clang
    need_package libclang-rt-dev
}

packages_vm() {
    packages_build
    need_command qemu-system-x86_64 qemu-system-x86
    need_command busybox busybox-static
    need_command cpio cpio
    need_command depmod kmod
}

packages_package() {
    packages_build
    need_command debootstrap debootstrap
    need_command dpkg-shlibdeps dpkg-dev
    need_package busybox-static
}

# The images and compose.yaml.
packages_docker() {
    packages_engine
    need_command docker docker.io
    docker compose version >/dev/null 2>&1 || need_command docker-compose docker-compose
    need_command debootstrap debootstrap
    need_command curl curl
    need_command npm npm
    need_command python3 python3
    need_package busybox-static
}

packages_bench() {
    packages_run
    packages_engine
    packages_objects
    need_command docker docker.io
    need_command runc runc
    need_command crun crun
    need_command zstd zstd
    need_command openssl openssl
}

# The mirror of this machine, else Debian's.
packages_mirror() {
    local found
    found=$(sed -nE 's/^(URIs: *|deb +(\[[^]]*\] +)?)(https?:[^ ]*).*$/\3/p' /etc/apt/sources.list \
        /etc/apt/sources.list.d/* 2>/dev/null | grep -v security | head -n 1)
    printf '%s\n' "${found:-http://deb.debian.org/debian}"
}

# Daemons that a package brings are not started by its installation: the scripts start what they
# need, on loopback, and stop it again.
packages_hold_daemons() {
    if [ ! -e /usr/sbin/policy-rc.d ]; then
        printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
        chmod 0755 /usr/sbin/policy-rc.d
        trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    fi
}

packages_release_daemons() {
    if [ "$(trap -p EXIT)" != "" ]; then
        rm -f /usr/sbin/policy-rc.d
        trap - EXIT
    fi
}

packages_install() {
    local apt=(apt-get -y --no-install-recommends -o DPkg::Lock::Timeout=600
        -o Acquire::Retries=3 -o Dpkg::Options::=--force-confold)

    command -v apt-get >/dev/null 2>&1 || die "needs Debian 12 or Ubuntu 24.04 (apt-get), or these
packages' like from elsewhere: ${EXECHOST_MISSING[*]}"
    require_root
    say "installing: ${EXECHOST_MISSING[*]}"
    export DEBIAN_FRONTEND=noninteractive
    logged apt-update "${apt[@]}" update || die "apt-get update failed"
    packages_hold_daemons
    logged apt-install "${apt[@]}" install "${EXECHOST_MISSING[@]}" || die "apt-get install failed"
    packages_release_daemons
    # Debian's registry would serve on every address after the next boot.
    if [ -d /run/systemd/system ] && [[ " ${EXECHOST_MISSING[*]} " == *" docker-registry "* ]]; then
        systemctl --quiet disable docker-registry.service >/dev/null 2>&1 || true
    fi
}

packages_ensure() {
    local group
    EXECHOST_MISSING=()
    for group in "$@"; do
        "packages_$group"
    done
    if [ "${#EXECHOST_MISSING[@]}" -gt 0 ]; then
        packages_install
        EXECHOST_MISSING=()
        for group in "$@"; do
            "packages_$group"
        done
        [ "${#EXECHOST_MISSING[@]}" -eq 0 ] || die "still missing after apt-get: ${EXECHOST_MISSING[*]}"
    fi
}
