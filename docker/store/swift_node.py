"""An S3-compatible store of one node: OpenStack Swift with its S3 API, in one process.

    swift_node.py DIRECTORY [--listen HOST:PORT] [--bucket NAME] [--credentials FILE]

Users are in DIRECTORY/users, a line "KEY SECRET NAME" each; objects are below DIRECTORY/disk and
stay from one start to the next. The S3 API's port, which the system chooses when none is given, is
written to DIRECTORY/port when it answers. The other servers listen on loopback, on ports that the
system chooses.

With a bucket and a file for credentials a first start makes a user and writes its keys there, and
every start makes the bucket where it is not.
"""
import argparse
import logging
import os
import pathlib
import secrets
import signal
import sys

import eventlet

eventlet.monkey_patch()

from eventlet import wsgi  # noqa: E402
from swift.common import constraints, utils  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.swob import HTTPForbidden, HTTPUnauthorized  # noqa: E402
from swift.common.wsgi import SwiftHttpProtocol, loadapp, make_pre_authed_request  # noqa: E402

STORAGE = ("account", "container", "object")
USER = "exechost"
CONSTANTS = """[swift-hash]
swift_hash_path_prefix = exechost
swift_hash_path_suffix = exechost
[storage-policy:0]
name = one
default = yes
"""
COMMON = """[DEFAULT]
swift_dir = {directory}
devices = {directory}/disk
mount_check = false
disable_fallocate = true
fallocate_reserve = 0
log_level = WARNING
log_custom_handlers = swift_node.log_to_stderr
"""
STORAGE_SERVER = COMMON + """[pipeline:main]
pipeline = server
[app:server]
use = egg:swift#{name}
"""
FILTERS = ("catch_errors", "gatekeeper", "healthcheck", "listing_formats", "s3api", "users", "bulk",
           "slo", "dlo")
PROXY_SERVER = COMMON + """[pipeline:main]
pipeline = {pipeline} proxy-server
[app:proxy-server]
use = egg:swift#proxy
account_autocreate = true
[filter:s3api]
use = egg:swift#s3api
location = us-east-1
storage_domain = localhost
max_upload_part_num = 10000
[filter:users]
paste.filter_factory = swift_node:users_filter
file = {directory}/users
[filter:slo]
use = egg:swift#slo
max_manifest_segments = 10000
max_manifest_size = 8388608
"""


class Users:
    """Who may do what: a user of the file, in an account of the same name, everything. (Swift's own
    filter for tests needs memcached and has a colon in its access keys.)"""

    def __init__(self, app, path):
        self.app = app
        self.known = {}
        for line in pathlib.Path(path).read_text().splitlines():
            key, secret, user = line.split()
            self.known[key] = (secret, "AUTH_" + user)

    def __call__(self, env, start_response):
        signed = env.get("s3api.auth_details")
        if signed and not env.get("swift.authorize_override"):
            secret, account = self.known.get(signed["access_key"], (None, None))
            if secret and signed["check_signature"](secret):
                env["REMOTE_USER"] = account
                env["PATH_INFO"] = env["PATH_INFO"].replace(signed["access_key"], account, 1)
        if not env.get("swift.authorize_override"):
            env["swift.authorize"] = allow_own_account
        return self.app(env, start_response)


def allow_own_account(request):
    """None where the request may go on."""
    if not request.remote_user:
        return HTTPUnauthorized(request=request)
    if request.split_path(2, 4, True)[1] != request.remote_user:
        return HTTPForbidden(request=request)
    request.environ["swift_owner"] = True
    return None


def users_filter(_global_config, **settings):
    return lambda app: Users(app, settings["file"])


def log_to_stderr(_conf, _name, _to_console, _route, form, logger, _adapted):
    for handler in list(logger.handlers):
        logger.removeHandler(handler)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s " + (form or "%(message)s")))
    logger.addHandler(handler)


