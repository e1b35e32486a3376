package registry

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
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
		ends := endings()[t.Version.Kind]
		if ends == nil || t.Version.Number == 0 && t.Version.Source == "" {
			continue
		}
		end := ends[0]
		if err := haft.CheckToolName(t.Name); err != nil {
			return written, err
		}
		// Some systems take "Add" and "add" for one file, and test_it would not be
		// read. The name is in the sidecar.
		base := t.Name
		for n := 2; taken[strings.ToLower(base)] || skipFile(base+end) || skipDir(base); n++ {
			base = fmt.Sprintf("tool-%s-%d", t.Name, n)
		}
		taken[strings.ToLower(base)] = true
		side, err := writeSidecar(t)
		if err != nil {
			return written, err
		}
		if len(t.Version.Files) > 0 {
			entry := base
			for slices.ContainsFunc(t.Version.Files, func(f haft.ToolFile) bool {
				return stem(f.Path) == entry || f.Path == entry+sidecarEnd
			}) {
				entry += "_"
			}
			if err := writeToolDir(root, base, entry+end, t); err != nil {
				return written, fileError(base, err)
			}
			base += "/" + entry
		}
		if err := write(root, base+sidecarEnd, side); err != nil {
			return written, fileError(base+sidecarEnd, err)
		}
		if err := write(root, base+end, []byte(t.Version.Source)); err != nil {
			return written, fileError(base+end, err)
		}
		written = append(written, base+end)
	}
	return written, nil
}

// writeSidecar writes the sidecar of a source.
func writeSidecar(t haft.Tool) ([]byte, error) {
	d := DraftOf(t)
	d.Category, d.Tags, d.Files = t.Category, t.Tags, nil
	// The file is called otherwise if the name of the tool cannot be its.
	d.File = cmp.Or(d.File, t.Name+endings()[d.Kind][0])
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	// The source is beside it, so it is not here, not even empty.
	if err := enc.Encode(struct {
		haft.Draft
		Source string `json:"source_code,omitempty"`
	}{Draft: d}); err != nil {
		return nil, fmt.Errorf("write the sidecar of tool %s: %w", t.Name, err)
	}
	return b.Bytes(), nil
}

// write replaces a file as a whole or not at all.
func write(root *os.Root, name string, text []byte) (err error) {
	temporary := path.Join(path.Dir(name), "."+path.Base(name)+".new")
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
