package backend

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"haft"
)

// WorkspacesOf returns the workspaces of a system.
func WorkspacesOf(s System) haft.Workspaces {
	if r, ok := s.(*Remote); ok {
		return r.Client.Workspaces.Roles()
	}
	return s.(*Local).API.Workspaces
}

// CallWorkspace reads the name of a workspace as a flag gives it: NAME or NAME:ro. Nil is none.
func CallWorkspace(text string, workdir bool) *haft.CallWorkspace {
	if text == "" {
		return nil
	}
	name, readOnly := strings.CutSuffix(text, ":ro")
	return &haft.CallWorkspace{Name: name, ReadOnly: readOnly, Workdir: workdir}
}

// putFile writes a file of this machine into a workspace. It is added to the files first.
func putFile(ctx context.Context, s System, p haft.Principal, name, file, at string) error {
	kept, err := AddFile(ctx, FilesOf(s), p, file, uploadTTL)
	if err != nil {
		return err
	}
	if at == "" {
		at = filepath.Base(file)
	}
	err = WorkspacesOf(s).PutWorkspaceFile(ctx, p, name, haft.CallFile{ID: kept.ID, Path: at})
	if removed := FilesOf(s).RemoveFile(ctx, p, kept.ID); err == nil {
		err = removed
	}
	return err
}

// WorkspaceFlags are the flags of haft workspace.
type WorkspaceFlags struct {
	Add    haft.NewWorkspace
	Inodes int
	Output string
}

// Shown is what a command shows: a document, and to a person lines, or a table, whose line is for an
// empty one. If there is content, it is that only.
type Shown struct {
	Document any
	Line     string
	Head     string // of the table; empty means none
	Rows     [][]any
	More     bool // there are more rows
	Content  io.ReadCloser
}

// A WorkspaceCommand is a command of haft workspace. Its arguments are as Use says; those that are left out
// are empty.
type WorkspaceCommand struct {
	Use, Short string
	Flags      []string
	Run        func(ctx context.Context, s System, p haft.Principal, f *WorkspaceFlags, args [3]string) (Shown, error)
}

// done shows what was done to a thing, unless it failed.
func done(err error, what, thing string) (Shown, error) {
	return Shown{Document: map[string]string{what: thing}, Line: what + " " + thing}, err
}

// WorkspaceCommands are the commands of haft workspace.
func WorkspaceCommands() []WorkspaceCommand {
	quota := []string{"bytes", "inodes", "shared"}
	return []WorkspaceCommand{
		{"add NAME", "Add a workspace", quota, addWorkspace},
		{"fork NAME NEW", "Add a workspace with the files of another one, or of a snapshot", quota, addWorkspace},
		{"list", "List workspaces", nil, listWorkspaces},
		{"show NAME", "Show a workspace", nil, showWorkspace},
		{"snapshot NAME@SNAPSHOT", "Keep the present state of a workspace", nil, addWorkspace},
		{"restore NAME FROM", "Give a workspace the files of a snapshot or of another one; its own are lost", nil,
			restoreWorkspace},
		{"diff FROM TO", "Compare two workspaces or snapshots", nil, diffWorkspace},
		{"remove NAME", "Remove a snapshot, or a workspace with its snapshots", nil, removeWorkspace},
		{"files NAME [DIR]", "List what is in a workspace, or in a directory of it", nil, listWorkspaceFiles},
		{"put NAME FILE [PATH]", "Write a file of this machine into a workspace", nil, putWorkspaceFile},
		{"get NAME PATH", "Write a file of a workspace to standard output, or to a file", []string{"output"},
			getWorkspaceFile},
		{"delete NAME PATH", "Delete a file or a directory of a workspace", nil, deleteWorkspaceFile},
	}
}

