package haft

import (
	"context"
	"io"
	"iter"
	"time"
)

// A Session is a sandbox that lives for many commands. It belongs to the principal who
// made it, and ends with the server at the latest.
type Session struct {
	ID  string `json:"id"`
	Org string `json:"org"`
	// Owner is who made it. Nobody else of the organisation can use it.
	Owner string `json:"owner"`
	// Name is what its owner calls it; unique among the owner's sessions that live.
	Name    string    `json:"name,omitempty"`
	Created time.Time `json:"created_at"`
	// Expires is when it ends at the latest, IdleTimeout after how long without use.
	Expires     time.Time `json:"expires_at"`
	IdleTimeout Millis    `json:"idle_timeout_ms"`
	// Used is when it was last used, Busy that something is done in it now.
	Used      time.Time `json:"used_at"`
	Busy      bool      `json:"busy"`
	Isolation Isolation `json:"isolation"`
	// Sandbox is the kind of sandbox that it runs in.
	Sandbox SandboxType `json:"sandbox,omitempty"`
	// Workspace is at /workspace, and belongs to the session as long as that lives.
	Workspace *SessionWorkspace `json:"workspace,omitempty"`
	// Requirements are the packages that the session was made with besides those of the organisation.
	Requirements Requirements `json:"requirements,omitzero"`
}

// A SessionWorkspace is the workspace of a session.
type SessionWorkspace struct {
	Name string `json:"name"`
	// ReadOnly lets others read it at the same time. Otherwise the session has it alone.
	ReadOnly bool `json:"read_only,omitempty"`
}

// A NewSession says what session to make.
type NewSession struct {
	// Name is what its owner calls it; empty makes a name up.
	Name string `json:"name,omitempty"`
	// TTL is how long it lives at the most, Idle after how long without use it ends; 0 means
	// what the server has.
	TTL  Millis `json:"ttl_ms,omitempty"`
	Idle Millis `json:"idle_ms,omitempty"`
	// Language is that of a context to start with it; empty starts none.
	Language string `json:"language,omitempty"`
	// TTY says that commands of the session may have terminals.
	TTY bool `json:"tty,omitempty"`
	// Sandbox names the kind of sandbox that it runs in, as in a [Call]; one of the server's machine.
	Sandbox string `json:"sandbox,omitempty"`
	// Workspace is mounted at /workspace; nil means none.
	Workspace *SessionWorkspace `json:"workspace,omitempty"`
	// Requirements are packages that code of the session can import, besides those of the organisation.
	Requirements Requirements `json:"requirements,omitzero"`
}

// A SessionFile is a file or directory of a session, as the session says.
type SessionFile struct {
	Path string `json:"path"`
	Name string `json:"name"`
	// Type is file, dir, symlink or other.
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	Mode     uint32    `json:"mode"`
	Modified time.Time `json:"modified_at"`
	// Target is where a symlink leads.
	Target string `json:"target,omitempty"`
}

// A SessionDir is what a directory has.
type SessionDir struct {
	Files []SessionFile `json:"files"`
	// Cut says that there are more files than these.
	Cut bool `json:"cut,omitempty"`
}

// A SessionChange is what happened to a file: it was made (create), changed (write) or removed
// (remove). One that was renamed was removed and made.
type SessionChange struct {
	Type string      `json:"type"`
	File SessionFile `json:"file"`
}

// A SessionContext is an interpreter of a session with its variables.
type SessionContext struct {
	Name     string `json:"name"`
	Language string `json:"language"`
	// Busy says that code runs in it; then there are no variables. Nor are there any of Bash.
	Busy      bool              `json:"busy,omitempty"`
	Variables []SessionVariable `json:"variables"`
}

// A SessionVariable is a variable, with the beginning of its value as text.
type SessionVariable struct {
	Name string `json:"name"`
	Type string `json:"type"`
	Text string `json:"text"`
}

// A CommandInput is input for a command of a session that runs. Data comes first.
type CommandInput struct {
	Data []byte `json:"data,omitempty"`
	// Close says that there is no more input.
	Close bool `json:"close,omitempty"`
	// Signal is the name of a signal for the command, such as SIGINT.
	Signal string `json:"signal,omitempty"`
	// Rows and Cols are the size of its terminal.
	Rows int `json:"rows,omitempty"`
	Cols int `json:"cols,omitempty"`
}

// Sessions are the sessions of a server. All but List and End are for the owner only. A
// session is named by its id, or by the name that its owner gave it.
type Sessions interface {
	// Sessions lists those of the principal, the oldest first; for somebody who sees all
	// calls of the organisation, all.
	Sessions(ctx context.Context, p Principal) ([]Session, error)
	// EndSession ends one, and waits until nothing of it runs.
	EndSession(ctx context.Context, p Principal, id string) error
	// AddSession makes one, by a call.
	AddSession(ctx context.Context, p Principal, n NewSession) (*Session, error)
	// ExtendSession sets how long it lives from now on, and after how long without use it
	// ends; 0 changes nothing.
	ExtendSession(ctx context.Context, p Principal, id string, ttl, idle Millis) (*Session, error)
	// SessionContexts lists the interpreters of a session, by name.
	SessionContexts(ctx context.Context, p Principal, id string) ([]SessionContext, error)
	// RestartContext ends an interpreter with all that it started. The next code that names
	// it gets a new one.
	RestartContext(ctx context.Context, p Principal, id, name string) error
}

// SessionFiles are the files of sessions. Paths are absolute, or relative to /work. What is
// read has no secrets of the session's calls.
type SessionFiles interface {
	// ListFiles lists a directory, and those in it down to depth. With depth 0 it describes
	// the one file or directory.
	ListFiles(ctx context.Context, p Principal, id, path string, depth int) (*SessionDir, error)
	ReadFile(ctx context.Context, p Principal, id, path string) (io.ReadCloser, error)
	// WriteFile makes a file, with the directories that it needs. It is there when it is whole.
	WriteFile(ctx context.Context, p Principal, id, path string, content io.Reader) error
	MakeDir(ctx context.Context, p Principal, id, path string) error
	MoveFile(ctx context.Context, p Principal, id, from, to string) error
	// RemoveFile removes a file, or a directory with all that is in it.
	RemoveFile(ctx context.Context, p Principal, id, path string) error
}

// A SessionWorker is what somebody who works in a session needs besides files.
type SessionWorker interface {
	// WatchFiles yields what happens to the files of a directory, and of those in it.
	WatchFiles(ctx context.Context, p Principal, id, path string) iter.Seq2[SessionChange, error]
	// SendInput sends input to a command that the principal has started and that runs.
	SendInput(ctx context.Context, p Principal, call CallID, in CommandInput) error
}
