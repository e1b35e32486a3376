package haft

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// MaxToolName is the longest tool name that every model vendor accepts.
const MaxToolName = 64

// RandomID is how many random characters of base32 the ids of tools and agents end
// with: 120 bits, which nobody guesses and which fit into the 122 of a UUID, for
// those who know them by one.
const RandomID = 24

// toolName is what all vendors accept as a function name.
var toolName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`) })

// ToolID identifies a tool for as long as it exists, whatever its name is.
type ToolID string

// Kind says what a tool is made of, and so which executor runs it.
type Kind string

// The kinds of tools.
const (
	KindBuiltin    Kind = "builtin"    // a Go function of this binary
	KindPython     Kind = "python"     // Python source
	KindTypeScript Kind = "typescript" // TypeScript source
	KindJavaScript Kind = "javascript" // JavaScript source
	KindBash       Kind = "bash"       // a shell script
	KindMCP        Kind = "mcp"        // a tool of an upstream MCP server
)

// Kinds lists every kind, in the order of the constants.
func Kinds() []Kind {
	return []Kind{KindBuiltin, KindPython, KindTypeScript, KindJavaScript, KindBash, KindMCP}
}

// A Tool is something a model can call. It is a name with a history: every edit
// makes a new [Version], and Version is the one that calls run now.
type Tool struct {
	ID       ToolID   `json:"id"`
	Org      string   `json:"org"`
	Name     string   `json:"name"`
	Category string   `json:"category,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	// Metadata is what programs keep with it. Nothing is decided by it.
	Metadata map[string]json.RawMessage `json:"metadata,omitempty"`
	// Disabled tools keep their history and refuse calls.
	Disabled bool `json:"disabled,omitempty"`
	// Unavailable says why whoever reads the tool cannot use it, such as that a key is missing, and what to do. Models
	// are not offered it. A call that brings the key itself runs.
	Unavailable string    `json:"unavailable,omitempty"`
	Created     time.Time `json:"created_at"`
	Updated     time.Time `json:"updated_at"`
	Version     Version   `json:"version"`
}

// Revision changes with every write: it is the digest of the version and when the
// rest was last changed.
func (t Tool) Revision() string { return t.Version.Digest + "." + revision(t.Updated) }

// A Version is one immutable state of a tool. Calls and approvals name the
// version they are for by its Digest.
type Version struct {
	Number int  `json:"number"`
	Kind   Kind `json:"kind"`
	// Digest is over source, files, function, schemas, requirements, their lock and
	// settings.
	Digest      string `json:"digest"`
	Description string `json:"description"`
	// Source is the code, empty for built-in and MCP tools.
	Source string `json:"source_code,omitempty"`
	// File is the name of the file that Source was read from, which tracebacks show; empty means that of the tool.
	File string `json:"file,omitempty"`
	// Files lie beside Source when it runs: modules that it imports, and data. They are
	// ordered by path.
	Files []ToolFile `json:"files,omitempty"`
	// Function is the function of Source that is the tool, or what an MCP server
	// calls it.
	Function string `json:"function,omitempty"`
	// Server and Origin are the name and the [MCPServer.Origin] of the server whose
	// tool it is.
	Server string `json:"server,omitempty"`
	Origin string `json:"origin,omitempty"`
	// Pass is what a function that takes its arguments by position is given, in
	// order; empty means one object of all.
	Pass []Argument `json:"pass,omitempty"`
	// Injected are the parameters that Haft fills in and no model sees.
	Injected []string `json:"injected,omitempty"`
	// Parameters is the JSON Schema of the arguments, always of type object.
	Parameters json.RawMessage `json:"parameters"`
	// Returns is the JSON Schema of the value, where it is known.
	Returns      json.RawMessage `json:"returns,omitempty"`
	Health       SchemaHealth    `json:"schema_health"`
	Requirements Requirements    `json:"requirements,omitzero"`
	// Lock names the exact packages that the requirements became.
	Lock     Lock     `json:"lock,omitzero"`
	Settings Settings `json:"settings,omitzero"`
	// Annotations are what the tool's author claims of it.
	Annotations Annotations `json:"annotations,omitzero"`
	// Review is what was found in the source, and what people say to it. It is
	// not part of Digest.
	Review  Review    `json:"review,omitzero"`
	Author  string    `json:"author,omitempty"`
	Created time.Time `json:"created_at"`
}

// A ToolFile is a file of a tool besides its source: a module or data.
type ToolFile struct {
	// Path is where the tool finds it, relative to its working directory, with slashes.
	Path string `json:"path"`
	// Text is the content. A content that is not text is Data instead, which JSON carries as
	// base64.
	Text string `json:"content,omitempty"`
	Data []byte `json:"content_base64,omitempty"`
	// Omitted says that the content is left out: lists of tools have the paths only. A draft with such a file is
	// refused.
	Omitted bool `json:"content_omitted,omitempty"`
}

