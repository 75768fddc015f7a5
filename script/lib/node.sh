# shellcheck shell=bash
# Node for programs: the machine's where it is 22.13 or newer, else npm's package below build/node,
# where the service looks for it. The ready image always has npm's, so that it does not depend on
# the machine's. Sourced after common.sh and packages.sh.

NODE_PACKAGE_VERSION=24.22.3
NODE_FETCHED=$EXECHOST_BUILD/node/bin/node

node_is_new() {
    command -v node >/dev/null 2>&1 &&
        node -e 'const [a, b] = process.versions.node.split(".").map(Number);
            process.exit(a > 22 || (a === 22 && b >= 13) ? 0 : 1)'
}

# Leaves npm's Node at NODE_FETCHED.
node_fetch() {
    local arch name
    if [ -x "$NODE_FETCHED" ] &&
        [ "$("$NODE_FETCHED" --version)" = "v$NODE_PACKAGE_VERSION" ]; then
        return 0
    fi
    case "$(uname -m)" in
    x86_64) arch=x64 ;;
    aarch64) arch=arm64 ;;
    *) die "npm has no Node for $(uname -m): install 22.13 or newer" ;;
    esac
    packages_ensure npm
    name=node-linux-$arch
    say "installing: $name@$NODE_PACKAGE_VERSION (npm)"
    logged npm-node npm install --no-save --ignore-scripts --prefix "$EXECHOST_BUILD/node" \
        "$name@$NODE_PACKAGE_VERSION" || die "npm install failed"
    mkdir -p "$EXECHOST_BUILD/node/bin"
    ln -sfn "../node_modules/$name/bin/node" "$NODE_FETCHED"
}

node_ensure() {
    node_is_new || node_fetch
}

# Has the service, which takes the first of PATH, find the one that node_ensure brought.
node_use() {
    node_is_new || PATH="$EXECHOST_BUILD/node/bin:$PATH"
}
