package tooltest

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"haft"
	"haft/internal/registry"
	"haft/internal/toolfile"
)

// within returns the path of a file below the directory of the test file: a test that came with a repository neither
// reads nor writes other files of whoever runs it.
func (f *File) within(name string) (string, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(f.Path))
	if err != nil {
		return "", fmt.Errorf("find the directory of the test: %w", err)
	}
	at := filepath.Join(dir, filepath.FromSlash(name))
	real, err := filepath.EvalSymlinks(at)
	if _, missing := os.Lstat(at); errors.Is(missing, fs.ErrNotExist) { // it is written there: its directory counts
		real, err = filepath.EvalSymlinks(filepath.Dir(at))
	} else if errors.Is(err, fs.ErrNotExist) { // a link to what is not there would be written through
		return "", fmt.Errorf("find a file of the test: %w", err)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("find a file of the test: %w", err)
	}
	if !filepath.IsLocal(filepath.FromSlash(name)) || err == nil && !isBelow(dir, real) {
		return "", &haft.Error{Code: haft.CodeInvalid,
			Message: f.Path + ": a test names only files below its own directory, and none by a link that leads " +
				"elsewhere"}
	}
	return at, f.checkKind(name, at)
}

// toolPath returns the FILE[:FUNCTION] or the directory of a tool, as readers of tools take it.
func (f *File) toolPath(ref string) (string, error) {
	at := f.join(ref)
	file, _ := toolfile.SplitRef(at)
	if err := f.inProject(file); err != nil {
		return "", err
	}
	return at, f.inProject(registry.SidecarOf(file)) // which is read with it, if it is there
}

// filePath returns the PATH[:NAME] of a file that lies beside the source of a tool.
func (f *File) filePath(text string) (string, error) {
	at := f.join(text)
	file, _ := toolfile.SplitName(at)
	return at, f.inProject(file)
}

// inProject refuses what a test file names as a tool, or as a file of one, if it is neither below the repository of the
// test, nor below the current directory where there is none. It may lie beside the directory of the test. What is read
// goes into a sandbox, whose output strangers may see.
func (f *File) inProject(path string) error {
	real, err := filepath.EvalSymlinks(path)
	// A link of /proc, such as to a pipe, can be opened though it names nothing.
	if _, gone := os.Stat(path); errors.Is(err, fs.ErrNotExist) && gone != nil {
		return nil // whoever reads it says so
	}
	if err == nil {
		real, err = filepath.Abs(real)
	}
	if err != nil {
		return fmt.Errorf("find a file of the test: %w", err)
	}
	root, err := f.projectDir()
	if err != nil {
		return err
	}
	if !isBelow(root, real) {
		return &haft.Error{Code: haft.CodeInvalid, Message: fmt.Sprintf("%s: %s is not below %s: a test names only "+
			"tools and files of its own repository, or of the current directory where there is none", f.Path, path,
			root)}
	}
	return f.checkKind(path, path)
}

// projectDir returns the repository that has the test file; else the current directory if the test file is below it,
// and else the directory of the test file. It is never the home directory of the user, nor one above that.
func (f *File) projectDir() (string, error) {
	dir, err := filepath.Abs(filepath.Dir(f.Path))
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the directory of the test: %w", err)
	}
	for up := dir; up != filepath.Dir(up); up = filepath.Dir(up) {
		if _, err := os.Stat(filepath.Join(up, gitDir)); err == nil && !hasHome(up) {
			return up, nil
		}
	}
	here, err := os.Getwd()
	if err == nil {
		here, err = filepath.EvalSymlinks(here)
	}
	if err == nil && isBelow(here, dir) && !hasHome(here) {
		return here, nil
	}
	return dir, nil
}

// hasHome reports whether a directory is the home directory of the user, or above it.
func hasHome(dir string) bool {
	home, err := os.UserHomeDir()
	if err == nil {
		home, err = filepath.EvalSymlinks(home)
	}
	return err == nil && isBelow(dir, home)
}

// join returns the path of a name that is relative to the test file.
func (f *File) join(name string) string {
	if filepath.IsAbs(name) {
		return filepath.Clean(name) // as readers take it: a .. behind a link would lead elsewhere for them
	}
	return filepath.Join(filepath.Dir(f.Path), filepath.FromSlash(name))
}

// checkKind refuses what is neither a file nor a directory: the reader of a pipe or a device may wait for ever.
func (f *File) checkKind(name, at string) error {
	info, err := os.Stat(at)
	if err != nil || info.Mode().IsRegular() || info.IsDir() {
		return nil //nolint:nilerr // whoever reads it says why that fails
	}
	return &haft.Error{Code: haft.CodeInvalid,
		Message: fmt.Sprintf("%s: %s is no regular file, and no directory", f.Path, name)}
}

// gitDir may have credentials, and programs that git starts. It is not one of the files of a repository.
const gitDir = ".git"

// isBelow reports whether a path without links is a directory, or below it and not of git.
func isBelow(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel) && !slices.ContainsFunc(
		strings.Split(rel, string(filepath.Separator)),
		func(part string) bool { return strings.EqualFold(part, gitDir) })
}