// Bytes returns the content.
func (f ToolFile) Bytes() []byte {
	if len(f.Data) > 0 {
		return f.Data
	}
	return []byte(f.Text)
}

// The bounds on the files of a tool.
const (
	MaxToolFiles     = 64
	MaxToolFilePath  = 200     // bytes
	MaxToolFileDepth = 8       // directories and the file itself
	MaxToolFileBytes = 2 << 20 // of all files together
)

// An Argument is one thing that a function is given.
type Argument struct {
	// Name is the argument's, or the injected value's.
	Name string `json:"name"`
	// Whole passes the object of all arguments instead. Injected values that are
	// not passed by name are properties of it.
	Whole bool `json:"whole,omitempty"`
}

// Annotations are the hints of MCP: claims of the author of the tool. Nil means
// that nothing is claimed, and MCP's default holds: not read-only, destructive,
// not idempotent, open to the world.
type Annotations struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    *bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool  `json:"destructiveHint,omitempty"`
	Idempotent  *bool  `json:"idempotentHint,omitempty"`
	OpenWorld   *bool  `json:"openWorldHint,omitempty"`
}

// Requirements are the packages that a tool's source needs.
type Requirements struct {
	Pip []string `json:"pip,omitempty"`
	NPM []string `json:"npm,omitempty"`
}

// Empty reports whether nothing is needed.
func (n Requirements) Empty() bool { return len(n.Pip)+len(n.NPM) == 0 }

// And returns these packages and others.
func (n Requirements) And(more Requirements) Requirements {
	return Requirements{Pip: slices.Concat(n.Pip, more.Pip), NPM: slices.Concat(n.NPM, more.NPM)}
}

// Of returns the packages that code of a kind can import.
func (n Requirements) Of(kind Kind) Requirements {
	switch kind {
	case KindPython:
		return Requirements{Pip: n.Pip}
	case KindJavaScript, KindTypeScript:
		return Requirements{NPM: n.NPM}
	}
	return Requirements{}
}

// SplitRequirements sorts packages by the installer: those with the prefix npm: or pip:, and others by the kind of the
// code.
func SplitRequirements(kind Kind, list []string) Requirements {
	var n Requirements
	for _, r := range list {
		name, npm := strings.CutPrefix(r, "npm:")
		name, pip := strings.CutPrefix(name, "pip:")
		if npm || !pip && (kind == KindTypeScript || kind == KindJavaScript) {
			n.NPM = append(n.NPM, name)
		} else {
			n.Pip = append(n.Pip, name)
		}
	}
	return n
}

// A Lock names the exact packages that a version runs with, by the digests of their
// lists. The lists themselves, with hashes, are kept beside the tool.
type Lock struct {
	// Set is the digest of what was asked for, by the tool and by the sandbox
	// configuration of its organisation.
	Set string `json:"set,omitempty"`
	Pip string `json:"pip,omitempty"`
	NPM string `json:"npm,omitempty"`
}

// Settings say how a version is to be run. The zero value is the safe default of
// every field.
type Settings struct {
	Limits Limits `json:"limits,omitzero"`
	// Network names the hosts that the tool may reach. Empty means none.
	Network []string `json:"network,omitempty"`
	// Secrets names the variables that the tool cannot do without. A call for
	// which one of them is neither stored nor given nor fetched is not run.
	Secrets []string `json:"secrets,omitempty"`
	// Programs names programs of the host that the tool may run, such as git. They are looked
	// for in the directories of the system only. Bash tools see those programs anyway.
	Programs []string `json:"programs,omitempty"`
	// AuditFiles has the audit list which files, programs and addresses each call touches. Such calls are slower, and
	// need a sandbox that can be observed.
	AuditFiles bool `json:"audit_files,omitempty"`
	// NoArtifacts leaves out the files that the tool leaves in its working directory.
	NoArtifacts bool `json:"no_artifacts,omitempty"`
	// Sandbox names a provider; empty leaves the choice to the engine.
	Sandbox string `json:"sandbox,omitempty"`
	// MinIsolation refuses to run the tool with less.
	MinIsolation Level `json:"min_isolation,omitempty"`
	// RequiresApproval makes every call wait for a person.
	RequiresApproval bool `json:"requires_approval,omitempty"`
	// Parallel allows calls of one batch to run beside each other.
	Parallel bool `json:"parallel,omitempty"`
	// Idempotent allows a second run when nobody knows whether the first ran.
	Idempotent bool `json:"idempotent,omitempty"`
	// Cacheable declares that equal arguments give equal values.
	Cacheable bool `json:"cacheable,omitempty"`
	// CacheFor is how long values are kept of a cacheable tool; 0 means an hour.
	CacheFor Millis `json:"cache_ms,omitempty"`
	// Roles are those of which a caller must have one; empty leaves it to policy.
	Roles []string `json:"roles,omitempty"`
	// Retry says how often a run that failed for a passing reason is repeated: see
	// [Backoff.ForTool]. It needs Idempotent.
	Retry Backoff `json:"retry,omitzero"`
	// Rate bounds how often one user may call it, within what policy allows.
	Rate Rate `json:"rate,omitzero"`
	// Concurrency is how many calls of it may run at once in an organisation; 0
	// leaves it to policy.
	Concurrency int `json:"concurrency,omitempty"`
	// Fallback is a tool that is called with the same arguments when this one has
	// failed for good. Its call is a child with policy and audit of its own.
	Fallback string `json:"fallback,omitempty"`
	// OnError says what to do after failures; the first that fits counts, and comes before Fallback.
	OnError []Reaction `json:"on_error,omitempty"`
	Output  Output     `json:"output,omitzero"`
	// Letta runs the tool as Letta does: arguments of Python are converted as Python does it, ids of agents
	// have Letta's form, and the names are there that Letta defines for every tool. It permits nothing.
	Letta bool `json:"letta,omitempty"`
}