def write_ring(directory, name, port):
    builder = RingBuilder(4, 1, 0)
    builder.add_dev({"id": 0, "region": 1, "zone": 1, "weight": 1.0, "device": "one",
                     "ip": "127.0.0.1", "port": port, "replication_ip": "127.0.0.1",
                     "replication_port": port})
    builder.rebalance()
    builder.get_ring().save(str(directory / f"{name}.ring.gz"))


def write_configuration(directory, ports):
    (directory / "swift.conf").write_text(CONSTANTS)
    for name in STORAGE:
        write_ring(directory, name, ports[name])
        text = STORAGE_SERVER.format(directory=directory, name=name)
        (directory / f"{name}.conf").write_text(text)
    plain = [name for name in FILTERS if f"[filter:{name}]" not in PROXY_SERVER]
    text = PROXY_SERVER.format(directory=directory, pipeline=" ".join(FILTERS))
    text += "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n" for name in plain)
    (directory / "proxy.conf").write_text(text)


def serve(listener, app):
    wsgi.server(listener, app, open("/dev/null", "w", encoding="utf-8"),
                protocol=SwiftHttpProtocol, custom_pool=eventlet.GreenPool(1024), socket_timeout=60,
                capitalize_response_headers=False)


def make_user(directory, credentials):
    """The keys of a first start, for the store and, as S3 clients read them, for its user."""
    users = directory / "users"
    if not users.exists():
        key, secret = "AK" + secrets.token_hex(9).upper(), secrets.token_hex(20)
        write_secret(users, f"{key} {secret} {USER}\n")
    key, secret, _ = users.read_text().split()
    write_secret(credentials, "[default]\n"
                 f"aws_access_key_id = {key}\naws_secret_access_key = {secret}\n")


def write_secret(path, text):
    new = path.with_name(path.name + ".new")
    new.unlink(missing_ok=True)
    new.touch(0o600)
    new.write_text(text)
    new.rename(path)


def make_bucket(proxy, name):
    request = make_pre_authed_request({}, "PUT", f"/v1/AUTH_{USER}/{name}", swift_source="START")
    answer = request.get_response(proxy)
    if answer.status_int not in (201, 202):
        sys.exit(f"swift_node: the bucket {name} can't be made: {answer.status}")


def require_attributes(directory):
    """Swift keeps what it knows of an object in extended attributes of its file."""
    probe = directory / "probe"
    probe.touch()
    try:
        os.setxattr(probe, "user.swift.probe", b"x" * 1024)
    except OSError as error:
        sys.exit(f"swift_node: {directory} needs a file system with extended attributes, such as "
                 f"ext4 or xfs: {error}")
    finally:
        probe.unlink()


def address(text):
    host, _, port = text.rpartition(":")
    return host, int(port)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--listen", type=address, default=("127.0.0.1", 0))
    parser.add_argument("--bucket")
    parser.add_argument("--credentials", type=pathlib.Path)
    return parser.parse_args()


def main(options):
    # What was answered is on disk; as a container's first process it would not end otherwise.
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    directory = options.directory.resolve()
    (directory / "disk/one").mkdir(parents=True, exist_ok=True)
    (directory / "port").unlink(missing_ok=True)
    require_attributes(directory / "disk")
    if options.credentials:
        make_user(directory, options.credentials)
    places = {name: ("127.0.0.1", 0) for name in STORAGE} | {"proxy": options.listen}
    listeners = {name: eventlet.listen(place, reuse_port=False) for name, place in places.items()}
    ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
    write_configuration(directory, ports)
    # The directory of swift.conf is compiled in.
    utils.set_swift_dir(str(directory))
    constraints.reload_constraints()
    threads = []
    for name, listener in listeners.items():
        app = loadapp(str(directory / f"{name}.conf"), global_conf={"log_name": name})
        threads.append(eventlet.spawn(serve, listener, app))
    if options.bucket:
        make_bucket(app, options.bucket)
    (directory / "port.new").write_text(str(ports["proxy"]))
    (directory / "port.new").rename(directory / "port")
    for thread in threads:
        thread.wait()


if __name__ == "__main__":
    main(parse())
