package script_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"haft"
	"haft/executor"
	"haft/executor/script"
	"haft/internal/skiptest"
	"haft/sandbox"
)

// A toolCase is one tool, one call of it, and what becomes of it.
type toolCase struct {
	name   string
	source string
	args   string // "" is {}
	want   string // the value, or
	kind   haft.FailureKind
	status haft.Status // of a failure; "" means error
	says   []string    // parts of message, type or traceback
	hides  []string    // what must be in none of them
	stdout string      // exactly, if not ""
}

// check runs c and compares.
func (c toolCase) check(t *testing.T, x *script.Executor, kind haft.Kind) {
	t.Helper()
	res := execute(t, x, executor.Request{Kind: kind, Source: c.source, Args: json.RawMessage(c.args),
		Limits: haft.Limits{Wall: haft.Millis(20e9)}})
	if l := res.Timeline; l.Setup < 0 || l.Execute < 0 || l.Serialise < 0 || l.Setup+l.Execute+l.Serialise > l.Total {
		t.Errorf("the timeline is %+v", l)
	}
	if c.stdout != "" && res.Stdout != c.stdout {
		t.Errorf("stdout = %q, want %q", res.Stdout, c.stdout)
	}
	if c.kind == "" {
		if res.Status != haft.StatusSuccess || string(res.Value) != c.want {
			t.Fatalf("got %s %s %+v, stderr %q, want value %s", res.Status, res.Value, res.Error, res.Stderr, c.want)
		}
		return
	}
	if c.status == "" {
		c.status = haft.StatusError
	}
	if res.Error == nil || res.Status != c.status || res.Error.Kind != c.kind {
		t.Fatalf("got %s %s %+v, stderr %q, want %s %s", res.Status, res.Value, res.Error, res.Stderr, c.status, c.kind)
	}
	text := res.Error.Type + "\n" + res.Error.Message + "\n" + res.Error.Traceback
	for _, s := range c.says {
		if !strings.Contains(text, s) {
			t.Errorf("the failure does not say %q:\n%s", s, text)
		}
	}
	for _, s := range append(c.hides, "<haft>", "marshal", "/.pyenv/", "[eval]") {
		if strings.Contains(text, s) {
			t.Errorf("the failure says %q:\n%s", s, text)
		}
	}
}

