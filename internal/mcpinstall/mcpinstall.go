package mcpinstall

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"

	"haft"
	"haft/internal/terminal"
)

// A Request is what the command line says.
type Request struct {
	// Name is that of the server in the configuration.
	Name string
	// Command is the program that the client starts; that of this process if empty.
	Command string
	// Project is the directory of the project.
	Project string
	// Flags are those of haft mcp.
	Flags []string
	// DryRun only shows what would be done, and Yes does not ask.
	DryRun, Yes bool
}

// Run installs Haft in the client, or removes it: it shows what it does, asks and does it.
func (r Request) Run(client string, remove bool, in io.Reader, out io.Writer) error {
	c, err := Find(client)
	if err != nil {
		return err
	}
	if err := haft.CheckServerName(r.Name); err != nil {
		return err
	}
	e, err := r.entry()
	if err != nil {
		return err
	}
	at := Place{OS: runtime.GOOS, Config: os.Getenv("XDG_CONFIG_HOME")}
	if at.Project, err = filepath.Abs(r.Project); err != nil {
		return fmt.Errorf("find the project: %w", err)
	}
	if at.Home, err = os.UserHomeDir(); err != nil && !c.project {
		return &haft.Error{Code: haft.CodeInvalid, Message: "there is no home directory: set $HOME", Err: err}
	}
	p, err := plan(c, at, r.Name, e, remove)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, terminal.Safe(out, p.Text))
	if r.DryRun || !p.Changes() {
		return nil
	}
	if !r.Yes && !terminal.Confirm(in, out, "do it?") {
		return &haft.Error{Code: haft.CodeDenied, Message: "nothing was written: agree with y, or give --yes"}
	}
	if err := p.Write(); err != nil {
		return err
	}
	fmt.Fprintf(out, "done: restart %s\n", c.Title)
	return nil
}

// plan plans to install or to remove.
func plan(c Client, at Place, name string, e Entry, remove bool) (*Plan, error) {
	if remove {
		return Uninstall(c, at, name, e)
	}
	return Install(c, at, name, e)
}

// entry returns how the client starts Haft: by an absolute path, because clients do not have the
// environment of a shell.
func (r Request) entry() (e Entry, err error) {
	if e.Command = r.Command; e.Command == "" {
		if e.Command, err = os.Executable(); err != nil {
			return e, fmt.Errorf("find the program: %w", err)
		}
	}
	e.Args = append([]string{"mcp"}, r.Flags...)
	return e, nil
}
