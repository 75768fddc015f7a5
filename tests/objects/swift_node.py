"""The process of a Swift of one node: swift_node.py DIRECTORY.

Its four servers share an event loop and listen on sockets that are bound here to port 0, so there
is no port that could be taken. Users are in DIRECTORY/users; the S3 API's port is written to
DIRECTORY/port.
"""
import logging
import pathlib
import sys

import eventlet

eventlet.monkey_patch()

from eventlet import wsgi  # noqa: E402
from swift.common import constraints, utils  # noqa: E402
from swift.common.ring import RingBuilder  # noqa: E402
from swift.common.swob import HTTPForbidden, HTTPUnauthorized  # noqa: E402
from swift.common.wsgi import SwiftHttpProtocol, loadapp  # noqa: E402

STORAGE = ("account", "container", "object")
CONSTANTS = """[swift-hash]
swift_hash_path_prefix = tests
swift_hash_path_suffix = tests
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
        (directory / f"{name}.conf").write_text(STORAGE_SERVER.format(directory=directory, name=name))
    plain = [name for name in FILTERS if f"[filter:{name}]" not in PROXY_SERVER]
    text = PROXY_SERVER.format(directory=directory, pipeline=" ".join(FILTERS))
    text += "".join(f"[filter:{name}]\nuse = egg:swift#{name}\n" for name in plain)
    (directory / "proxy.conf").write_text(text)


def serve(listener, app):
    wsgi.server(listener, app, open("/dev/null", "w", encoding="utf-8"),
                protocol=SwiftHttpProtocol, custom_pool=eventlet.GreenPool(1024), socket_timeout=60,
                capitalize_response_headers=False)


def main(directory):
    listeners = {name: eventlet.listen(("127.0.0.1", 0), reuse_port=False)
                 for name in STORAGE + ("proxy",)}
    ports = {name: listener.getsockname()[1] for name, listener in listeners.items()}
    write_configuration(directory, ports)
    # The directory of swift.conf is compiled in.
    utils.set_swift_dir(str(directory))
    constraints.reload_constraints()
    threads = []
    for name, listener in listeners.items():
        app = loadapp(str(directory / f"{name}.conf"), global_conf={"log_name": name})
        threads.append(eventlet.spawn(serve, listener, app))
    (directory / "port.new").write_text(str(ports["proxy"]))
    (directory / "port.new").rename(directory / "port")
    for thread in threads:
        thread.wait()


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve())