// valueCases are values and what they are as JSON: the table of package value.
var valueCases = []toolCase{
	{name: "nothing", source: "def f(): pass", want: `null`},
	{name: "plain", source: "def f(): return [True, 1, -2.5, 1e300, 'ü\\n\"', None, {}, []]",
		want: `[true,1,-2.5,1e+300,"ü\n\"",null,{},[]]`},
	{name: "large_whole_number", source: "def f(): return 2**100", want: `1267650600228229401496703205376`},
	{name: "not_finite", source: "def f(): return [float('nan'), float('inf'), -float('inf')]",
		want: `[{"$type":"float","value":"NaN"},{"$type":"float","value":"Infinity"},{"$type":"float","value":"-Infinity"}]`},
	{name: "exact_numbers", source: "from decimal import Decimal\nfrom fractions import Fraction\ndef f(): return " +
		"[Decimal('1.10'), Fraction(3, 4), Decimal('NaN')]", want: `["1.10","3/4",{"$type":"float","value":"NaN"}]`},
	{name: "dates", source: "from datetime import *\ndef f(): return [date(2026,1,31), " +
		"datetime(2026,1,31,10,tzinfo=timezone.utc), datetime(2026,1,31,10,0,0,500000), time(10,0,0,500000), " +
		"datetime(2026,1,31,10,tzinfo=timezone(timedelta(hours=1)))]",
		want: `["2026-01-31","2026-01-31T10:00:00Z","2026-01-31T10:00:00.5","10:00:00.5","2026-01-31T10:00:00+01:00"]`},
	{name: "durations", source: "from datetime import timedelta as d\ndef f(): return [d(1,7384,500000), " +
		"d(seconds=-5), d(0), d(hours=2)]", want: `["P1DT2H3M4.5S","-PT5S","PT0S","PT2H"]`},
	{name: "uuid_path_address", source: "import uuid, pathlib, ipaddress\ndef f(): return [uuid.UUID(int=1), " +
		"pathlib.PurePosixPath('/a/b'), ipaddress.ip_address('10.0.0.1')]",
		want: `["00000000-0000-0000-0000-000000000001","/a/b","10.0.0.1"]`},
	{name: "bytes", source: "def f(): return [b'hi', bytearray(b'hi'), memoryview(b'hi')]",
		want: `[{"$type":"bytes","base64":"aGk="},{"$type":"bytes","base64":"aGk="},{"$type":"bytes","base64":"aGk="}]`},
	{name: "lists", source: "from collections import deque, namedtuple\nP = namedtuple('P', 'x y')\ndef f(): return " +
		"[(1, 2), P(1, 2), deque([1]), range(3), {'a': 1}.keys()]", want: `[[1,2],[1,2],[1],[0,1,2],["a"]]`},
	{name: "sets_are_sorted", source: "def f(): return [{3, 1, 2.5}, {'b', 'a'}, frozenset({(2,), (1,), 'x', 5})]",
		want: `[[1,2.5,3],["a","b"],[5,"x",[1],[2]]]`},
	{name: "keys", source: "def f(): return {'a': 1, 1: 2, 1.5: 3, None: 4, False: 5}",
		want: `{"a":1,"1":2,"1.5":3,"null":4,"false":5}`},
	{name: "records", source: "import dataclasses as d, enum\nclass C(enum.Enum):\n  RED = 'red'\nclass " +
		"N(enum.IntEnum):\n  ONE = 1\n@d.dataclass\nclass A:\n  x: int\n  c: C\n  y: list = " +
		"d.field(default_factory=list)\ndef f(): return [A(1, C.RED), N.ONE]", want: `[{"x":1,"c":"red","y":[]},1]`},
	{name: "subclasses", source: "class S(str): pass\nclass I(int): pass\nclass D(dict): pass\ndef f(): return " +
		"[S('x'), I(3), D(a=1)]", want: `["x",3,{"a":1}]`},
	{name: "seen_twice", source: "def f():\n  a = [1]\n  return [a, a]", want: `[[1],[1]]`},
	{name: "awaited", source: "import asyncio\nasync def f():\n  await asyncio.sleep(0.001)\n  return 1", want: `1`},
	{name: "awaitable_of_a_plain_function", source: "async def g(): return 2\ndef f(): return g()", want: `2`},
	{name: "generator", source: "def f(): return {'items': [1, (i for i in [])]}", kind: haft.FailValue,
		says: []string{"value.items[1]: a generator is not data; return a list"}},
	{name: "function", source: "def f(): return f", kind: haft.FailValue,
		says: []string{"value: a function is not data"}},
	{name: "cycle", source: "def f():\n  a = []\n  a.append(a)\n  return a", kind: haft.FailValue,
		says: []string{"value[0]: it contains itself"}},
	{name: "deep", source: "def f():\n  a = []\n  for _ in range(200): a = [a]\n  return a", kind: haft.FailValue,
		says: []string{"nested more than 100 deep"}},
	{name: "hundred_deep", source: "def f():\n  a = 1\n  for _ in range(100): a = [a]\n  return a",
		want: strings.Repeat("[", 100) + "1" + strings.Repeat("]", 100)},
	{name: "key", source: "def f(): return {(1, 2): 3}", kind: haft.FailValue,
		says: []string{"a tuple cannot be a key"}},
	{name: "two_keys_of_one_text", source: "def f(): return {'1': 1, 1: 2}", kind: haft.FailValue,
		says: []string{"two keys become the same text"}},
	{name: "half_a_surrogate_pair", source: "def f(): return '\\ud800'", kind: haft.FailValue,
		says: []string{"half a surrogate pair"}},
	{name: "digits", source: "def f(): return 10**5000", kind: haft.FailValue, says: []string{"more than 4300 digits"}},
	{name: "too_long", source: "def f(): return 'x' * (5 << 20)", kind: haft.FailResult, status: haft.StatusLimit,
		says: []string{"4194304 bytes"}},
	{name: "endless", source: "class L(list):\n  def __iter__(self):\n    while True: yield 1\ndef f(): return " +
		"['x'*1000] * 10000", kind: haft.FailResult, status: haft.StatusLimit},
}

