package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"haft"
	"haft/app"
	"haft/schema"
)

// extensions maps the endings of file names to kinds of tools.
var extensions = map[string]haft.Kind{
	".py": haft.KindPython,
	".ts": haft.KindTypeScript, ".mts": haft.KindTypeScript, ".cts": haft.KindTypeScript,
	".js": haft.KindJavaScript, ".mjs": haft.KindJavaScript, ".cjs": haft.KindJavaScript,
	".sh": haft.KindBash, ".bash": haft.KindBash,
}

// readSource reads the file of FILE[:FUNCTION].
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
	// One byte more than allowed tells that there is more.
	text, err := io.ReadAll(io.LimitReader(f, schema.MaxSource+1))
	if err != nil {
		return app.Source{}, usage(fmt.Errorf("read the tool: %w", err))
	}
	return app.Source{
		Name: strings.TrimSuffix(filepath.Base(name), filepath.Ext(name)),
		Kind: kind, Text: text, Function: function,
	}, nil
}

// splitRef splits FILE:FUNCTION. A file whose own name has a colon is found too.
func splitRef(ref string) (name, function string) {
	if _, err := os.Stat(ref); err == nil {
		return ref, ""
	}
	if i := strings.LastIndexByte(ref, ':'); i > 0 && !strings.ContainsRune(ref[i+1:], filepath.Separator) {
		return ref[:i], ref[i+1:]
	}
	return ref, ""
}
