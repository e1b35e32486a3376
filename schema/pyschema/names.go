package pyschema

import (
	"strings"
	"sync"
)

// A meaning is what a name stands for: a declaration of the source, or something
// from elsewhere by its full name, or nothing we know (the zero value).
type meaning struct {
	def   *statement // a class, assignment, alias or function of the source
	value *expr      // of an assignment in a class
	in    *statement // the class of value
	full  string     // such as typing.List, or a module
}

// resolve finds what a name or a dotted name stands for, as seen from within a
// class or, if in is nil, from the module.
func (m *module) resolve(e *expr, in *statement) meaning {
	if e == nil {
		return meaning{}
	}
	switch e.Kind {
	case "name":
		return m.lookup(e.Name, in)
	case "attr":
		if e.dotted() == "" {
			return meaning{}
		}
		base := m.resolve(e.Value, in)
		switch {
		case base.full != "":
			return meaning{full: canonical(base.full + "." + e.Name)}
		case base.def != nil && base.def.Is == "class":
			if c := base.def.inner(e.Name); c != nil {
				return meaning{def: c}
			}
			return m.member(base.def, e.Name)
		}
	}
	return meaning{}
}

// lookup finds a plain name: in the classes around, the module, what is imported
// by star, and among the builtins. The names of typing count as known even where
// the import is missing, as every system that runs tools provides them.
func (m *module) lookup(name string, in *statement) meaning {
	for c, depth := in, 0; c != nil && depth < maxDepth; c, depth = c.outer, depth+1 {
		if inner := c.inner(name); inner != nil {
			return meaning{def: inner}
		}
		if got := m.member(c, name); got.value != nil {
			return got
		}
	}
	if s, ok := m.names[name]; ok {
		switch s.Is {
		case "import":
			return meaning{full: s.Module}
		case "from":
			return meaning{full: canonical(s.Module + "." + s.Imported)}
		}
		return meaning{def: s}
	}
	for i := len(m.stars) - 1; i >= 0; i-- {
		if full := canonical(m.stars[i] + "." + name); tagOf(full) != "" {
			return meaning{full: full}
		}
	}
	for _, module := range []string{"builtins.", "typing."} {
		if tagOf(module+name) != "" {
			return meaning{full: module + name}
		}
	}
	return meaning{}
}

// member finds a name that a class gives a value but no type.
func (m *module) member(c *statement, name string) meaning {
	for i := range c.Body {
		if f := &c.Body[i]; f.Name == name && f.Value != nil && f.Type == nil {
			return meaning{value: f.Value, in: c}
		}
	}
	return meaning{}
}

// canonical gives names that can be imported from several places one name.
func canonical(full string) string {
	module, name, ok := cutLast(full)
	if !ok {
		return full
	}
	switch {
	case module == "typing_extensions" || module == "mypy_extensions":
		return "typing." + name
	case module == "pydantic.dataclasses" && name == "dataclass":
		return "dataclasses.dataclass"
	case strings.HasPrefix(module, "pydantic.") && name != "" && tagOf("pydantic."+name) != "":
		return "pydantic." + name
	case module == "attr":
		return "attrs." + name
	case module == "annotated_doc" || module == "fast_depends":
		return "typing." + name
	}
	return full
}

// cutLast cuts a dotted name before its last part.
func cutLast(full string) (module, name string, ok bool) {
	i := strings.LastIndexByte(full, '.')
	if i <= 0 {
		return "", full, false
	}
	return full[:i], full[i+1:], true
}

// tagOf says how a name from elsewhere is treated, or "" if we do not know it.
func tagOf(full string) string {
	if t, ok := tags()[full]; ok {
		return t
	}
	if _, ok := texts()[full]; ok {
		return "text"
	}
	if _, ok := bounded[full]; ok {
		return "bounded"
	}
	return ""
}

