package haft

import (
	"context"
	"io"
	"iter"
	"time"
)

// A Workspace is a named directory that outlives calls. Its name is unique in the organisation. One
// whose name has an @, such as notes@before, is a snapshot of the workspace before that: it is only read.
type Workspace struct {
	Name string `json:"name"`
	// Owner is who added it.
	Owner Principal `json:"-"`
	// Shared says that everybody in the organisation may use it.
	Shared bool `json:"shared,omitempty"`
	// Origins are the names of the workspaces that its files were copied from, and that theirs were.
	Origins []string `json:"origins,omitempty"`
	// Quota bounds its files, and Used is what was measured after the last change.
	Quota WorkspaceSize `json:"quota"`
	Used  WorkspaceSize `json:"used"`
	// Enforced says who enforces the quota, such as [QuotaMeasured].
	Enforced string    `json:"enforced"`
	Created  time.Time `json:"created_at"`
	Changed  time.Time `json:"changed_at"`
}

// QuotaMeasured says that Haft measures a workspace while a call uses it and afterwards: a call
// that writes too much is stopped soon after, and not by the write that is too much.
const QuotaMeasured = "measured"

// A WorkspaceSize is how much is in a workspace: bytes of all files, and how many files,
// directories and links there are.
type WorkspaceSize struct {
	Bytes  int64 `json:"bytes,omitempty"`
	Inodes int64 `json:"inodes,omitempty"`
}

// A NewWorkspace is a workspace to be added.
type NewWorkspace struct {
	Name   string `json:"name"`
	Shared bool   `json:"shared,omitempty"`
	// Quota bounds its files; zero fields mean what the server allows.
	Quota WorkspaceSize `json:"quota,omitzero"`
	// From is a workspace or a snapshot whose files it begins with. A snapshot is of the workspace that
	// its name begins with.
	From string `json:"from,omitempty"`
}

// A CallWorkspace is the workspace of a call: a tool finds it at /workspace, or where the
// variable HAFT_WORKSPACE says.
type CallWorkspace struct {
	Name string `json:"name"`
	// ReadOnly lets other calls read it at the same time. Otherwise a call has it alone.
	ReadOnly bool `json:"read_only,omitempty"`
	// Workdir makes it the working directory of the tool.
	Workdir bool `json:"workdir,omitempty"`
	// ID is which workspace had the name when the call was made, and Origins are [Workspace.Origins]. Haft
	// sets both: what a policy or a person allowed is not for another workspace that gets the name.
	ID      string   `json:"id,omitempty"`
	Origins []string `json:"origins,omitempty"`
}

// A WorkspaceUse says what a call left in its workspace.
type WorkspaceUse struct {
	Name     string        `json:"name"`
	Used     WorkspaceSize `json:"used"`
	Quota    WorkspaceSize `json:"quota"`
	Enforced string        `json:"enforced"`
}

// A WorkspaceEntry is a file, a directory or a link in a workspace.
type WorkspaceEntry struct {
	Path string `json:"path"`
	// Kind is file, directory, link or other.
	Kind     string    `json:"kind"`
	Size     int64     `json:"size,omitempty"`
	Modified time.Time `json:"modified_at"`
}

// A WorkspaceListing has the entries of a directory and those below it, by path.
type WorkspaceListing struct {
	Entries []WorkspaceEntry `json:"entries"`
	// More says that there are others.
	More bool `json:"more,omitempty"`
}

// A WorkspaceChange is one difference between two workspaces.
type WorkspaceChange struct {
	Path string `json:"path"`
	// Change is added, changed or removed.
	Change string `json:"change"`
	// Before and After are the sizes in bytes.
	Before int64 `json:"before,omitempty"`
	After  int64 `json:"after,omitempty"`
}

// A WorkspaceDiff has the differences between two workspaces, by path.
type WorkspaceDiff struct {
	Changes []WorkspaceChange `json:"changes"`
	// More says that there are others.
	More bool `json:"more,omitempty"`
}

// Workspaces has everything that can be done with workspaces, by role. A workspace of somebody else
// is not there: [CodeNotFound]. [CodeConflict] means that calls use it, and that it did not become
// free in time.
type Workspaces struct {
	WorkspaceKeeper
	WorkspaceReader
	WorkspaceWriter
}

// A WorkspaceKeeper adds, lists and removes workspaces.
type WorkspaceKeeper interface {
	// AddWorkspace adds a workspace, a fork of one, or a snapshot.
	AddWorkspace(ctx context.Context, p Principal, n NewWorkspace) (*Workspace, error)
	// Workspaces lists the workspaces that p may see, by name.
	Workspaces(ctx context.Context, p Principal) iter.Seq2[Workspace, error]
	// RemoveWorkspace removes a workspace with its snapshots, if no call uses it.
	RemoveWorkspace(ctx context.Context, p Principal, name string) error
}

// A WorkspaceReader reads workspaces. It follows no link.
type WorkspaceReader interface {
	Workspace(ctx context.Context, p Principal, name string) (*Workspace, error)
	// WorkspaceFiles lists what is in a directory and below it; empty means the whole workspace.
	WorkspaceFiles(ctx context.Context, p Principal, name, dir string) (*WorkspaceListing, error)
	// OpenWorkspaceFile returns a file and a reader of its content.
	OpenWorkspaceFile(ctx context.Context, p Principal, name, path string) (*WorkspaceEntry, io.ReadSeekCloser, error)
	// DiffWorkspaces says what was changed between two workspaces, such as a snapshot and its workspace.
	DiffWorkspaces(ctx context.Context, p Principal, from, to string) (*WorkspaceDiff, error)
}

// A WorkspaceWriter changes the files of workspaces. It follows no link.
type WorkspaceWriter interface {
	// PutWorkspaceFile writes a file, and the directories that it is in. It replaces a file.
	PutWorkspaceFile(ctx context.Context, p Principal, name string, f CallFile) error
	// RemoveWorkspaceFile removes a file, or a directory with everything in it.
	RemoveWorkspaceFile(ctx context.Context, p Principal, name, path string) error
	// RestoreWorkspace gives a workspace the files of another one, such as a snapshot. Its own are lost.
	RestoreWorkspace(ctx context.Context, p Principal, name, from string) error
}