// A Rate bounds how often a tool is called: by a window, by a bucket, or by both. The zero value
// bounds nothing.
type Rate struct {
	// Calls may begin in any stretch of time that is as long as Within, all at once if they come so.
	Calls  int    `json:"calls,omitempty"`
	Within Millis `json:"within_ms,omitempty"`
	// PerSecond is how fast a bucket of Burst tokens fills, of which each call takes one.
	PerSecond float64 `json:"per_second,omitempty"`
	// Burst is how many calls may come at once; 0 means PerSecond, at least 1.
	Burst int `json:"burst,omitempty"`
}

// Output says what a tool is expected to give back.
type Output struct {
	// Type is json, text, number, boolean or list; empty takes what comes.
	Type OutputType `json:"type,omitempty"`
	// Validators are expressions over value that must all be true.
	Validators []string `json:"validators,omitempty"`
	// Strict fails a call whose value is not of the type that the source says it returns.
	// Otherwise the value is given back with a notice.
	Strict bool `json:"strict,omitempty"`
	// MaxChars cuts the value; 0 means [DefaultMaxChars].
	MaxChars int `json:"max_chars,omitempty"`
}

// DefaultMaxChars is how much of a value a model gets to see by default.
const DefaultMaxChars = 50_000

// OutputType is the type that a tool's output is read as.
type OutputType string

// The output types.
const (
	OutputAny     OutputType = ""
	OutputJSON    OutputType = "json"
	OutputText    OutputType = "text"
	OutputNumber  OutputType = "number"
	OutputBoolean OutputType = "boolean"
	OutputList    OutputType = "list"
)

// OutputTypes lists the named output types.
func OutputTypes() []OutputType {
	return []OutputType{OutputJSON, OutputText, OutputNumber, OutputBoolean, OutputList}
}

// SchemaHealth says whether model vendors accept a schema, and in which mode.
type SchemaHealth struct {
	Status  HealthStatus   `json:"status"`
	Reasons []HealthReason `json:"reasons,omitempty"`
}

// HealthStatus is the verdict on a schema.
type HealthStatus string

// The verdicts.
const (
	HealthStrict    HealthStatus = "STRICT_COMPLIANT" // usable in strict mode
	HealthNonStrict HealthStatus = "NON_STRICT_ONLY"  // usable, but not in strict mode
	HealthInvalid   HealthStatus = "INVALID"          // vendors refuse it
)

// A HealthReason is one thing that is wrong with a schema, and where.
type HealthReason struct {
	Path    string `json:"path"` // such as root.properties.a.items
	Message string `json:"message"`
}

// String returns "path: message".
func (r HealthReason) String() string {
	if r.Path == "" {
		return r.Message
	}
	return r.Path + ": " + r.Message
}

// CheckToolName reports why name cannot be the name of a tool.
func CheckToolName(name string) error {
	switch {
	case name == "":
		return &Error{Code: CodeInvalid, Message: "a tool needs a name"}
	case len(name) > MaxToolName:
		return &Error{Code: CodeInvalid, Message: fmt.Sprintf("the tool name is %d characters long, %d is the most",
			len(name), MaxToolName)}
	case !toolName().MatchString(name):
		return &Error{Code: CodeInvalid,
			Message: "a tool name starts with a letter or _ and holds only letters, digits, _ and -"}
	}
	return nil
}
