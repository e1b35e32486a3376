package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"haft"
	"haft/app"
	"haft/sandbox"
	"haft/schema"
)

// size is a flag for a number of bytes, such as 512MiB.
type size int64

// units are those in which a size can be given.
var units = []struct {
	name  string
	bytes int64
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"K", 1 << 10},
	{"M", 1 << 20}, {"G", 1 << 30}, {"B", 1}, {"", 1}}

// String returns the size in bytes.
func (s *size) String() string {
	if *s == 0 {
		return "512MiB"
	}
	return strconv.FormatInt(int64(*s), 10)
}

// Type is what the help calls the value.
func (s *size) Type() string { return "size" }

// Set reads a size.
func (s *size) Set(text string) error {
	for _, u := range units {
		digits, ok := strings.CutSuffix(text, u.name)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
		if err != nil || n <= 0 || n > (1<<62)/u.bytes {
			break
		}
		*s = size(n * u.bytes)
		return nil
	}
	return errors.New("a size is a number with B, KiB, MiB or GiB")
}

// parseSince reads how far to look back.
func parseSince(text string, now time.Time) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	short := text
	times := time.Duration(1)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		short, times = days+"h", 24
	}
	if d, err := time.ParseDuration(short); err == nil && d >= 0 && d < 1e6*time.Hour {
		return now.Add(-times * d), nil
	}
	return time.Time{},
		usage(errors.New("--since is a duration such as 90s, 2h or 3d, or a time such as 2006-01-02T15:04:05Z"))
}

// prefixes reads the ranges of addresses of a flag.
func prefixes(flag string, texts []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, t := range texts {
		p, err := netip.ParsePrefix(t)
		if err != nil {
			return nil, usage(fmt.Errorf("%s is a range of addresses, such as 10.0.0.0/8", flag))
		}
		all = append(all, p)
	}
	return all, nil
}

// pairs reads flags of the form K=V.
func pairs(flag string, list []string) (map[string]string, error) {
	m := make(map[string]string, len(list))
	for _, kv := range list {
		k, v, ok := strings.Cut(kv, "=")
		if !ok || k == "" {
			return nil, usage(fmt.Errorf("%s is K=V", flag))
		}
		m[k] = v
	}
	return m, nil
}

// readBounded reads a file of at most limit bytes.
func readBounded(name string, limit int64) ([]byte, error) {
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

// readGiven reads a text that a flag gives: @FILE, - for standard input, or the text itself.
func readGiven(in io.Reader, text string) (raw []byte, err error) {
	switch name, isFile := strings.CutPrefix(text, "@"); {
	case text == "-":
		raw, err = io.ReadAll(io.LimitReader(in, schema.MaxBytes+1))
	case isFile:
		raw, err = readBounded(name, schema.MaxBytes)
	default:
		return []byte(text), nil
	}
	if err != nil {
		return nil, usage(fmt.Errorf("read the arguments: %w", err))
	}
	return raw, nil
}

// readDocument reads the JSON that a flag gives into v. It refuses unknown fields.
func readDocument(in io.Reader, flag, text string, v any) error {
	raw, err := readGiven(in, text)
	if err != nil {
		return err
	}
	if _, err := schema.Decode(raw); err != nil {
		return &haft.Error{Code: haft.CodeInvalid, Message: flag + " cannot be read: " + err.Error(), Err: err}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return &haft.Error{Code: haft.CodeInvalid,
			Message: flag + " cannot be read: " + strings.TrimPrefix(err.Error(), "json: ")}
	}
	return nil
}

// withOutput calls write with the file of --output, or with standard output if none is named.
func (p *profile) withOutput(name string, write func(io.Writer) error) (err error) {
	if name == "" {
		return write(p.out)
	}
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return usage(fmt.Errorf("write the export: %w", err))
	}
	return errors.Join(write(file), file.Close())
}

// maxFile is the largest file that is handed in from the command line.
const maxFile = 64 << 20

// maxFiles is how many files a tool can be handed.
const maxFiles = 256

// isDir reports whether name is a directory.
func isDir(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// readFiles reads the files that are handed to a tool. Of a directory that is
// everything below it that is not hidden or compiled, under its name.
func readFiles(names []string) ([]sandbox.File, error) {
	var files []sandbox.File
	for _, name := range names {
		if isDir(name) {
			below, err := readFilesBelow(name)
			if err != nil {
				return nil, usage(fmt.Errorf("read the files for the tool: %w", err))
			}
			files = append(files, below...)
			continue
		}
		b, err := readBounded(name, maxFile)
		if err != nil {
			return nil, usage(fmt.Errorf("read a file for the tool: %w", err))
		}
		files = append(files, sandbox.File{Name: filepath.Base(name), Data: b})
	}
	if len(files) > maxFiles {
		return nil, usage(fmt.Errorf("%d files for the tool, %d is the most", len(files), maxFiles))
	}
	return files, nil
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
		b, err := readBounded(name, maxFile)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(filepath.Dir(abs), name)
		files = append(files, sandbox.File{Name: filepath.ToSlash(rel), Data: b})
		return err
	})
	return files, err
}

// extensions maps the endings of file names to kinds of tools.
var extensions = map[string]haft.Kind{
	".py": haft.KindPython,
	".ts": haft.KindTypeScript, ".mts": haft.KindTypeScript, ".cts": haft.KindTypeScript,
	".js": haft.KindJavaScript, ".mjs": haft.KindJavaScript, ".cjs": haft.KindJavaScript,
	".sh": haft.KindBash, ".bash": haft.KindBash,
}

// readSource reads the file of FILE[:FUNCTION]. One byte more than schema.MaxSource is read, so
// that the reader of the source refuses a file that is too long.
func readSource(ref string) (app.Source, error) {
	name, function := splitRef(ref)
	kind, ok := extensions[strings.ToLower(filepath.Ext(name))]
	if !ok {
		return app.Source{}, usage(fmt.Errorf("%s: a tool is a .py, .ts, .js or .sh file", name))
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return app.Source{}, usage(fmt.Errorf("%s: there is no such file", name))
	}
	if err != nil {
		return app.Source{}, usage(fmt.Errorf("read the tool: %w", err))
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, schema.MaxSource+1))
	if err != nil {
		return app.Source{}, usage(fmt.Errorf("read the tool: %w", err))
	}
	return app.Source{Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)), Kind: kind, Text: text,
		Function: function}, nil
}

// splitRef splits FILE:FUNCTION. The name of the file may have a colon too.
func splitRef(ref string) (name, function string) {
	if _, err := os.Stat(ref); err == nil {
		return ref, ""
	}
	if i := strings.LastIndexByte(ref, ':'); i > 0 && !strings.ContainsRune(ref[i+1:], filepath.Separator) {
		return ref[:i], ref[i+1:]
	}
	return ref, ""
}