func TestPython_values(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	for _, c := range valueCases {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindPython) })
	}
}

// paramCases are arguments and what they become.
var paramCases = []toolCase{
	{name: "scalars", source: "def f(a: int, b: float, c: str, d: bool): return [repr(x) for x in (a, b, c, d)]",
		args: `{"a":2.0,"b":1,"c":"x","d":true}`, want: `["2","1.0","'x'","True"]`},
	{name: "dataclasses_nested", source: "from __future__ import annotations\nimport dataclasses as d, datetime, " +
		"enum, uuid, decimal, pathlib\nfrom typing import Optional, List, Dict\nclass C(enum.Enum):\n  RED = " +
		"'red'\n@d.dataclass\nclass In:\n  at: datetime.datetime\n  c: C\n@d.dataclass\nclass Out:\n  inner: In\n  " +
		"many: List[In]\n  by: Dict[int, In]\n  id: Optional[uuid.UUID] = None\n  p: decimal.Decimal = " +
		"decimal.Decimal(0)\ndef f(o: Out, path: pathlib.Path):\n  return [type(o.inner).__name__, " +
		"type(o.many[0].at).__name__, o.many[0].c is C.RED, list(o.by), type(o.id).__name__, str(o.p), " +
		"type(path).__name__]",
		args: `{"o":{"inner":{"at":"2026-01-31T10:00:00Z","c":"red"},"many":[{"at":"2026-01-31T10:00:00.5+01:00","c":"RED"}],"by":{"7":{"at":"2026-01-31T10:00:00","c":"red"}},"id":"00000000-0000-0000-0000-000000000001","p":"1.10"},"path":"/x"}`, want: `["In","datetime",true,[7],"UUID","1.10","PosixPath"]`},
	{name: "collections", source: "from typing import *\nimport collections\ndef f(a: Tuple[int, str], b: " +
		"Tuple[int, ...], c: Set[int], d: FrozenSet[str], e: Sequence[float], g: Mapping[str, int], h: Deque[int]): " +
		"return [repr(x) for x in (a, b, c, d, e, g, h)]",
		args: `{"a":[1,"x"],"b":[1,2],"c":[1,1],"d":["x"],"e":[1],"g":{"a":1},"h":[1]}`,
		want: `["(1, 'x')","(1, 2)","{1}","frozenset({'x'})","[1.0]","{'a': 1}","deque([1])"]`},
	{name: "builtin_generics", source: "def f(a: tuple[int, str], b: list[tuple[int, ...]], c: dict[str, set[int]], " +
		"d: set, e: tuple): return [repr(x) for x in (a, b, c, d, e)]",
		args: `{"a":[1,"x"],"b":[[1]],"c":{"k":[3]},"d":[1],"e":[1]}`,
		want: `["(1, 'x')","[(1,)]","{'k': {3}}","{1}","(1,)"]`},
	{name: "times", source: "import datetime as d\ndef f(a: d.date, b: d.time, c: d.timedelta, e: d.timedelta, g: " +
		"d.datetime): return [repr(x) for x in (a, b, c, e)] + [g]",
		args: `{"a":"2026-01-31","b":"10:00:00","c":"P1DT2H3M4.5S","e":90,"g":"2026-01-31T10:00:00.123Z"}`,
		want: `["datetime.date(2026, 1, 31)","datetime.time(10, 0)","datetime.timedelta(days=1, seconds=7384, microseconds=500000)","datetime.timedelta(seconds=90)","2026-01-31T10:00:00.123Z"]`},
	{name: "bytes", source: "def f(a: bytes, b: bytearray): return [repr(a), repr(b)]",
		args: `{"a":"aGk=","b":{"$type":"bytes","base64":"aGk="}}`, want: `["b'hi'","bytearray(b'hi')"]`},
	{name: "unions", source: "from typing import *\nimport datetime\ndef f(a: Union[int, str], b: " +
		"Optional[datetime.date], c: Union[datetime.date, str], d: Union[str, datetime.date], e: Literal['x', 1]): " +
		"return [repr(x) for x in (a, b, c, d, e)]", args: `{"a":"5","b":null,"c":"2026-01-31","d":"no date","e":1}`,
		want: `["'5'","None","'2026-01-31'","'no date'","1"]`},
	{name: "optional_without_default", source: "from typing import *\nA = Annotated[Optional[int], 'n']\ndef f(a: " +
		"int, p: Optional[str], /, b: Optional[int], c: 'int | None', d: A, e: Union[int, str, None], *, k: " +
		"Optional[List[int]], z: int = 3): return [a, p, b, c, d, e, k, z]", args: `{"a":1,"c":4}`,
		want: `[1,null,null,4,null,null,null,3]`},
	{name: "missing_without_none", source: "def f(a: int, b: str): return a", args: `{"a":1}`, kind: haft.FailException,
		says: []string{"TypeError", "'b'"}},
	{name: "typed_dict_and_named_tuple", source: "from typing import *\nimport datetime\nclass D(TypedDict):\n  at: " +
		"datetime.date\nclass N(NamedTuple):\n  x: int\n  at: datetime.date\ndef f(d: D, n: N, m: N): return " +
		"[repr(d), repr(n), repr(m)]",
		args: `{"d":{"at":"2026-01-31"},"n":[1,"2026-01-31"],"m":{"x":1,"at":"2026-01-31"}}`,
		want: `["{'at': datetime.date(2026, 1, 31)}","N(x=1, at=datetime.date(2026, 1, 31))","N(x=1, at=datetime.date(2026, 1, 31))"]`},
	{name: "null_for_a_default_of_none", source: "def f(a: str = None): return a", args: `{"a":null}`, want: `null`},
	{name: "positional_only_and_keyword_only", source: "def f(a, /, b=2, *, c): return [a, b, c]",
		args: `{"a":1,"c":3}`, want: `[1,2,3]`},
	{name: "new_type_and_annotated", source: "from typing import *\nimport datetime\ntry:\n  from typing import " +
		"Annotated\nexcept ImportError: pass\nU = NewType('U', datetime.date)\ndef f(a: U, b: " +
		"Annotated[datetime.date, 'x']): return [repr(a), repr(b)]", args: `{"a":"2026-01-31","b":"2026-01-31"}`,
		want: `["datetime.date(2026, 1, 31)","datetime.date(2026, 1, 31)"]`},
	{name: "names_for_type_checkers_only", source: "from __future__ import annotations\nfrom typing import " +
		"TYPE_CHECKING\nimport datetime\nif TYPE_CHECKING:\n  from nowhere import X\ndef f(a: datetime.date, b: X): " +
		"return [repr(a), b]", args: `{"a":"2026-01-31","b":1}`, want: `["datetime.date(2026, 1, 31)",1]`},
	{name: "decorated", source: "import functools, datetime\ndef deco(g):\n  @functools.wraps(g)\n  def w(*a, **k): " +
		"return ['w', g(*a, **k)]\n  return w\n@deco\ndef f(a: datetime.date): return repr(a)",
		args: `{"a":"2026-01-31"}`, want: `["w","datetime.date(2026, 1, 31)"]`},
	{name: "byte_order_mark_and_carriage_returns", source: "\ufeffdef f(a):\r\n  return a\r\n", args: `{"a":1}`,
		want: `1`},
	{name: "number_of_too_many_digits", source: "def f(a): return len(str(a))",
		args: `{"a":1` + strings.Repeat("0", 4299) + `}`, want: `4300`},
	{name: "misfit_deep_inside", source: "import dataclasses as d\nfrom typing import List\n@d.dataclass\nclass " +
		"A:\n  n: int\ndef f(a: List[A]): return 1", args: `{"a":[{"n":1},{"n":"SECRET"}]}`, kind: haft.FailValidation,
		status: haft.StatusValidation, says: []string{"the argument a.1.n does not fit: a whole number is expected, " +
			"not a string"}, hides: []string{"SECRET"}},
	{name: "misfit_date", source: "import datetime\ndef f(a: datetime.date): return 1", args: `{"a":"SECRET"}`,
		kind: haft.FailValidation, status: haft.StatusValidation, says: []string{"a date (RFC 3339) is expected"},
		hides: []string{"SECRET"}},
	{name: "misfit_enum", source: "import enum\nclass C(enum.Enum):\n  A = 1\ndef f(a: C): return 1", args: `{"a":9}`,
		kind: haft.FailValidation, status: haft.StatusValidation, says: []string{"it is not a value of C"}},
	{name: "missing_field", source: "import dataclasses as d\n@d.dataclass\nclass A:\n  n: int\ndef f(a: A): return 1",
		args: `{"a":{}}`, kind: haft.FailValidation, status: haft.StatusValidation,
		says: []string{"A: missing 1 required"}},
}

