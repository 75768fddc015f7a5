"""Repositories for the rows, made by the git of this machine."""
import os
import pathlib
import subprocess

IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@example.org",
            "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@example.org",
            "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null"}
KEYS = {"files", "links", "executable", "config", "attributes", "hooks", "tag", "gitFile",
        "alternates", "bare", "commits", "branch", "remove"}


def git(directory, *arguments, data=None):
    done = subprocess.run(["git", *arguments], cwd=directory, input=data, check=True,
                          env={**os.environ, **IDENTITY}, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE)
    return done.stdout.decode("utf-8", "replace").strip()


def write_file(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(content, dict):
        size = content["zeros"]
        with open(path, "wb") as file:
            file.truncate(size)
    else:
        path.write_text(content, encoding="utf-8")


def build(path, wanted):
    """Makes a repository at `path`; returns the commit its branch ends at.

    `files` {name: text or {"zeros": size}}, `links` {name: target}, `executable` [name],
    `config` {key: value} set after the commit, `attributes` text put into info/attributes,
    `hooks` {name: script}, `tag` name, `gitFile` a directory the `.git` is moved to with a file
    left in its place, `alternates` an objects directory named in info/alternates, `bare` true,
    `commits` [{files}] further ones, `remove` [path below .git].
    """
    unknown = set(wanted) - KEYS
    if unknown:
        raise ValueError(f"unknown keys of a repository: {sorted(unknown)}")
    path = pathlib.Path(path)
    path.mkdir(parents=True)
    git(path, "init", "-q", "-b", wanted.get("branch", "main"), ".")
    commit(path, wanted)
    for further in wanted.get("commits", []):
        commit(path, further)
    head = git(path, "rev-parse", "HEAD")
    if wanted.get("tag"):
        git(path, "tag", "-a", "-m", "t", wanted["tag"])
    decorate(path, wanted)
    if wanted.get("bare"):
        git(path, "config", "core.bare", "true")
        moved = path.with_name(path.name + ".moving")
        (path / ".git").rename(moved)
        subprocess.run(["rm", "-rf", str(path)], check=True)
        moved.rename(path)
    return head


def commit(path, wanted):
    for name, content in wanted.get("files", {"file.txt": "content\n"}).items():
        write_file(path / name, content)
    for name, target in wanted.get("links", {}).items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).symlink_to(target)
    for name in wanted.get("executable", []):
        (path / name).chmod(0o755)
    git(path, "add", "-A")
    git(path, "commit", "-q", "--allow-empty", "-m", "m")


def decorate(path, wanted):
    """What must have no effect, put in after the commits so that it had none on them."""
    inner = path / ".git"
    for key, value in wanted.get("config", {}).items():
        git(path, "config", key, value)
    if "attributes" in wanted:
        write_file(inner / "info/attributes", wanted["attributes"])
    for name, script in wanted.get("hooks", {}).items():
        write_file(inner / "hooks" / name, script)
        (inner / "hooks" / name).chmod(0o755)
    if "alternates" in wanted:
        write_file(inner / "objects/info/alternates", wanted["alternates"] + "\n")
    for name in wanted.get("remove", []):
        subprocess.run(["rm", "-rf", str(inner / name)], check=True)
    if "gitFile" in wanted:
        target = pathlib.Path(wanted["gitFile"])
        target.parent.mkdir(parents=True, exist_ok=True)
        inner.rename(target)
        write_file(inner, f"gitdir: {target}\n")
