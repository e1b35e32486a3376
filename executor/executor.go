// Package executor defines the contract for running one admitted call.
//
// There is one implementation for each kind of tool in a directory below. An
// [Executor] trusts its [Request], and nothing that the tool gives back.
package executor

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"net"
	"net/http"
	"os"

	"haft"
	"haft/internal/secret"
	"haft/sandbox"
)

// ErrMaybeRan is wrapped by errors after which it is unknown whether the tool
// ran: a worker that vanished, a connection cut after the request was sent. Such
// a call is never run a second time by itself.
var ErrMaybeRan = errors.New("the tool may have run")

// An Executor runs tools of some kinds. It is safe for concurrent use.
type Executor interface {
	// Execute runs req and returns its result, unredacted.
	//
	// A tool that fails, times out or is stopped has a Result that says so, and
	// a nil error. An error means that there is no result: the tool was not run,
	// or, if the error wraps [ErrMaybeRan], that is unknown.
	//
	// When ctx ends, Execute stops the tool, waits for it to be gone, and
	// returns StatusTimeout if the cause is a deadline, else StatusCancelled.
	Execute(ctx context.Context, req Request) (*haft.Result, error)
}

// A Request is one call that was admitted.
type Request struct {
	Call haft.CallID
	// Tool is the tool's name, for results and the names of files.
	Tool   string
	Digest string
	// Org is the organisation that makes the call. It shares nothing with others.
	Org string
	// Principal is the caller, for tools that act for one.
	Principal haft.Principal
	// Turn is that of [haft.Call].
	Turn string
	Kind haft.Kind
	// Source and Function are the code and the function in it that is the tool.
	// For a tool of an MCP server, Function is its name on that server.
	Source, Function string
	// File is what tracebacks call the source; empty means the name of the tool.
	File string
	// Stored says that everybody who may call tools of the organisation may know the
	// source: it is kept as a tool, or Haft's own. A process that waits for the next
	// call of the organisation may hold it.
	Stored bool
	// Server and Origin are those of [haft.Version].
	Server, Origin string
	// Args is an object that fits the tool's schema; empty means {}.
	Args json.RawMessage
	// Pass is what a function that takes arguments by position is given, in
	// order; empty means one object of all. Python is always called by name.
	Pass []Argument
	// Inject are the values of parameters that Haft fills in, such as agent_id.
	Inject map[string]json.RawMessage
	// Changed is given the agent_state of a tool that has changed it, as the tool wrote it: it may be anything. Nil
	// drops it.
	Changed func(state json.RawMessage)
	// Env is added to the environment of the tool.
	Env map[string]string
	// Bound names the variables of Env that are placeholders of bound secrets, and says
	// whether the egress session reaches a host that the value is for, and fills it in.
	Bound map[string]bool
	// Redactor removes the secrets of the call. Results are redacted by the caller of Execute;
	// it is for what stays after them. Nil means that no secret is known.
	Redactor *secret.Redactor
	// Secrets are the bound secrets of the call with their values. They are for tools of
	// MCP servers only, whose executor puts each into requests to its hosts itself.
	Secrets []secret.Named
	// Files are put into the tool's directory. They are of whoever calls: the tool cannot import
	// them, and none takes the place of a file of Modules or lies in a directory of those.
	Files []sandbox.File
	// FileArgs are the arguments that are files, each among Files or Modules.
	FileArgs []FileArg
	// Modules are put there too. They are of whoever wrote the source, which may import them.
	Modules []sandbox.File
	// Programs are names of programs of the host that the tool sees.
	Programs []string
	// Terminals says that the session of the call, if it is made for it, has terminals.
	Terminals bool
	// NoArtifacts leaves out the files that the tool leaves.
	NoArtifacts bool
	// Workspace is the directory that outlives the call; nil means none.
	Workspace *Workspace
	// Requirements are the packages that the call brings for its session. They are among Packages.
	Requirements haft.Requirements
	// Layers are the installed packages that the tool sees.
	Layers []Layer
	// Limits that are zero get their defaults.
	Limits  haft.Limits
	Network sandbox.Network
	// ServeEgress serves the connections of this call, and is set if Network is
	// [sandbox.NetworkEgress] and only then. It is as [sandbox.Spec.ServeEgress]: when
	// Execute returns, every call of it has returned.
	ServeEgress func(ctx context.Context, conn net.Conn)
	// Route names what ServeEgress lets the call reach; equal routes reach the same.
	Route string
	// CA holds certificates, as PEM, that programs of this call trust besides the
	// system's, because the egress session opens their TLS. It is set with ServeEgress only.
	CA []byte
	// Egress wraps the transport of a built-in tool: it refuses requests that the call may
	// not make, and records the others. Nil means that nothing may be reached.
	Egress func(next http.RoundTripper) http.RoundTripper
	Need   sandbox.Need
	// Places are the types of sandboxes that a script may run in, the best first, and PlaceReason says why that is the
	// first. Empty means the sandbox of the server.
	Places      []haft.SandboxType
	PlaceReason string
	// Sandbox is what the call names; a session remembers it for the calls that follow.
	Sandbox string
	// Returns is the schema of the value, where it is known.
	Returns json.RawMessage
	// Letta is that of [haft.Settings].
	Letta bool
	// Output is how the text of a tool that only prints is to be read.
	Output haft.OutputType

	// Stdout and Stderr get output as it comes, within the limits and cut at any
	// byte; nil means that only the Result has it.
	Stdout, Stderr func([]byte)
	// Others are the tools that a call may call in turn. Nil means none. Only
	// built-in tools get them; some of them pass them on to code.
	Others Others
	// Packages opens the packages that the organisation has for code of a kind, until release
	// is called. Only built-in tools get it; nil means that there are none.
	Packages func(ctx context.Context, kind haft.Kind) (layers []Layer, release func(), err error)
	// Observe, if not nil, has scripts observed, and gets what a run touched before Execute returns. Such a run has no
	// warm sandbox, and a sandbox that cannot be observed refuses it.
	Observe func(haft.Touched)
	// Progress gets the progress reports of a tool; nil discards them.
	Progress func(json.RawMessage)
}

