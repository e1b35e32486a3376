"""What E2B's own client for Python does with templates. Each function is one behaviour."""
import asyncio, sys, traceback

from e2b import (Sandbox, Template, AsyncSandbox, AsyncTemplate, BuildException, FileUploadException, SandboxException,
                 NotFoundException)

behaviours = []


def behaviour(f):
    behaviours.append(f)
    return f


def fails(kind, f, *args, **named):
    try:
        f(*args, **named)
    except kind as e:
        return str(e)
    raise AssertionError("no %s" % kind)


@behaviour
def pip_install():
    logs = []
    t = Template().from_base_image().pip_install(["six==1.17.0"]).set_envs({"BUILD": "1"})
    built = Template.build(t, "with-six", on_build_logs=logs.append)
    assert built.template_id == "with-six" and any("six" in l.message for l in logs)
    with Sandbox.create("with-six") as s:
        assert s.commands.run("python3 -c 'import six; print(six.__version__)'").stdout == "1.17.0\n"
        assert s.get_info().template_id == "with-six"
    with Sandbox.create() as s:
        assert "1.17.0" not in s.commands.run("python3 -c 'import six; print(six.__version__)' || true").stdout


@behaviour
def code_has_them():
    from e2b_code_interpreter import Sandbox as Interpreter
    with Interpreter.create("with-six") as s:
        assert s.run_code("import six; six.__version__").text == "1.17.0"


@behaviour
def dockerfile():
    t = Template().from_dockerfile("""FROM python:3
ENV X=1
WORKDIR /home/user
RUN pip install --no-cache-dir 'six>=1.16' && \\
    pip3 install idna
""")
    Template.build(t, "docker")
    with Sandbox.create("docker") as s:
        assert s.commands.run("python3 -c 'import six, idna; print(1)'").stdout == "1\n"


@behaviour
def on_another_template():
    Template.build(Template().from_template("with-six").pip_install("idna"), "more")
    with Sandbox.create("more") as s:
        assert s.commands.run("python3 -c 'import six, idna; print(1)'").stdout == "1\n"


@behaviour
def survives_a_pause_and_a_snapshot():
    s = Sandbox.create("with-six")
    snap = s.create_snapshot()
    s.pause()
    for again in (Sandbox.connect(s.sandbox_id), Sandbox.create(snap.snapshot_id)):
        assert again.commands.run("python3 -c 'import six; print(1)'").stdout == "1\n"
        again.kill()
    Sandbox.delete_snapshot(snap.snapshot_id)


@behaviour
def exists():
    assert Template.exists("with-six") and not Template.exists("nobodys")


@behaviour
def unknown():
    message = fails(SandboxException, Sandbox.create, "nobodys")
    assert "with-six" in message and "base" in message, message


@behaviour
def refused():
    base = lambda: Template().from_base_image()
    for t in (base().run_cmd("cat /etc/passwd"), base().run_cmd("pip install -r requirements.txt"),
              base().run_cmd("pip install /etc"), base().run_cmd("pip install six; id"),
              base().run_cmd("pip install $(id)"), base().run_cmd("pip install --index-url http://x six"),
              base().run_cmd("pip install git+https://x/y"), base().apt_install("git"),
              base().run_cmd("pip install 'six @ file:///etc/passwd'"), base().npm_install("file:../x"),
              Template().from_image("alpine:3"), Template().from_image("python:3.9"),
              Template().from_image("python:3", username="u", password="p"),
              base().set_start_cmd("id", "true")):
        fails(BuildException, Template.build, t, "evil")
    fails((BuildException, FileUploadException), Template.build, base().copy("templates.py", "/home/user/"), "evil")
    for name in ("../up", "a/b", "UP", "base", "x" * 80, "a:v1"):
        fails(BuildException, Template.build, base().pip_install("six"), name)
    assert not Template.exists("evil")


@behaviour
def failed_build_changes_nothing():
    fails(BuildException, Template.build, Template().from_base_image().pip_install("six==0.0.999"), "with-six")
    with Sandbox.create("with-six") as s:
        assert s.commands.run("python3 -c 'import six; print(1)'").stdout == "1\n"


@behaviour
def asynchronous():
    async def run():
        await AsyncTemplate.build(AsyncTemplate().from_base_image().pip_install("idna"), "later")
        s = await AsyncSandbox.create("later")
        r = await s.commands.run("python3 -c 'import idna; print(1)'")
        await s.kill()
        return r.stdout
    assert asyncio.run(run()) == "1\n"


@behaviour
def removed():
    assert Sandbox.delete_snapshot("docker") is True  # it is the request that removes templates, too
    fails(SandboxException, Sandbox.create, "docker")


failed = 0
for f in behaviours:
    try:
        f()
    except BaseException:
        failed += 1
        print("FAILED", f.__name__)
        traceback.print_exc(limit=-4, file=sys.stdout)
print("%d of %d" % (len(behaviours) - failed, len(behaviours)))
sys.exit(1 if failed else 0)