func TestPython_parameters(t *testing.T) {
	for _, py := range pythons(t) {
		x := setup(t, haft.KindPython, script.Config{Hints: map[haft.Kind]string{haft.KindPython: py}})
		for _, c := range paramCases {
			t.Run(filepath.Base(filepath.Dir(filepath.Dir(py)))+"/"+c.name,
				func(t *testing.T) { c.check(t, x, haft.KindPython) })
		}
	}
}

func TestPython_injects_and_hands_in(t *testing.T) {
	x := setup(t, haft.KindPython, script.Config{})
	res := execute(t, x, executor.Request{
		Kind: haft.KindPython, Tool: "weather", Args: json.RawMessage(`{"n":1}`),
		Source: "import os, sys, inspect\nfrom extra import x\ndef f(n, agent_state, agent_id):\n  return [n, " +
			"agent_state.memory.human, agent_id, os.environ['TOKEN'], open('data/in.txt').read(), x, __name__, " +
			"inspect.getsource(f).splitlines()[0], sys.stdin.read()]",
		Inject: map[string]json.RawMessage{"agent_state": json.RawMessage(`{"memory":{"human":"h"}}`),
			"agent_id": json.RawMessage(`"a1"`), "other": json.RawMessage(`1`)},
		Env: map[string]string{"TOKEN": "t"}, Modules: []sandbox.File{{Name: "extra.py", Data: []byte("x = 5")}},
		Files: []sandbox.File{{Name: "data/in.txt", Data: []byte("in")}},
	})
	want := `[1,"h","a1","t","in",5,"__haft_tool__","def f(n, agent_state, agent_id):",""]`
	if string(res.Value) != want {
		t.Errorf("got %s %+v, want %s", res.Value, res.Error, want)
	}
}

