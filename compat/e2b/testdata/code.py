"""What E2B's own code interpreter for Python does, in both ways, against Haft. Each function is one behaviour."""
import asyncio, sys, traceback

from e2b_code_interpreter import AsyncSandbox, Sandbox

behaviours = []


def behaviour(f):
    behaviours.append(f)
    return f


@behaviour
def value(s):
    assert s.run_code("1 + 1").text == "2"


@behaviour
def state(s):
    s.run_code("x = 40")
    assert s.run_code("x + 2").text == "42"


@behaviour
def text_of_a_string(s):
    assert s.run_code("'abc'").text == "abc"


@behaviour
def text_of_a_dict(s):
    assert s.run_code("{'a': 1}").text == "{'a': 1}"


@behaviour
def no_value(s):
    e = s.run_code("y = 1")
    assert e.text is None and e.results == [] and e.error is None


@behaviour
def prints(s):
    e = s.run_code("import sys; print('out'); print('err', file=sys.stderr)")
    assert e.logs.stdout == ["out\n"] and e.logs.stderr == ["err\n"]


@behaviour
def callbacks(s):
    out, err, results, errors = [], [], [], []
    s.run_code("import sys; print('a'); print('b', file=sys.stderr); 7", on_stdout=lambda m: out.append(m.line),
               on_stderr=lambda m: err.append(m.line), on_result=results.append, on_error=errors.append)
    assert out == ["a\n"] and err == ["b\n"] and results[0].text == "7" and not errors


@behaviour
def error(s):
    e = s.run_code("1 / 0").error
    assert e.name == "ZeroDivisionError" and "division" in e.value and "1 / 0" in e.traceback


@behaviour
def syntax_error(s):
    assert s.run_code("def (").error.name == "SyntaxError"


@behaviour
def after_an_error(s):
    s.run_code("before = 5; 1 / 0")
    assert s.run_code("before").text == "5"


@behaviour
def execution_count(s):
    first = s.run_code("1").execution_count
    assert s.run_code("1").execution_count == first + 1


@behaviour
def html(s):
    r = s.run_code("class H:\n  def _repr_html_(self): return '<b>x</b>'\nH()").results[0]
    assert r.html == "<b>x</b>" and r.is_main_result and "html" in r.formats()


@behaviour
def many_forms(s):
    r = s.run_code("class M:\n  def _repr_markdown_(self): return '# t'\n  def _repr_latex_(self): return '$x$'\n"
                   "  def _repr_svg_(self): return '<svg/>'\nM()").results[0]
    assert r.markdown == "# t" and r.latex == "$x$" and r.svg == "<svg/>"


@behaviour
def image(s):
    import base64
    r = s.run_code("class P:\n  def _repr_png_(self): return b'\\x89PNG' + bytes(200000)\nP()").results[0]
    assert base64.b64decode(r.png)[:4] == b"\x89PNG" and len(base64.b64decode(r.png)) == 200004


@behaviour
def json_of_an_object(s):
    r = s.run_code("class J:\n  def _repr_json_(self): return {'a': None}\nJ()").results[0]
    assert r.json == {"a": None}


@behaviour
def plain_value_has_text_only(s):
    r = s.run_code("[1, {'a': None}]").results[0]
    assert r.text == "[1, {'a': None}]" and r.json is None


@behaviour
def shell_lines(s):
    e = s.run_code("!echo from shell\nt = \'\'\'\n!not a command\n\'\'\'\nt.strip()")
    assert e.logs.stdout == ["from shell\n"] and e.text == "!not a command", e


@behaviour
def magics_without_a_meaning(s):
    e = s.run_code("%matplotlib inline\n%load_ext autoreload\n%autoreload 2\nif True:\n    %config A.b = 1\n5 %2")
    assert e.text == "1" and e.error is None, e


@behaviour
def shell_cells(s):
    e = s.run_code("%%bash\nx=3\nfor i in 1 2; do echo $x$i; done")
    assert "".join(e.logs.stdout) == "31\n32\n" and e.error is None, e
    assert s.run_code("%%sh\nexit 2").error.name == "CalledProcessError"


@behaviour
def unknown_magic(s):
    e = s.run_code("x = 1\n%timeit x").error
    assert e.name == "SyntaxError" and "%timeit" in e.value and "line 2" in e.traceback, e