// tags sorts imported and built-in names by how they are treated. builtins.any is often
// written in place of Any.
var tags = sync.OnceValue(func() map[string]string {
	return readNames(`
str: builtins.str typing.Text typing.AnyStr typing.LiteralString pydantic.StrictStr
float: builtins.float typing.SupportsInt typing.SupportsFloat numbers.Number numbers.Real pydantic.StrictFloat
	pydantic.FiniteFloat
any: builtins.object builtins.any typing.Any typing.Hashable collections.abc.Hashable pydantic.JsonValue
list: builtins.list typing.List typing.Sequence typing.MutableSequence typing.Iterable typing.Collection
	typing.Deque typing.Reversible typing.Container collections.abc.Sequence collections.abc.MutableSequence
	collections.abc.Iterable collections.abc.Collection collections.abc.Reversible collections.abc.Container
	collections.deque
dict: builtins.dict typing.Dict typing.Mapping typing.MutableMapping typing.DefaultDict typing.OrderedDict
	typing.ChainMap collections.abc.Mapping collections.abc.MutableMapping collections.OrderedDict
	collections.defaultdict collections.ChainMap
set: builtins.set builtins.frozenset typing.Set typing.FrozenSet typing.AbstractSet typing.MutableSet
	collections.abc.Set collections.abc.MutableSet
bytes: builtins.bytes builtins.bytearray builtins.memoryview typing.ByteString collections.abc.ByteString
	collections.abc.Buffer pydantic.StrictBytes
refused: builtins.callable builtins.Exception builtins.BaseException builtins.property builtins.range
	builtins.slice builtins.iter builtins.map builtins.complex builtins.type types.SimpleNamespace
	types.FunctionType typing.Callable typing.Type typing.Self typing.IO typing.TextIO typing.BinaryIO
	typing.Iterator typing.Generator typing.AsyncIterator typing.AsyncGenerator typing.AsyncIterable
	typing.Concatenate typing.Unpack typing.TypeGuard collections.abc.Callable collections.abc.Iterator
	collections.abc.Generator collections.abc.AsyncIterator collections.abc.AsyncGenerator
	collections.abc.AsyncIterable pydantic.InstanceOf
typevar: typing.TypeVar typing.ParamSpec typing.TypeVarTuple
field: dataclasses.field attrs.field pydantic.Field sqlmodel.Field
dataclass: dataclasses.dataclass attrs.define attrs.frozen attrs.mutable pydantic.dataclass
model: pydantic.BaseModel pydantic_settings.BaseSettings sqlmodel.SQLModel
config: pydantic.ConfigDict pydantic_settings.SettingsConfigDict
constraints: pydantic.StringConstraints annotated_types.Interval
same: pydantic.OnErrorOmit pydantic.SkipValidation pydantic.SerializeAsAny
case: pydantic.to_camel pydantic.to_pascal pydantic.to_snake
int: builtins.int numbers.Integral pydantic.StrictInt  bool: builtins.bool pydantic.StrictBool
tuple: builtins.tuple typing.Tuple  none: types.NoneType typing.NoReturn typing.Never
counter: typing.Counter collections.Counter  optional: typing.Optional  union: typing.Union
literal: typing.Literal  annotated: typing.Annotated  classvar: typing.ClassVar dataclasses.KW_ONLY
final: typing.Final  required: typing.Required  notrequired: typing.NotRequired  readonly: typing.ReadOnly
typealias: typing.TypeAlias  newtype: typing.NewType  aliastype: typing.TypeAliasType  typeddict: typing.TypedDict
namedtuple: typing.NamedTuple collections.namedtuple  generic: typing.Generic typing.Protocol
awaitable: typing.Awaitable collections.abc.Awaitable  coroutine: typing.Coroutine collections.abc.Coroutine
doc: typing.Doc annotated_types.doc  pattern: typing.Pattern  enum: enum.Enum enum.ReprEnum  intenum: enum.IntEnum
strenum: enum.StrEnum strenum.StrEnum  flag: enum.Flag enum.IntFlag  auto: enum.auto  plain: abc.ABC
initvar: dataclasses.InitVar  decimal: decimal.Decimal  rootmodel: pydantic.RootModel
private: pydantic.PrivateAttr  jsonschema: pydantic.WithJsonSchema  ignored: pydantic.AllowInfNan pydantic.Strict
json: pydantic.Json  alias: pydantic.AliasChoices  bytesize: pydantic.ByteSize  createmodel: pydantic.create_model
con:int: pydantic.conint  con:float: pydantic.confloat  con:str: pydantic.constr  con:decimal: pydantic.condecimal
con:list: pydantic.conlist  con:set: pydantic.conset pydantic.confrozenset  con:bytes: pydantic.conbytes
con:date: pydantic.condate  at:gt: annotated_types.Gt  at:ge: annotated_types.Ge  at:lt: annotated_types.Lt
at:le: annotated_types.Le  at:multiple_of: annotated_types.MultipleOf  at:min_length: annotated_types.MinLen
at:max_length: annotated_types.MaxLen  at:len: annotated_types.Len
`)
})

