package mcpinstall

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"haft"
)

const (
	// maxConfig bounds the size of a configuration.
	maxConfig = 4 << 20
	// backupSuffix is added to the name of a configuration for the copy that is kept of it.
	backupSuffix = ".haft-backup"
)

// A Plan is a change of a configuration that was not made yet.
type Plan struct {
	Client Client
	// Path is that of the configuration.
	Path string
	// Text says what is done, for people. It has nothing of the configuration itself, where secrets
	// of other servers may be.
	Text string

	base, name    string
	before, after []byte // nil means that there is no file
	// backup is what the copy holds before and after the change; nil means that there is none.
	backupBefore, backupAfter []byte
}

// Changes reports whether there is anything to do.
func (p *Plan) Changes() bool { return !same(p.before, p.after) }

// Install plans to add the entry to the configuration of a client, or to replace it there.
func Install(c Client, at Place, name string, e Entry) (*Plan, error) {
	p, err := readPlan(c, at)
	if err != nil {
		return nil, refuse(err, c, name, e)
	}
	old, err := getMember(p.before, c.group, name)
	if err != nil {
		return nil, refuse(p.wrong(err), c, name, e)
	}
	if old != nil && !isOurs(old, e) {
		return nil, &haft.Error{Code: haft.CodeConflict, Message: p.Path + ": there is another server called " + name +
			": choose another name with --name"}
	}
	if p.after, err = setMember(p.before, c.group, name, c.value(e)); err == nil {
		err = sameOthers(p.before, p.after, c.group, name)
	}
	if err != nil {
		return nil, refuse(p.wrong(err), c, name, e)
	}
	if p.backupAfter = p.before; old != nil && p.undoes(old, name) {
		p.backupAfter = p.backupBefore // which is older than the entry
	}
	text, err := format(nil, map[string]any{c.group: map[string]any{name: c.value(e)}}, "")
	if err != nil {
		return nil, err
	}
	word := map[bool]string{true: "replace", false: "add"}[old != nil]
	if p.Text = p.Path + ": " + word + "\n" + text; p.backupAfter != nil {
		p.Text += "\n" + p.Path + backupSuffix + ": keep a copy of the file as it was"
	}
	if !p.Changes() {
		p.Text = p.Path + ": it is there already"
	}
	return p, nil
}

// Uninstall plans to remove the entry. A configuration that has not changed since Install becomes
// exactly what it was.
func Uninstall(c Client, at Place, name string, e Entry) (*Plan, error) {
	p, err := readPlan(c, at)
	if err != nil {
		return nil, err
	}
	old, err := getMember(p.before, c.group, name)
	switch {
	case err != nil:
		return nil, p.wrong(err)
	case old == nil:
		p.after, p.backupAfter, p.Text = p.before, p.backupBefore, p.Path+": there is no server called "+name
		return p, nil
	case !isOurs(old, e):
		return nil, &haft.Error{Code: haft.CodeConflict,
			Message: p.Path + ": the server called " + name + " is not Haft's: remove it yourself"}
	}
	if p.undoes(old, name) {
		p.after, p.Text = p.backupBefore, p.Path+": make it what it was before haft mcp install"
		if p.after == nil {
			p.Text = p.Path + ": remove it, as nothing else is in it"
		}
		return p, nil
	}
	p.backupAfter = p.before
	if p.after, err = removeMember(p.before, c.group, name); err == nil {
		err = sameOthers(p.before, p.after, c.group, name)
	}
	if err != nil {
		return nil, p.wrong(err)
	}
	p.Text = p.Path + ": remove the server " + name + "\n" + p.Path + backupSuffix +
		": keep a copy of the file as it was"
	return p, nil
}

// undoes reports whether the copy is what the configuration was before the entry was added, and
// nothing else has changed since.
func (p *Plan) undoes(entry []byte, name string) bool {
	if had, err := getMember(p.backupBefore, p.Client.group, name); err != nil || had != nil {
		return false
	}
	again, err := setMember(p.backupBefore, p.Client.group, name, p.Client.value(readEntry(entry)))
	return err == nil && bytes.Equal(again, p.before)
}

// sameOthers checks that an edit has changed nothing but the member: all other members have the
// texts that they had.
func sameOthers(before, after []byte, group, name string) error {
	texts := func(text []byte) (string, error) {
		var b strings.Builder
		if blank(text) {
			return "", nil
		}
		root, inner, err := scanGroup(text, group)
		if err != nil {
			return "", err
		}
		if inner == nil {
			inner = &object{}
		}
		for _, o := range []object{root, *inner} {
			for _, m := range o.members {
				if m.name != name && m.name != group {
					fmt.Fprintf(&b, "%q: %s\n", m.name, text[m.value:m.end])
				}
			}
		}
		return b.String(), nil
	}
	was, err := texts(before)
	if err != nil {
		return err
	}
	if is, err := texts(after); err != nil || is != was {
		return errors.Join(err, errors.New("other entries would change"))
	}
	return nil
}