@behaviour
def lines_of_errors_after_magics(s):
    e = s.run_code("%matplotlib inline\n!true\n\n1 / 0").error
    assert e.name == "ZeroDivisionError" and "line 4" in e.traceback, e


@behaviour
def asynchronous_code(s):
    assert s.run_code("import asyncio\nawait asyncio.sleep(0.01)\n'slept'").text == "slept"


@behaviour
def envs(s):
    assert s.run_code("import os; os.environ['E']", envs={"E": "v"}).text == "v"
    assert s.run_code("os.environ.get('E')").text in (None, "None")


@behaviour
def sandbox_envs(s):
    assert s.run_code("import os; os.environ['FROM_CREATE']").text == "yes"


@behaviour
def files_are_shared(s):
    s.files.write("shared.txt", "data")
    assert s.run_code("open('/home/user/shared.txt').read()").text == "data"
    s.run_code("open('back.txt', 'w').write('back')")
    assert s.files.read("back.txt") == "back"


@behaviour
def javascript(s):
    assert s.run_code("const a = 20; a + 1", language="javascript").text == "21"
    assert s.run_code("a + 2", language="js").text == "22"


@behaviour
def typescript(s):
    assert s.run_code("const t: number = 5; t * 2", language="ts").text == "10"


@behaviour
def bash(s):
    assert s.run_code("v=1; echo $v$v", language="bash").logs.stdout == ["11\n"]


@behaviour
def unknown_language(s):
    try:
        s.run_code("x", language="cobol")
    except Exception:
        return
    raise AssertionError("it ran")


@behaviour
def contexts_are_apart(s):
    c = s.create_code_context()
    s.run_code("only_here = 1", context=c)
    assert s.run_code("only_here", context=c).text == "1"
    assert s.run_code("only_here").error.name == "NameError"
    s.remove_code_context(c)


@behaviour
def context_cwd(s):
    c = s.create_code_context(cwd="/tmp")
    assert s.run_code("import os; os.getcwd()", context=c).text == "/tmp" and c.cwd == "/tmp"
    s.remove_code_context(c)


@behaviour
def context_language(s):
    c = s.create_code_context(language="javascript")
    assert c.language == "javascript" and s.run_code("1 + 1", context=c).text == "2"
    s.remove_code_context(c)


@behaviour
def context_list(s):
    c = s.create_code_context()
    assert c.id in [x.id for x in s.list_code_contexts()]
    s.remove_code_context(c)
    assert c.id not in [x.id for x in s.list_code_contexts()]


@behaviour
def context_restart(s):
    c = s.create_code_context()
    s.run_code("gone = 1", context=c)
    s.restart_code_context(c)
    assert s.run_code("gone", context=c).error.name == "NameError"
    s.remove_code_context(c)


@behaviour
def removed_context(s):
    c = s.create_code_context()
    s.remove_code_context(c)
    try:
        s.run_code("1", context=c)
    except Exception:
        return
    raise AssertionError("it ran")


@behaviour
def interrupted(s):
    try:
        s.run_code("import time; kept = 1; time.sleep(60)", timeout=1)
    except Exception as e:
        assert "timeout" in type(e).__name__.lower(), e
    assert s.run_code("kept").text == "1"


@behaviour
def commands_beside_code(s):
    s.run_code("open('c.txt', 'w').write('x')")
    assert s.commands.run("cat c.txt").stdout == "x"


async def asynchronously():
    s = await AsyncSandbox.create()
    await s.run_code("x = 1")
    e = await s.run_code("print('hi'); x + 1")
    assert e.text == "2" and e.logs.stdout == ["hi\n"]
    c = await s.create_code_context()
    assert (await s.run_code("1 / 0", context=c)).error.name == "ZeroDivisionError"
    seen = []
    await s.run_code("print('seen')", on_stdout=lambda m: seen.append(m.line))
    assert seen == ["seen\n"]
    await s.kill()


@behaviour
def asynchronous(s):
    asyncio.run(asynchronously())


def main():
    s = Sandbox.create(timeout=600, envs={"FROM_CREATE": "yes"})
    failed = 0
    for f in behaviours:
        if len(sys.argv) > 1 and f.__name__ not in sys.argv[1:]:
            continue
        try:
            f(s)
        except BaseException:
            failed += 1
            print("FAILED", f.__name__)
            traceback.print_exc(limit=-4, file=sys.stdout)
    s.kill()
    print("%d of %d" % (len(behaviours) - failed, len(behaviours)))
    sys.exit(1 if failed else 0)


main()
