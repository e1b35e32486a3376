// Package value reads what a tool gives back as data.
//
// A tool gives back a value of its own language. The harness of each runtime
// writes it as JSON by the one rule below; [Check] verifies what arrives, since
// the writer runs beside code that nobody trusts. A tool that only prints has
// its text read as the type that was expected of it: [Read]. Then the value is
// held against its schema ([Misfits]) and against expressions ([Validators]),
// and [Cut] shortens it to what a model gets to see.
//
// # The rule for values as JSON
//
// Every encoder follows this table. A value that no line names is an error, and
// so is a value that JSON cannot hold without loss: nothing is dropped, rounded
// or turned into its repr in silence.
//
//	value                      Python                        JavaScript, TypeScript            JSON
//	------------------------- ---------------------------- --------------------------------
//	--------------------------------
//	nothing                    None                          null, undefined                   null
//	truth                      bool                          boolean                           true, false
//	whole number               int                           BigInt, number                    all its digits, at most 4300 of them
//	number                     float                         number                            shortest text that reads back equal
//	not a finite number nan, inf, -inf NaN, Infinity, -Infinity {"$type":"float","value":"NaN"}, "Infinity" or
//	"-Infinity"
//	text                       str                           string                            string; half a surrogate pair is an error
//	exact decimal              Decimal                       -                                 string, as str() writes it; NaN and Infinity as for float
//	fraction                   Fraction                      -                                 string "3/4"
//	date                       date                          -                                 string "2026-01-31"
//	moment with offset         datetime with tzinfo          Date                              string, RFC 3339: "2026-01-31T10:00:00+01:00", UTC as "Z"
//	moment without offset      datetime without tzinfo       -                                 the same without offset: none is invented
//	time of day                time                          -                                 string "10:00:00", ".5" added only if needed
//	duration                   timedelta                     -                                 string, ISO 8601: "P1DT2H3M4.5S", "-PT5S", "PT0S"
//	UUID                       UUID                          -                                 string, lower case with hyphens
//	bytes bytes bytearray memoryview Uint8Array Buffer ArrayBuffer {"$type":"bytes","base64":"aGk="}, standard alphabet,
//	padded
//	list                       list tuple NamedTuple deque   Array, other typed arrays         array
//	                           range, dict views
//	set                        set frozenset                 Set                               array; see below for its order
//	map                        dict and other Mapping        plain object, Map                 object, in the order of the map
//	record                     dataclass, attrs class        instance of a class               object of its fields (own enumerable properties)
//	model                      Pydantic 1 and 2              object with toJSON                object by alias; what toJSON returns, by this rule
//	enum                       Enum                          -                                 its value, by this rule
//	path, address              PurePath, ipaddress, AnyUrl   URL                               string
//	secret                     SecretStr, SecretBytes        -                                 "**********"
//	array of numbers           numpy scalar, ndarray         -                                 number; nested arrays
//	table                      pandas Series, DataFrame      -                                 array; array of one object per row. Labels of rows that are
//	                                                                                           not just numbers are
//	                                                                                           columns; those of a
//	                                                                                           Series its keys
//	promise                    awaitable                     Promise                           awaited if it is the whole value, else an error
//	anything else generator, function, class, function, symbol, WeakMap, an error: its class, where it is, what to
//	return instead
//	                           module, file, exception, ...  invalid Date, Error, RegExp, ...
//
// Details that make it one rule:
//
//   - Subclasses follow their base, the most special line first: bool before int,
//     datetime before date, NamedTuple before tuple, Enum before int and str,
//     a model before Mapping.
//   - A set has the order of its language where there is one (JavaScript). Where
//     there is none (Python) it is sorted: numbers by value, strings by code point,
//     anything else by its JSON text.
//   - Keys of a map are strings. A number, a boolean or null becomes its JSON text
//     ("1", "1.5", "true", "null"), and a value that the table writes as a string
//     becomes that string. Other keys are an error, and so are two keys that become
//     one text.
//   - In JavaScript a property that is undefined is left out, as everywhere in the
//     language; in an array it is null. An array with holes is the same.
//   - A value that contains itself is an error. Seeing a value twice is not.
//   - Containers nest at most [MaxDepth] deep, and a value has at most [MaxParts]
//     parts. The whole text is at most the limit
//     of the run, Limits.Result.
//   - The text is UTF-8 without a BOM, one value, no duplicate keys, nothing after
//     it. The key "$type" is not escaped: an object of the tool that looks like a
//     tag reads as one.
//   - The error of an encoder says where, as value.items[3].when, and which class,
//     never the value: "value.items[3].when: a generator is not data; return a
//     list".
package value

// MaxDepth is how deep containers of a value may nest. It is below the bound on
// documents, so that a value still fits when it is put into one.
const MaxDepth = 100

// MaxParts is how many values a value may consist of, itself and all containers
// counted. Each costs some hundred bytes while it is looked at, whatever it is: 4 MB
// of [1,1,…] took 1.3 s and 220 MB.
const MaxParts = 250_000

// MaxDigits is the longest number, in characters. It is CPython's own bound on
// turning int into text.
const MaxDigits = 4300