// wrong says which configuration an error is about.
func (p *Plan) wrong(err error) error {
	return &haft.Error{Code: haft.CodeInvalid, Message: p.Path + ": it cannot be edited: " + err.Error(), Err: err}
}

// refuse adds to an error what a person can put into the configuration.
func refuse(err error, c Client, name string, e Entry) error {
	text, formatErr := format(nil, map[string]any{c.group: map[string]any{name: c.value(e)}}, "")
	if formatErr != nil {
		return err
	}
	return &haft.Error{Code: haft.CodeOf(err), Message: haft.MessageOf(err) + "\nPut this into the configuration of " +
		c.Title + " yourself:\n" + text, Err: err}
}

// readPlan reads the configuration of a client and the copy that is kept of it.
func readPlan(c Client, at Place) (*Plan, error) {
	base, name := at.find(c)
	p := &Plan{Client: c, Path: filepath.Join(base, filepath.FromSlash(name)), base: base, name: name}
	root, err := os.OpenRoot(base)
	if err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: base + ": the directory cannot be opened", Err: err}
	}
	defer func() { _ = root.Close() }() // nothing was written
	if p.before, err = readFile(root, name); err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: p.Path + ": " + err.Error(), Err: err}
	}
	if p.backupBefore, err = readFile(root, name+backupSuffix); err != nil {
		return nil, &haft.Error{Code: haft.CodeInvalid, Message: p.Path + backupSuffix + ": " + err.Error(), Err: err}
	}
	return p, nil
}

// readFile reads a file below root. It returns nil if there is none, and an error if the file or a
// directory above it is a link: the text would be written somewhere else.
func readFile(root *os.Root, name string) ([]byte, error) {
	dirs := strings.Split(name, "/")
	for i := range dirs {
		info, err := root.Lstat(path.Join(dirs[:i+1]...))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("look at it: %w", err)
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, errors.New(path.Join(dirs[:i+1]...) + " is a link, which is not followed")
		case i == len(dirs)-1 && !info.Mode().IsRegular():
			return nil, errors.New("it is not a file")
		}
	}
	f, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("read it: %w", err)
	}
	defer func() { _ = f.Close() }() // nothing was written
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read it: %w", err)
	case len(text) > maxConfig:
		return nil, fmt.Errorf("it has more than %d bytes", maxConfig)
	case text == nil:
		text = []byte{}
	}
	return text, nil
}

// Write makes the change: first the copy, then the configuration. Each is replaced as a whole, so
// that a client never reads a half. It refuses if the file has changed since the plan was made.
func (p *Plan) Write() error {
	if !p.Changes() {
		return nil
	}
	root, err := os.OpenRoot(p.base)
	if err != nil {
		return fmt.Errorf("open the directory of the configuration: %w", err)
	}
	defer func() { _ = root.Close() }() // every file was synced by itself
	now, err := readFile(root, p.name)
	if err != nil {
		return p.wrong(err)
	}
	if !same(now, p.before) {
		return &haft.Error{Code: haft.CodeConflict, Message: p.Path + ": it has changed meanwhile: try again"}
	}
	mode := fs.FileMode(0o600)
	if p.Client.project {
		mode = 0o644
	}
	if info, err := root.Lstat(p.name); err == nil {
		mode = info.Mode().Perm()
	}
	if err = root.MkdirAll(path.Dir(p.name), 0o755); err == nil && p.backupAfter != nil {
		err = replace(root, p.name+backupSuffix, p.backupAfter, mode)
	}
	if err == nil && p.after == nil {
		err = root.Remove(p.name)
	} else if err == nil {
		err = replace(root, p.name, p.after, mode)
	}
	if err == nil && p.backupAfter == nil && p.backupBefore != nil {
		err = root.Remove(p.name + backupSuffix)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", p.Path, err)
	}
	return nil
}

// replace writes a file, and puts it in the place of name.
func replace(root *os.Root, name string, text []byte, mode fs.FileMode) error {
	next := name + ".haft-new"
	if err := root.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close()); err == nil {
		err = root.Rename(next, name)
	}
	if err != nil {
		return errors.Join(err, root.Remove(next))
	}
	return nil
}

// same reports whether two files are the same; nil is one that does not exist.
func same(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
