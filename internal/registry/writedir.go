package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"haft"
)

// WriteDir writes the current versions of tools into a directory in the form that
// [ReadDir] reads. What is read back and put makes versions with the same
// digests. Files of the same names are replaced; others stay. Tools without
// source, which is what built-in and MCP tools are, are left out, and so are
// those that have no current version. It returns the paths of the sources.
func WriteDir(dir string, tools []haft.Tool) (written []string, err error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, dirError(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, dirError(err)
	}
	defer func() { _ = root.Close() }() // every file was synced by itself
	taken := map[string]bool{}
	for _, t := range tools {
		end, ok := ending(t.Version.Kind)
		if !ok || t.Version.Number == 0 && t.Version.Source == "" {
			continue
		}
		if err := haft.CheckToolName(t.Name); err != nil {
			return written, err
		}
		// Some systems take "Add" and "add" for one file, and test_it would not be
		// read. The name is in the sidecar.
		stem := t.Name
		for n := 2; taken[strings.ToLower(stem)] || skipFile(stem+end); n++ {
			stem = fmt.Sprintf("tool-%s-%d", t.Name, n)
		}
		taken[strings.ToLower(stem)] = true
		side, err := writeSidecar(t)
		if err != nil {
			return written, err
		}
		if err := write(root, stem+sidecarEnd, side); err != nil {
			return written, fileError(stem+sidecarEnd, err)
		}
		if err := write(root, stem+end, []byte(t.Version.Source)); err != nil {
			return written, fileError(stem+end, err)
		}
		written = append(written, stem+end)
	}
	return written, nil
}

// writeSidecar writes what stands beside a source.
func writeSidecar(t haft.Tool) ([]byte, error) {
	v := t.Version
	d := haft.Draft{
		Name: t.Name, Kind: v.Kind, Function: v.Function, Description: v.Description, Category: t.Category,
		Tags:        t.Tags,
		Annotations: v.Annotations, Settings: v.Settings, Needs: v.Requirements, Parameters: v.Parameters,
		Returns: v.Returns,
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	// The source is beside it, so it is not here, not even empty.
	if err := enc.Encode(struct {
		haft.Draft
		Source string `json:"source_code,omitempty"`
	}{Draft: d}); err != nil {
		return nil, fmt.Errorf("write what belongs to the tool %s: %w", t.Name, err)
	}
	return b.Bytes(), nil
}

// write replaces a file as a whole or not at all.
func write(root *os.Root, name string, text []byte) (err error) {
	temporary := "." + name + ".new"
	if err := root.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary) // the first error says what is wrong
	}
	return err
}