func TestPython_pydantic(t *testing.T) {
	cfg := script.Config{}
	if env, err := filepath.Abs("../../.haft/testenv"); err == nil {
		if _, err := os.Stat(filepath.Join(env, "bin", "python3")); err == nil {
			cfg.Hints = map[haft.Kind]string{haft.KindPython: env} // which scripts/setup makes
		}
	}
	x := setup(t, haft.KindPython, cfg)
	probe := execute(t, x, executor.Request{Kind: haft.KindPython,
		Source: "import pydantic\ndef f(): return pydantic.VERSION"})
	if probe.Error != nil {
		skiptest.Lacking(t, "pydantic", probe.Error.Message)
	}
	src := "from pydantic import BaseModel, Field, SecretStr, AnyUrl\nfrom typing import List\nimport " +
		"datetime\nclass I(BaseModel):\n  at: datetime.date\nclass M(BaseModel):\n  n: int = Field(ge=1, " +
		"alias='N')\n  items: List[I]\n  url: AnyUrl\n  s: SecretStr\ndef f(m: M, many: List[I]): return [m, " +
		"type(many[0]).__name__]"
	for _, c := range []toolCase{
		{name: "model", source: src,
			args: `{"m":{"N":1,"items":[{"at":"2026-01-31"}],"url":"http://x/","s":"SECRET"},"many":[{"at":"2026-01-31"}]}`, want: `[{"N":1,"items":[{"at":"2026-01-31"}],"url":"http://x/","s":"**********"},"I"]`},
		{name: "misfit", source: src, args: `{"m":{"N":0,"items":[],"url":"http://x/","s":"x"},"many":[]}`,
			kind: haft.FailValidation, status: haft.StatusValidation,
			says: []string{"the argument m.N does not fit: Input should be greater than or equal to 1"}},
	} {
		t.Run(c.name, func(t *testing.T) { c.check(t, x, haft.KindPython) })
	}
}
