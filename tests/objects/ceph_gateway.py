"""Ceph's object gateway over one monitor and one OSD that keeps its objects in memory.

It honours `If-None-Match: *` on a PUT. No manager runs, nobody authenticates within the cluster,
and all of it listens on loopback alone.
"""
import secrets
import shutil
import subprocess
import uuid

from daemon import ServerError, await_true, hold_port, is_served, run, start, stop

MEMORY = 8 << 30
CONFIG = """[global]
fsid = {fsid}
mon host = v2:127.0.0.1:{monitor}
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind msgr1 = false
ms mon client mode = crc
ms cluster mode = crc
ms service mode = crc
ms client mode = crc
auth cluster required = none
auth service required = none
auth client required = none
admin socket =
pid file =
run dir = {directory}
crash dir = {directory}
log file = {directory}/$name.log
log to stderr = false
mon cluster log file = {directory}/cluster.log
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
osd crush chooseleaf type = 0
mon allow pool size one = true

[mon.a]
mon data = {directory}/mon
mon data avail warn = 1
mon data avail crit = 1
paxos propose interval = 0.05
paxos min wait = 0.01

[osd.0]
osd data = {directory}/osd
osd objectstore = memstore
memstore device bytes = {memory}
osd crush update on start = false
osd op num shards = 2
osd op num threads per shard = 1

[client]
rgw frontends = beast endpoint=127.0.0.1:{port} tcp_nodelay=1
rgw dns name = localhost
rgw thread pool size = 32
rgw run sync thread = false
rgw enable ops log = false
rgw enable usage log = false
rgw gc obj min wait = 5
rgw gc processor period = 10
rgw gc processor max time = 10
"""


class Ceph:
    """A new, empty cluster each time; `stop` forgets it."""

    name = "ceph"
    programs = ("ceph-mon", "ceph-osd", "radosgw", "radosgw-admin", "ceph", "monmaptool")

    def __init__(self, directory):
        self.directory = directory
        self.config = directory / "ceph.conf"
        self.log = directory / "start.log"
        self.held = []
        self.processes = []
        self.users = [("AK" + secrets.token_hex(9).upper(), secrets.token_hex(20))
                      for _ in range(2)]
        self.port = 0

    def start(self):
        missing = [name for name in self.programs if not shutil.which(name)]
        if missing:
            raise ServerError(f"not installed: {', '.join(missing)}")
        shutil.rmtree(self.directory, ignore_errors=True)
        for part in ("mon", "osd"):
            (self.directory / part).mkdir(parents=True)
        fsid = str(uuid.uuid4())
        monitor = self.reserve()
        self.port = self.reserve()
        self.config.write_text(CONFIG.format(fsid=fsid, monitor=monitor, port=self.port,
                                             directory=self.directory, memory=MEMORY))
        self.start_monitor(fsid, monitor)
        self.start_osd()
        self.make_users()
        self.launch("radosgw", "-n", "client.rgw")
        await_true("the gateway", self.answers, self.processes, self.log)

    def reserve(self):
        held, port = hold_port()
        self.held.append(held)
        return port

    def launch(self, program, *arguments):
        self.processes.append(start([program, "-c", str(self.config), "-f", *arguments], self.log))

    def start_monitor(self, fsid, port):
        map_file = str(self.directory / "monmap")
        run(["monmaptool", "--create", "--fsid", fsid, "--addv", "a", f"[v2:127.0.0.1:{port}]",
             map_file], self.log)
        run(["ceph-mon", "-c", str(self.config), "-i", "a", "--mkfs", "--monmap", map_file], self.log)
        self.launch("ceph-mon", "-i", "a")

    def start_osd(self):
        osd = str(uuid.uuid4())
        self.ask("osd", "new", osd)
        run(["ceph-osd", "-c", str(self.config), "-i", "0", "--mkfs", "--osd-uuid", osd], self.log)
        self.ask("osd", "crush", "add", "osd.0", "1", "root=default", "host=local")
        self.launch("ceph-osd", "-i", "0")
        await_true("the OSD", lambda: b" 1 up" in self.ask("osd", "stat"), self.processes, self.log)

    def ask(self, *words):
        done = subprocess.run(["ceph", "-c", str(self.config), "--connect-timeout", "60", *words],
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=90, check=False)
        if done.returncode != 0:
            raise ServerError(f"ceph {' '.join(words)}: {done.stderr.decode('utf-8', 'replace')}")
        return done.stdout

    def make_users(self):
        for number, (key, secret) in enumerate(self.users):
            run(["radosgw-admin", "-c", str(self.config), "user", "create", "--uid", f"user{number}",
                 "--display-name", f"user{number}", "--access-key", key, "--secret-key", secret],
                self.log)

    def answers(self):
        return is_served(self.port, "/")

    def stop(self):
        stop(self.processes)
        for held in self.held:
            held.close()
        for part in ("mon", "osd"):
            shutil.rmtree(self.directory / part, ignore_errors=True)
