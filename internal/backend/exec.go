package backend

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/term"

	"haft"
)

// Inputs send input to commands of sessions.
type Inputs interface {
	SendInput(ctx context.Context, p haft.Principal, call haft.CallID, in haft.CommandInput) error
}

// sessionFilesOf returns the files of the sessions of a system.
func sessionFilesOf(s System) haft.SessionFiles {
	if r, ok := s.(*Remote); ok {
		return r.Client.Sessions
	}
	return s.(*Local).API.Sessions
}

// inputsOf returns what sends input to commands of a system.
func inputsOf(s System) Inputs {
	if r, ok := s.(*Remote); ok {
		return r.Client.Sessions
	}
	return s.(*Local).API.Sessions
}

// A SessionWork is what a person does in sessions, with the streams of this process. Its methods
// take the arguments of their commands and return an exit code.
type SessionWork struct {
	// New, Workspace, Packages and TTY are flags.
	New       haft.NewSession
	Workspace string
	Packages  []string
	TTY       bool

	In       io.Reader
	Out, Err io.Writer
	// Show makes text harmless that is printed to a person; it is not used with TTY.
	Show func(io.Writer, string) string
	// Print prints a value as JSON, or calls text.
	Print func(v any, text func()) error
	// Result is that of a call that did not run a command.
	Result *haft.Result
}

// Add makes a session.
func (x *SessionWork) Add(ctx context.Context, s System, p haft.Principal, args []string) (int, error) {
	n := x.New
	if len(args) > 0 {
		n.Name = args[0]
	}
	if w := CallWorkspace(x.Workspace, false); w != nil {
		n.Workspace = &haft.SessionWorkspace{Name: w.Name, ReadOnly: w.ReadOnly}
	}
	n.Requirements = haft.SplitRequirements(haft.Kind(n.Language), x.Packages)
	made, err := SessionsOf(s).AddSession(ctx, p, n)
	if err != nil {
		return 0, err
	}
	return 0, x.Print(made, func() { fmt.Fprintln(x.Out, made.Name) })
}

// Files lists a directory of a session.
func (x *SessionWork) Files(ctx context.Context, s System, p haft.Principal, args []string) (int, error) {
	args = append(args, "/work")
	dir, err := sessionFilesOf(s).ListFiles(ctx, p, args[0], args[1], 1)
	if err != nil {
		return 0, err
	}
	return 0, x.Print(dir, func() {
		for _, f := range dir.Files {
			fmt.Fprintf(x.Out, "%-8s %12d %s %s\n", f.Type, f.Size, f.Modified.Format(time.DateTime),
				x.Show(x.Out, f.Name))
		}
		if dir.Cut {
			fmt.Fprintln(x.Err, "there are more files than these")
		}
	})
}

// Get prints a file of a session.
func (x *SessionWork) Get(ctx context.Context, s System, p haft.Principal, args []string) (int, error) {
	f, err := sessionFilesOf(s).ReadFile(ctx, p, args[0], args[1])
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // it is only read
	if _, err := io.Copy(shown{x}, f); err != nil {
		return 0, fmt.Errorf("read the file: %w", err)
	}
	return 0, nil
}

// shown prints a file.
type shown struct{ x *SessionWork }

// Write implements [io.Writer].
func (w shown) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.x.Out, w.x.Show(w.x.Out, string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Put copies a file into a session.
func (x *SessionWork) Put(ctx context.Context, s System, p haft.Principal, args []string) (int, error) {
	f, err := os.Open(args[1])
	if err != nil {
		return 0, &haft.Error{Code: haft.CodeNotFound, Message: "the file cannot be opened", Err: err}
	}
	defer f.Close() //nolint:errcheck // it is only read
	args = append(args, filepath.Base(args[1]))
	if err := sessionFilesOf(s).WriteFile(ctx, p, args[0], args[2], f); err != nil {
		return 0, err
	}
	return 0, x.Print(map[string]string{"written": args[2]}, func() { fmt.Fprintln(x.Out, "wrote "+args[2]) })
}

// Exec runs a command, and ends with its code. One that was stopped or could not be started has 1.
func (x *SessionWork) Exec(ctx context.Context, s System, p haft.Principal, args []string) (int, error) {
	raw, err := json.Marshal(map[string]any{"session": args[0], "argv": args[1:], "tty": x.TTY, "input": true})
	if err != nil {
		return 0, fmt.Errorf("encode the command: %w", err)
	}
	size, restore, err := x.raw()
	if err != nil {
		return 0, err
	}
	defer restore()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var feed sync.Once
	res, all, err := s.Stream(ctx, haft.Call{Tool: "run_command", Args: raw, Principal: p}, func(e haft.Event) {
		switch e.Type {
		case haft.EventProgress:
			feed.Do(func() { go x.feed(ctx, inputsOf(s), p, e.Call, size) })
		case haft.EventOutput:
			var d struct{ Stream, Text string }
			if json.Unmarshal(e.Data, &d) == nil {
				x.print(d.Stream, d.Text)
			}
		}
	})
	if err != nil {
		return 0, err
	}
	if !all {
		x.print("stdout", res.Stdout)
		x.print("stderr", res.Stderr)
	}
	var v struct {
		Exit  *int `json:"exit_code"`
		Error *struct{ Message string }
	}
	switch {
	case res.Error == nil && json.Unmarshal(res.Value, &v) == nil && v.Exit != nil:
		return *v.Exit, nil
	case v.Error != nil:
		x.print("stderr", v.Error.Message+"\n")
		return 1, nil
	}
	x.Result = res
	return 0, nil
}

// print prints output of the command.
func (x *SessionWork) print(stream, text string) {
	w := x.Out
	if stream == "stderr" {
		w = x.Err
	}
	if !x.TTY {
		text = x.Show(w, text)
	}
	fmt.Fprint(w, text)
}

// raw gives keys to the command as they are typed, if it has a terminal and so has this process.
func (x *SessionWork) raw() (size haft.CommandInput, restore func(), err error) {
	f, ok := x.In.(*os.File)
	if !x.TTY || !ok || !term.IsTerminal(int(f.Fd())) {
		return size, func() {}, nil
	}
	if size.Cols, size.Rows, err = term.GetSize(int(f.Fd())); err != nil {
		return size, nil, fmt.Errorf("ask for the size of the terminal: %w", err)
	}
	old, err := term.MakeRaw(int(f.Fd()))
	if err != nil {
		return size, nil, fmt.Errorf("prepare the terminal: %w", err)
	}
	return size, func() {
		_ = term.Restore(int(f.Fd()), old) // nothing can be done about it
	}, nil
}

// feed sends what is read to the command until that ends. A command that ends does not read it all.
func (x *SessionWork) feed(ctx context.Context, to Inputs, p haft.Principal, call haft.CallID,
	first haft.CommandInput) {
	if first.Rows > 0 && to.SendInput(ctx, p, call, first) != nil {
		return
	}
	for buf := make([]byte, 32<<10); ; {
		n, err := x.In.Read(buf)
		in := haft.CommandInput{Data: buf[:n], Close: errors.Is(err, io.EOF)}
		if n > 0 || in.Close {
			if sent := to.SendInput(ctx, p, call, in); sent != nil {
				if ctx.Err() == nil && haft.CodeOf(sent) != haft.CodeConflict {
					x.print("stderr", "input is lost: "+haft.MessageOf(sent)+"\n")
				}
				return
			}
		}
		if err != nil {
			return
		}
	}
}
