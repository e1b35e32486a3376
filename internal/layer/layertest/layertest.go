// Package layertest makes Python packages for tests, so that those need no index.
package layertest

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Wheel writes a built package that holds one module into dir, and returns its
// file. The module is called like the package unless name is "NAME:MODULE".
func Wheel(t testing.TB, dir, name, version, source string, requires ...string) string {
	t.Helper()
	name, module, ok := strings.Cut(name, ":")
	if !ok {
		module = name
	}
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	info := fmt.Sprintf("%s-%s.dist-info/", name, version)
	meta := fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name, version)
	for _, r := range requires {
		meta += "Requires-Dist: " + r + "\n"
	}
	var record strings.Builder
	put := func(name, text string) {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256([]byte(text))
		fmt.Fprintf(&record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	}
	put(module+".py", source)
	put(info+"METADATA", meta)
	put(info+"WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	put(info+"RECORD", record.String()+info+"RECORD,,\n")
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(dir, fmt.Sprintf("%s-%s-py3-none-any.whl", name, version)), buf.Bytes())
}

// Source writes a package that has to be built, by the backend in the text, which
// has the functions of PEP 517. It needs no other packages for that.
func Source(t testing.TB, dir, name, version, backend string) string {
	t.Helper()
	var buf bytes.Buffer
	gz := gzip.NewWriter(&buf)
	tw := tar.NewWriter(gz)
	for file, text := range map[string]string{
		"pyproject.toml": fmt.Sprintf("[build-system]\nrequires = []\nbuild-backend = \"backend\"\nbackend-path = "+
			"[\".\"]\n[project]\nname = %q\nversion = %q\n", name, version),
		"backend.py": backend, "PKG-INFO": fmt.Sprintf("Metadata-Version: 2.1\nName: %s\nVersion: %s\n", name,
			version),
	} {
		err := tw.WriteHeader(&tar.Header{Name: name + "-" + version + "/" + file, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = io.WriteString(tw, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tw.Close(); err != nil {
		t.Fatal(err)
	}
	if err := gz.Close(); err != nil {
		t.Fatal(err)
	}
	return write(t, filepath.Join(dir, name+"-"+version+".tar.gz"), buf.Bytes())
}

// write writes a file that every user may read.
func write(t testing.TB, file string, data []byte) string {
	t.Helper()
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