func addWorkspace(ctx context.Context, s System, p haft.Principal, f *WorkspaceFlags, args [3]string) (Shown, error) {
	n := f.Add
	n.Name, n.Quota.Inodes = args[0], int64(f.Inodes)
	if args[1] != "" {
		n.Name, n.From = args[1], args[0]
	}
	return workspaceShown(WorkspacesOf(s).AddWorkspace(ctx, p, n))
}

func showWorkspace(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags, args [3]string) (Shown, error) {
	return workspaceShown(WorkspacesOf(s).Workspace(ctx, p, args[0]))
}

// workspaceShown shows a workspace, unless there is an error.
func workspaceShown(w *haft.Workspace, err error) (Shown, error) {
	if err != nil {
		return Shown{}, err
	}
	line := fmt.Sprintf("%s: %d of %d bytes, %d of %d files, quota %s", w.Name, w.Used.Bytes, w.Quota.Bytes,
		w.Used.Inodes, w.Quota.Inodes, w.Enforced)
	if len(w.Origins) > 0 {
		line += ", files from " + strings.Join(w.Origins, ", ")
	}
	return Shown{Document: w, Line: line}, nil
}

func listWorkspaces(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags, _ [3]string) (Shown, error) {
	all, rows := []haft.Workspace{}, [][]any{}
	for w, err := range WorkspacesOf(s).Workspaces(ctx, p) {
		if err != nil {
			return Shown{}, err
		}
		all = append(all, w)
		rows = append(rows, []any{w.Name, w.Used.Bytes, w.Used.Inodes, w.Quota.Bytes,
			w.Changed.Format(time.DateTime)})
	}
	return Shown{Document: all, Head: "NAME,BYTES,FILES,QUOTA,CHANGED", Rows: rows,
		Line: "there are no workspaces; add one with: haft workspace add NAME"}, nil
}

func restoreWorkspace(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags,
	args [3]string) (Shown, error) {
	return done(WorkspacesOf(s).RestoreWorkspace(ctx, p, args[0], args[1]), "restored", args[0])
}

func removeWorkspace(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags,
	args [3]string) (Shown, error) {
	return done(WorkspacesOf(s).RemoveWorkspace(ctx, p, args[0]), "removed", args[0])
}

func listWorkspaceFiles(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags,
	args [3]string) (Shown, error) {
	list, err := WorkspacesOf(s).WorkspaceFiles(ctx, p, args[0], args[1])
	if err != nil {
		return Shown{}, err
	}
	shown := Shown{Document: list, Head: "PATH,KIND,SIZE,MODIFIED", Line: "there is nothing in it", More: list.More}
	for _, e := range list.Entries {
		shown.Rows = append(shown.Rows, []any{e.Path, e.Kind, e.Size, e.Modified.Format(time.DateTime)})
	}
	return shown, nil
}

func diffWorkspace(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags, args [3]string) (Shown, error) {
	d, err := WorkspacesOf(s).DiffWorkspaces(ctx, p, args[0], args[1])
	if err != nil {
		return Shown{}, err
	}
	shown := Shown{Document: d, Head: "CHANGE,PATH,BEFORE,AFTER", Line: "there is no difference", More: d.More}
	for _, c := range d.Changes {
		shown.Rows = append(shown.Rows, []any{c.Change, c.Path, c.Before, c.After})
	}
	return shown, nil
}

func putWorkspaceFile(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags,
	args [3]string) (Shown, error) {
	return done(putFile(ctx, s, p, args[0], args[1], args[2]), "wrote", args[1])
}

func getWorkspaceFile(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags,
	args [3]string) (Shown, error) {
	_, content, err := WorkspacesOf(s).OpenWorkspaceFile(ctx, p, args[0], args[1])
	return Shown{Content: content}, err
}

func deleteWorkspaceFile(ctx context.Context, s System, p haft.Principal, _ *WorkspaceFlags,
	args [3]string) (Shown, error) {
	return done(WorkspacesOf(s).RemoveWorkspaceFile(ctx, p, args[0], args[1]), "deleted", args[1])
}
