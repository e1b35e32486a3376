// Package toolfile reads the files that people hand to haft: tools, their requirements and the
// files that tools are given.
package toolfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"haft"
	"haft/app"
	"haft/internal/registry"
	"haft/sandbox"
	"haft/schema"
)

// An Error says that a file cannot be read, or is not what was asked for.
type Error struct{ error }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.error }

// wrong marks err as an [Error].
func wrong(err error) error { return &Error{err} }

// ReadBounded reads a file of at most limit bytes.
func ReadBounded(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b, err
}

// maxFile is the largest file that is handed in from the command line.
const maxFile = 64 << 20

// maxFiles is how many files a tool can be handed.
const maxFiles = 256

// IsDir reports whether name is a directory.
func IsDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// ReadFiles reads the files that are handed to a tool. Of a directory that is
// everything below it that is not hidden or compiled, under its name.
func ReadFiles(names []string) ([]sandbox.File, error) {
	var files []sandbox.File
	for _, name := range names {
		if IsDir(name) {
			below, err := readFilesBelow(name)
			if err != nil {
				return nil, wrong(fmt.Errorf("read the files for the tool: %w", err))
			}
			files = append(files, below...)
			continue
		}
		from, to := SplitName(name)
		b, err := ReadBounded(from, maxFile)
		if err != nil {
			return nil, wrong(fmt.Errorf("read a file for the tool: %w", err))
		}
		files = append(files, sandbox.File{Name: to, Data: b})
	}
	if len(files) > maxFiles {
		return nil, wrong(fmt.Errorf("%d files for the tool, %d is the most", len(files), maxFiles))
	}
	return files, nil
}

// SplitName splits PATH[:NAME] into the file to read and the name that the tool finds it under.
func SplitName(text string) (from, to string) {
	if i := strings.LastIndexByte(text, ':'); i > 0 && i < len(text)-1 {
		if _, err := os.Lstat(text); err != nil {
			return text[:i], text[i+1:]
		}
	}
	return text, filepath.Base(text)
}

// FileID reads ID[:NAME], the id of a file that Haft keeps and the name that the tool finds it
// under. It reports whether the text is one, and no file of this machine.
func FileID(text string) (id haft.FileID, name string, ok bool) {
	at, name, _ := strings.Cut(text, ":")
	if !strings.HasPrefix(at, "file_") || strings.ContainsAny(at, "./") {
		return "", "", false
	}
	if _, err := os.Lstat(text); err == nil {
		return "", "", false
	}
	return haft.FileID(at), name, true
}

// readFilesBelow reads a directory. Links are not followed.
func readFilesBelow(dir string) ([]sandbox.File, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var files []sandbox.File
	err = filepath.WalkDir(abs, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name != abs && (strings.HasPrefix(d.Name(), ".") || d.Name() == "__pycache__" ||
			d.Name() == "node_modules"):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		case len(files) == maxFiles:
			return fmt.Errorf("there are more than %d files in it", maxFiles)
		}
		b, err := ReadBounded(name, maxFile)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(abs), name)
		files = append(files, sandbox.File{Name: filepath.ToSlash(rel), Data: b})
		return err
	})
	return files, err
}

// ReadSource reads the file of FILE[:FUNCTION]. One byte more than schema.MaxSource is read, so
// that the reader of the source refuses a file that is too long.
func ReadSource(ref string) (app.Source, error) {
	name, function := SplitRef(ref)
	kind, ok := registry.KindOf(name)
	if !ok {
		return app.Source{}, wrong(fmt.Errorf("%s: a tool is a .py, .ts, .js or .sh file", name))
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return app.Source{}, wrong(fmt.Errorf("%s: there is no such file", name))
	}
	if err != nil {
		return app.Source{}, wrong(fmt.Errorf("read the tool: %w", err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, schema.MaxSource+1))
	if err != nil {
		return app.Source{}, wrong(fmt.Errorf("read the tool: %w", err))
	}
	return app.Source{Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), Kind: kind, Text: text,
		File: filepath.Base(name), Function: function}, nil
}

// A Tool is a tool as it lies on this machine.
type Tool struct {
	Source app.Source
	// Path is that of the source.
	Path string
	// Files are those of the tool, and Requirements files that name its packages.
	Files        []sandbox.File
	Requirements []string
}

// ReadTool reads the tool of FILE[:FUNCTION], or of a directory with a haft.toml.
func ReadTool(ref string) (t Tool, err error) {
	if info, err := os.Stat(ref); err != nil || !info.IsDir() {
		t.Path, _ = SplitRef(ref)
		t.Source, err = ReadSource(ref)
		return t, err
	}
	found, err := registry.ReadDir(ref)
	if err != nil {
		return t, err
	}
	if len(found) != 1 || !found[0].Whole || path.Dir(found[0].Path) != "." {
		return t, wrong(fmt.Errorf("%s: a directory that is run has a %s with the entry of one tool", ref,
			registry.ToolDirFile))
	}
	f := found[0]
	if f.Err != nil {
		return t, f.Err
	}
	t.Path = filepath.Join(ref, f.Path)
	if t.Requirements, err = requirementFiles(ref); err != nil {
		return t, err
	}
	t.Source = app.Source{Name: strings.TrimSuffix(f.Path, path.Ext(f.Path)), Kind: f.Draft.Kind,
		Text: []byte(f.Draft.Source), File: f.Draft.File, Function: f.Draft.Function}
	for _, file := range f.Draft.Files {
		t.Files = append(t.Files, sandbox.File{Name: file.Path, Data: file.Bytes(), Mode: 0o644})
	}
	return t, nil
}

// SplitRef splits FILE:FUNCTION. The name of the file may have a colon too.
func SplitRef(ref string) (name, function string) {
	if _, err := os.Stat(ref); err == nil {
		return ref, ""
	}
	if i := strings.LastIndexByte(ref, ':'); i > 0 && !strings.ContainsRune(ref[i+1:], filepath.Separator) {
		return ref[:i], ref[i+1:]
	}
	return ref, ""
}

// ReadDraft reads the draft of FILE[:FUNCTION], and its sidecar.
func ReadDraft(ref string) (haft.Draft, error) {
	src, err := ReadSource(ref)
	if err != nil {
		return haft.Draft{}, err
	}
	name, _ := SplitRef(ref)
	f := registry.File{Name: filepath.Base(name), Function: src.Function, Source: src.Text}
	f.Sidecar, err = ReadBounded(registry.SidecarOf(name), registry.MaxSource)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return haft.Draft{}, wrong(fmt.Errorf("read the sidecar of the tool: %w", err))
	}
	d, err := f.Draft()
	if err != nil {
		return d, &haft.Error{Code: haft.CodeInvalid, Message: err.Error()}
	}
	return d, nil
}