// texts are the types that are written as text, with their format.
var texts = sync.OnceValue(func() map[string]string {
	return readNames(`
date-time: datetime.datetime pydantic.AwareDatetime pydantic.NaiveDatetime pydantic.PastDatetime
	pydantic.FutureDatetime
date: datetime.date pydantic.PastDate pydantic.FutureDate
uuid: uuid.UUID pydantic.UUID1 pydantic.UUID3 pydantic.UUID4 pydantic.UUID5 pydantic.UUID6 pydantic.UUID7
	pydantic.UUID8
path: pathlib.Path pathlib.PurePath pathlib.PosixPath pathlib.PurePosixPath os.PathLike pydantic.NewPath
	pydantic.SocketPath
uri: pydantic.AnyUrl pydantic.AnyHttpUrl pydantic.HttpUrl pydantic.FileUrl pydantic.FtpUrl pydantic.WebsocketUrl
	pydantic.AnyWebsocketUrl pydantic.PostgresDsn pydantic.MySQLDsn pydantic.RedisDsn pydantic.AmqpDsn
	pydantic.KafkaDsn pydantic.MongoDsn pydantic.NatsDsn pydantic.MariaDBDsn pydantic.ClickHouseDsn
time: datetime.time  duration: datetime.timedelta  zoneinfo: zoneinfo.ZoneInfo  regex: re.Pattern
ipv4: ipaddress.IPv4Address  ipv6: ipaddress.IPv6Address  ipv4network: ipaddress.IPv4Network
ipv6network: ipaddress.IPv6Network  ipv4interface: ipaddress.IPv4Interface  ipv6interface: ipaddress.IPv6Interface
email: pydantic.EmailStr  name-email: pydantic.NameEmail  ipvanyaddress: pydantic.IPvAnyAddress
ipvanynetwork: pydantic.IPvAnyNetwork  ipvanyinterface: pydantic.IPvAnyInterface  file-path: pydantic.FilePath
directory-path: pydantic.DirectoryPath  password: pydantic.SecretStr pydantic.SecretBytes
haft-file: haft.File  byte: pydantic.Base64Str pydantic.Base64Bytes  base64url: pydantic.Base64UrlStr pydantic.Base64UrlBytes
`)
})

// readNames reads a table of words, each with a colon and the names that it is for. The
// tables are read when they are first needed: a sandbox's init is this program too, and
// pays for everything that is done before main.
func readNames(table string) map[string]string {
	all, word := map[string]string{}, ""
	for _, w := range strings.Fields(table) {
		if is, ok := strings.CutSuffix(w, ":"); ok {
			word = is
		} else {
			all[w] = word
		}
	}
	return all
}

// bounded are Pydantic's numbers with a bound: type, keyword, value.
var bounded = map[string][3]string{
	"pydantic.PositiveInt":      {"integer", "exclusiveMinimum", "0"},
	"pydantic.NonNegativeInt":   {"integer", "minimum", "0"},
	"pydantic.NegativeInt":      {"integer", "exclusiveMaximum", "0"},
	"pydantic.NonPositiveInt":   {"integer", "maximum", "0"},
	"pydantic.PositiveFloat":    {"number", "exclusiveMinimum", "0"},
	"pydantic.NonNegativeFloat": {"number", "minimum", "0"},
	"pydantic.NegativeFloat":    {"number", "exclusiveMaximum", "0"},
	"pydantic.NonPositiveFloat": {"number", "maximum", "0"},
}
