package pyschema

import "strings"

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
	if t, ok := tags[full]; ok {
		return t
	}
	if _, ok := texts[full]; ok {
		return "text"
	}
	if _, ok := bounded[full]; ok {
		return "bounded"
	}
	return ""
}

// tags sorts the names from elsewhere by how they are treated.
var tags = map[string]string{
	"builtins.int": "int", "builtins.str": "str", "builtins.bool": "bool", "builtins.float": "float",
	"builtins.object": "any", "builtins.list": "list", "builtins.tuple": "tuple", "builtins.dict": "dict",
	"builtins.set": "set", "builtins.frozenset": "set", "builtins.bytes": "bytes", "builtins.bytearray": "bytes",
	"builtins.any":      "any", // what people write who mean Any
	"builtins.callable": "refused", "builtins.Exception": "refused", "builtins.BaseException": "refused",
	"builtins.property": "refused",
	"builtins.range":    "refused", "builtins.slice": "refused", "builtins.iter": "refused", "builtins.map": "refused",
	"builtins.complex": "refused", "builtins.type": "refused", "builtins.memoryview": "bytes",
	"types.NoneType": "none", "types.SimpleNamespace": "refused", "types.FunctionType": "refused",

	"typing.Any": "any", "typing.Text": "str", "typing.AnyStr": "str", "typing.LiteralString": "str",
	"typing.Hashable": "any", "typing.NoReturn": "none", "typing.Never": "none", "typing.ByteString": "bytes",
	"typing.List": "list", "typing.Sequence": "list", "typing.MutableSequence": "list", "typing.Iterable": "list",
	"typing.Collection": "list", "typing.Deque": "list", "typing.Reversible": "list", "typing.Container": "list",
	"typing.Tuple": "tuple", "typing.Set": "set", "typing.FrozenSet": "set", "typing.AbstractSet": "set",
	"typing.MutableSet": "set", "typing.Dict": "dict", "typing.Mapping": "dict", "typing.MutableMapping": "dict",
	"typing.DefaultDict": "dict", "typing.OrderedDict": "dict", "typing.ChainMap": "dict", "typing.Counter": "counter",
	"typing.Optional": "optional", "typing.Union": "union", "typing.Literal": "literal",
	"typing.Annotated": "annotated",
	"typing.ClassVar":  "classvar", "typing.Final": "final", "typing.Required": "required",
	"typing.NotRequired": "notrequired", "typing.ReadOnly": "readonly", "typing.TypeAlias": "typealias",
	"typing.NewType": "newtype", "typing.TypeVar": "typevar", "typing.ParamSpec": "typevar",
	"typing.TypeVarTuple":  "typevar",
	"typing.TypeAliasType": "aliastype",
	"typing.TypedDict":     "typeddict", "typing.NamedTuple": "namedtuple", "typing.Generic": "generic",
	"typing.Protocol": "generic",
	"typing.Callable": "refused", "typing.Type": "refused", "typing.Self": "refused", "typing.IO": "refused",
	"typing.TextIO": "refused", "typing.BinaryIO": "refused", "typing.Iterator": "refused",
	"typing.Generator":     "refused",
	"typing.AsyncIterator": "refused", "typing.AsyncGenerator": "refused", "typing.AsyncIterable": "refused",
	"typing.Concatenate": "refused", "typing.Unpack": "refused", "typing.TypeGuard": "refused",
	"typing.Awaitable": "awaitable", "typing.Coroutine": "coroutine", "typing.Doc": "doc", "typing.Pattern": "pattern",
	"typing.SupportsInt": "float", "typing.SupportsFloat": "float",

	"collections.abc.Sequence": "list", "collections.abc.MutableSequence": "list", "collections.abc.Iterable": "list",
	"collections.abc.Collection": "list", "collections.abc.Reversible": "list", "collections.abc.Container": "list",
	"collections.abc.Set": "set", "collections.abc.MutableSet": "set", "collections.abc.Mapping": "dict",
	"collections.abc.MutableMapping": "dict", "collections.abc.Hashable": "any", "collections.abc.Callable": "refused",
	"collections.abc.Iterator": "refused", "collections.abc.Generator": "refused",
	"collections.abc.ByteString":    "bytes",
	"collections.abc.AsyncIterator": "refused", "collections.abc.AsyncGenerator": "refused",
	"collections.abc.AsyncIterable": "refused", "collections.abc.Buffer": "bytes",
	"collections.abc.Awaitable": "awaitable", "collections.abc.Coroutine": "coroutine",
	"collections.deque": "list", "collections.OrderedDict": "dict", "collections.defaultdict": "dict",
	"collections.Counter": "counter", "collections.ChainMap": "dict", "collections.namedtuple": "namedtuple",

	"enum.Enum": "enum", "enum.IntEnum": "intenum", "enum.StrEnum": "strenum", "enum.Flag": "flag",
	"enum.IntFlag": "flag",
	"enum.auto":    "auto", "strenum.StrEnum": "strenum", "enum.ReprEnum": "enum",
	"abc.ABC": "plain", "dataclasses.InitVar": "initvar", "dataclasses.KW_ONLY": "classvar",
	"dataclasses.field": "field", "dataclasses.dataclass": "dataclass",
	"attrs.define": "dataclass", "attrs.frozen": "dataclass", "attrs.mutable": "dataclass", "attrs.field": "field",
	"decimal.Decimal": "decimal", "numbers.Number": "float", "numbers.Real": "float", "numbers.Integral": "int",

	"pydantic.BaseModel": "model", "pydantic_settings.BaseSettings": "model", "sqlmodel.SQLModel": "model",
	"pydantic.RootModel": "rootmodel", "pydantic.Field": "field", "sqlmodel.Field": "field",
	"pydantic.PrivateAttr": "private",
	"pydantic.ConfigDict":  "config", "pydantic_settings.SettingsConfigDict": "config",
	"pydantic.StringConstraints": "constraints", "pydantic.WithJsonSchema": "jsonschema",
	"pydantic.dataclass": "dataclass", "pydantic.StrictInt": "int", "pydantic.StrictStr": "str",
	"pydantic.StrictBool":  "bool",
	"pydantic.StrictFloat": "float", "pydantic.FiniteFloat": "float", "pydantic.AllowInfNan": "ignored",
	"pydantic.StrictBytes": "bytes", "pydantic.JsonValue": "any", "pydantic.Json": "json",
	"pydantic.AliasChoices": "alias",
	"pydantic.ByteSize":     "bytesize", "pydantic.OnErrorOmit": "same", "pydantic.SkipValidation": "same",
	"pydantic.SerializeAsAny": "same", "pydantic.InstanceOf": "refused", "pydantic.Strict": "ignored",
	"pydantic.create_model": "createmodel", "pydantic.conint": "con:int", "pydantic.confloat": "con:float",
	"pydantic.constr":     "con:str",
	"pydantic.condecimal": "con:decimal", "pydantic.conlist": "con:list", "pydantic.conset": "con:set",
	"pydantic.confrozenset": "con:set", "pydantic.conbytes": "con:bytes", "pydantic.condate": "con:date",
	"pydantic.to_camel": "case", "pydantic.to_pascal": "case", "pydantic.to_snake": "case",

	"annotated_types.Gt": "at:gt", "annotated_types.Ge": "at:ge", "annotated_types.Lt": "at:lt",
	"annotated_types.Le":         "at:le",
	"annotated_types.MultipleOf": "at:multiple_of", "annotated_types.MinLen": "at:min_length",
	"annotated_types.MaxLen": "at:max_length", "annotated_types.Len": "at:len",
	"annotated_types.Interval": "constraints",
	"annotated_types.doc":      "doc",
}

