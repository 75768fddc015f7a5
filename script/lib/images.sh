# shellcheck shell=bash
# Small images made from Debian's busybox, without any other image. Sourced after node.sh.
#
# A root filesystem is staged in a directory and packed so that the same programs always give the
# same bytes: sorted names, times at the epoch, numeric owner 0. An image archive (the form
# `docker load` takes) has a fixed configuration too, so its image id is known without an engine.

IMAGES_DIR=$EXECHOST_BUILD/images

images_link_applets() {
    local root=$1 applet
    for applet in $(busybox --list); do
        [ "$applet" = busybox ] || ln -s busybox "$root/bin/$applet"
    done
}

# What every image has whatever its programs are.
images_stage_skeleton() {
    local root=$1
    rm -rf "$root"
    mkdir -p "$root/bin" "$root/dev" "$root/etc" "$root/proc" "$root/root" "$root/sys" \
        "$root/tmp" "$root/usr" "$root/var"
    chmod 1777 "$root/tmp"
    ln -s ../bin "$root/usr/bin"
    printf 'root:x:0:0:root:/root:/bin/sh\nuser:x:65532:65532:user:/workspace:/bin/sh\n' \
        >"$root/etc/passwd"
    printf 'root:x:0:\nuser:x:65532:\n' >"$root/etc/group"
}

images_stage_base() {
    local root=$1
    images_stage_skeleton "$root"
    install -m 0755 /bin/busybox "$root/bin/busybox"
    images_link_applets "$root"
}

# images_pack ROOT TAR
images_pack() {
    tar --create --file "$2" --directory "$1" --format=ustar --sort=name --mtime=@0 \
        --owner=0 --group=0 --numeric-owner .
}

# npm's Node and the libraries it is linked with.
images_stage_node() {
    local root=$1 file
    node_fetch
    install -m 0755 "$(readlink -f "$NODE_FETCHED")" "$root/bin/node"
    while read -r file; do
        install -D -m 0755 "$file" "$root$file"
    done < <(ldd "$NODE_FETCHED" | grep -oE '/[^ ]+\.so[^ ]*')
}

# Leaves a root filesystem with busybox alone at build/images/base.tar.
images_build_base() {
    mkdir -p "$IMAGES_DIR"
    if [ ! -f "$IMAGES_DIR/base.tar" ] || [ /bin/busybox -nt "$IMAGES_DIR/base.tar" ] ||
        [ "$EXECHOST_ROOT/script/lib/images.sh" -nt "$IMAGES_DIR/base.tar" ]; then
        images_stage_base "$IMAGES_DIR/base.root"
        images_pack "$IMAGES_DIR/base.root" "$IMAGES_DIR/base.tar.new"
        rm -rf "$IMAGES_DIR/base.root"
        mv "$IMAGES_DIR/base.tar.new" "$IMAGES_DIR/base.tar"
    fi
}

# images_archive NAME LAYER CONFIG OUT: packs a layer and the JSON of its run configuration as an
# image archive and prints the image id (64 hexadecimal digits).
images_archive() {
    local name=$1 layer=$2 config=$3 out=$4 work diff id
    work=$out.d
    rm -rf "$work"
    mkdir -p "$work"
    cp "$layer" "$work/layer.tar"
    diff=$(sha256sum "$layer" | cut -d' ' -f1)
    printf '{"architecture":"%s","os":"linux","created":"1970-01-01T00:00:00Z","config":%s,"rootfs":{"type":"layers","diff_ids":["sha256:%s"]},"history":[{"created":"1970-01-01T00:00:00Z","created_by":"exechost"}]}' \
        "$(dpkg --print-architecture)" "$config" "$diff" >"$work/config"
    id=$(sha256sum "$work/config" | cut -d' ' -f1)
    mv "$work/config" "$work/$id.json"
    printf '[{"Config":"%s.json","RepoTags":["%s"],"Layers":["layer.tar"]}]' "$id" "$name" \
        >"$work/manifest.json"
    images_pack "$work" "$out"
    rm -rf "$work"
    printf '%s\n' "$id"
}

# The image that script/run offers, busybox and Node, as an archive: the same programs give the same
# bytes. Prints what pins it.
IMAGES_READY=$IMAGES_DIR/ready-image.tar
images_build_ready() {
    local id made=$IMAGES_DIR/ready.id script
    mkdir -p "$IMAGES_DIR"
    for script in images node; do
        [ "$made" -nt "$EXECHOST_ROOT/script/lib/$script.sh" ] || rm -f "$made"
    done
    if [ ! -f "$IMAGES_READY" ] || [ ! "$made" -nt /bin/busybox ]; then
        images_stage_base "$IMAGES_DIR/ready.root"
        images_stage_node "$IMAGES_DIR/ready.root" >&2
        images_pack "$IMAGES_DIR/ready.root" "$IMAGES_DIR/ready.tar"
        rm -rf "$IMAGES_DIR/ready.root"
        id=$(images_archive exechost/base:latest "$IMAGES_DIR/ready.tar" \
            '{"Env":["PATH=/usr/bin:/bin"]}' "$IMAGES_READY")
        rm -f "$IMAGES_DIR/ready.tar"
        printf 'base@sha256:%s\n' "$id" >"$made"
    fi
    cat "$made"
}

# images_load ID ARCHIVE: gives the archive to the engine unless that has the image already.
images_load() {
    if ! engine_call GET "/images/sha256:$1/json" -o /dev/null 2>/dev/null; then
        engine_call POST /images/load?quiet=1 -o /dev/null -H 'Content-Type: application/x-tar' \
            -T "$2"
    fi
}

# images_push ID REPOSITORY: pushes an image and prints the digest the registry gave it.
images_push() {
    local id=$1 repository=$2 answer digest
    engine_call POST "/images/sha256:$id/tag?repo=$repository&tag=test" -o /dev/null
    answer=$(engine_call POST "/images/$repository/push?tag=test" -H 'X-Registry-Auth: e30=')
    digest=$(grep -o '"Digest":"sha256:[0-9a-f]\{64\}"' <<<"$answer" | tail -n 1 | cut -d'"' -f4)
    [ -n "$digest" ] || die "push of $repository failed: $answer"
    printf '%s\n' "$digest"
}