// A FileArg is an argument that is a file: a tool in Bash gets its path, others what the type of the
// parameter says.
type FileArg struct {
	// At are the keys and indexes that lead to it.
	At []string `json:"at"`
	// Format is that of the schema of the argument.
	Format string `json:"format"`
	// Path is where the file is, relative to the working directory of the tool.
	Path string `json:"path"`
}

// A Workspace is a directory that outlives the call. Scripts get it, built-in tools for files, for which only Call
// is set, and those that make sessions, which have Call and Mount.
type Workspace struct {
	// Call is what the caller may use; nil for scripts.
	Call *haft.CallWorkspace
	// Dir is the open directory, and Host its path.
	Dir  *os.File
	Host string
	// Owner is [sandbox.Spec.Owner].
	Owner             int
	ReadOnly, Workdir bool
	// Hold keeps other calls away until release is called: as long as anything of the run is left. It
	// reports false if the workspace was given back.
	Hold func() (release func(), ok bool)
	// Mount waits for the workspace and opens it for a session, which has it until it ends.
	Mount func(ctx context.Context) (*Mounted, error)
}

// A Mounted is the workspace of a session.
type Mounted struct {
	*Workspace
	// Watch ends if there is too much in the workspace, with that as its cause.
	Watch context.Context
	// Release waits until nothing of the session is left, and gives the workspace back.
	Release func()
}

// A Layer is a directory of installed packages. It is read-only, and shared by all
// tools that need the same.
type Layer struct {
	// Digest names the content.
	Digest string
	// Dir is the host's path, Inside the sandbox's: of a directory that Python
	// modules are imported from, or of a node_modules.
	Dir, Inside string
	// Imports are Python modules of the layer that the tool is going to import. A
	// sandbox that is kept ready may have them imported already.
	Imports []string
	// Hold keeps the layer as it is until release is called. It reports false if
	// the layer may be gone. The caller of Execute holds it until Execute has
	// returned; Hold is for what is kept ready longer. Nil means that it stays.
	Hold func() (release func(), ok bool)
}

// Others are the tools that a call may call in turn.
type Others interface {
	// Tools lists them, ordered by name.
	Tools(ctx context.Context) iter.Seq2[haft.Tool, error]
	// Call makes a call of its own, a child of the one that is running: with policy,
	// limits, approval and audit, on behalf of the same principal. It is as
	// [haft.Caller]. When ctx ends it is cancelled.
	Call(ctx context.Context, tool string, args json.RawMessage) (*haft.Result, error)
}

// yieldKey is the key of what gives up the slots of a call in a context.
type yieldKey struct{}

// WithYield returns a context in which [Yield] calls yield.
func WithYield(ctx context.Context, yield func()) context.Context {
	return context.WithValue(ctx, yieldKey{}, yield)
}

// Yield says that the call of ctx only waits from now on, for other calls that may need its slots: it gives them up,
// and its place in the queue, until it ends.
func Yield(ctx context.Context) {
	if yield, ok := ctx.Value(yieldKey{}).(func()); ok {
		yield()
	}
}

// An Argument is one thing that a function is given.
type Argument = haft.Argument