// texts are the types that are written as text, with their format.
var texts = map[string]string{
	"datetime.datetime": "date-time", "datetime.date": "date", "datetime.time": "time",
	"datetime.timedelta": "duration",
	"uuid.UUID":          "uuid", "pathlib.Path": "path", "pathlib.PurePath": "path", "pathlib.PosixPath": "path",
	"pathlib.PurePosixPath": "path", "os.PathLike": "path", "zoneinfo.ZoneInfo": "zoneinfo", "re.Pattern": "regex",
	"ipaddress.IPv4Address": "ipv4", "ipaddress.IPv6Address": "ipv6", "ipaddress.IPv4Network": "ipv4network",
	"ipaddress.IPv6Network": "ipv6network", "ipaddress.IPv4Interface": "ipv4interface",
	"ipaddress.IPv6Interface": "ipv6interface",
	"pydantic.AnyUrl":         "uri", "pydantic.AnyHttpUrl": "uri", "pydantic.HttpUrl": "uri",
	"pydantic.FileUrl": "uri",
	"pydantic.FtpUrl":  "uri", "pydantic.WebsocketUrl": "uri", "pydantic.AnyWebsocketUrl": "uri",
	"pydantic.PostgresDsn": "uri",
	"pydantic.MySQLDsn":    "uri", "pydantic.RedisDsn": "uri", "pydantic.AmqpDsn": "uri", "pydantic.KafkaDsn": "uri",
	"pydantic.MongoDsn": "uri", "pydantic.NatsDsn": "uri", "pydantic.MariaDBDsn": "uri",
	"pydantic.ClickHouseDsn": "uri",
	"pydantic.EmailStr":      "email", "pydantic.NameEmail": "name-email", "pydantic.IPvAnyAddress": "ipvanyaddress",
	"pydantic.IPvAnyNetwork": "ipvanynetwork", "pydantic.IPvAnyInterface": "ipvanyinterface",
	"pydantic.FilePath": "file-path", "pydantic.DirectoryPath": "directory-path", "pydantic.NewPath": "path",
	"pydantic.SocketPath": "path",
	"pydantic.PastDate":   "date", "pydantic.FutureDate": "date", "pydantic.AwareDatetime": "date-time",
	"pydantic.NaiveDatetime": "date-time", "pydantic.PastDatetime": "date-time", "pydantic.FutureDatetime": "date-time",
	"pydantic.UUID1": "uuid", "pydantic.UUID3": "uuid", "pydantic.UUID4": "uuid", "pydantic.UUID5": "uuid",
	"pydantic.UUID6": "uuid", "pydantic.UUID7": "uuid", "pydantic.UUID8": "uuid",
	"pydantic.SecretStr": "password", "pydantic.SecretBytes": "password",
	"pydantic.Base64Str": "byte", "pydantic.Base64Bytes": "byte", "pydantic.Base64UrlStr": "base64url",
	"pydantic.Base64UrlBytes": "base64url",
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
